#include "src/base/cache_flush.h"

#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace gabbro {

#if defined(__x86_64__)

bool can_flush_caches() { return true; }

void flush_from_caches(const void* memory, size_t bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) _mm_clflush(static_cast<const char*>(memory) + at);
  _mm_mfence();
}

#elif defined(__aarch64__)

bool can_flush_caches() { return true; }  // Linux allows DC CIVAC to programs

void flush_from_caches(const void* memory, size_t bytes) {
  uint64_t type = 0;  // CTR_EL0, whose bits 16 to 19 are the logarithm of the smallest line in words
  asm("mrs %0, ctr_el0" : "=r"(type));
  const size_t line = size_t{4} << (type >> 16 & 15);
  for (size_t at = 0; at < bytes; at += line)
    asm volatile("dc civac, %0" : : "r"(static_cast<const char*>(memory) + at) : "memory");
  asm volatile("dsb ish" : : : "memory");
}

#else

bool can_flush_caches() { return false; }

void flush_from_caches(const void*, size_t) {}

#endif

}  // namespace gabbro
