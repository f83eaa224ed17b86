// Stores into the memory of another device, and flags that tell it of them, while kernels of both devices run. The
// order: payload stores, release of system scope, store of the flag; load of the flag, acquire of system scope, loads
// of the payload. Each flag has one writer: PCIe has no atomics between devices.
//
// A word is an element and a number in 8 bytes, which arrive together: a reader that finds the number has the element,
// without flags and fences.
#pragma once

#include "kernels/gpu/gpu.h"
#if !defined(__HIPCC__) && !defined(__HIPCC_RTC__) && !defined(__CUDACC__)
#include <atomic>
#include <chrono>
#include <thread>
#endif

namespace gabbro::gpu::GABBRO_GPU {

// A wait looks at the clock and at the host's memory once in kLooks looks: a read by all blocks takes 1 us for each of
// them over PCIe, and the peers wait for it.
#if defined(__HIPCC__) || defined(__HIPCC_RTC__) || defined(__CUDACC__)
inline constexpr u32 kLooks = 8192;
#else
inline constexpr u32 kLooks = 64;
#endif

#if defined(__HIPCC__) || defined(__HIPCC_RTC__)
// Called by all threads of a block, before its first wave stores flags. One wave releases for the block.
GPU_FUNCTION inline void release_block_to_peers() {
  wait_for_stores();
  barrier();
  if (threadIdx.x < kWave) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
}
GPU_FUNCTION inline void store_flag(u32* flag, u32 value) {
  __hip_atomic_store(flag, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
GPU_FUNCTION inline u32 load_flag(const u32* flag) {
  return __hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// Two words, of the elements x and y.
GPU_FUNCTION inline void store_words(u64* words, float x, float y, u32 number) {
  const u64 high = static_cast<u64>(number) << 32;
  __hip_atomic_store(words, high | float_to_bits(x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_store(words + 1, high | float_to_bits(y), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// Whether both have come.
GPU_FUNCTION inline bool load_words(const u64* words, u32 number, float& x, float& y) {
  const u64 first = __hip_atomic_load(words, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM),
            second = __hip_atomic_load(words + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  x = bits_to_float(static_cast<u32>(first));
  y = bits_to_float(static_cast<u32>(second));
  return static_cast<u32>(first >> 32) == number && static_cast<u32>(second >> 32) == number;
}
// Called by the wave that has seen the flags; a barrier follows, and acquire_from_peers() by all threads.
GPU_FUNCTION inline void acquire_flags() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
GPU_FUNCTION inline void acquire_from_peers() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
GPU_FUNCTION inline void pause_before_next_look() { __builtin_amdgcn_s_sleep(1); }
// A clock of constant rate: 100 MHz, and ns on the others.
GPU_FUNCTION inline u64 ticks() { return __builtin_readsteadycounter(); }
#elif defined(__CUDACC__)
GPU_FUNCTION inline void release_block_to_peers() {
  barrier();  // the release of the flag's store is for all stores before it, of the other threads too
}
GPU_FUNCTION inline void store_flag(u32* flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
GPU_FUNCTION inline u32 load_flag(const u32* flag) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
GPU_FUNCTION inline void store_words(u64* words, float x, float y, u32 number) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(words), "r"(float_to_bits(x)), "r"(number),
               "r"(float_to_bits(y))
               : "memory");
}
GPU_FUNCTION inline bool load_words(const u64* words, u32 number, float& x, float& y) {
  u32 first, first_number, second, second_number;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(first), "=r"(first_number), "=r"(second), "=r"(second_number)
               : "l"(words)
               : "memory");
  x = bits_to_float(first);
  y = bits_to_float(second);
  return first_number == number && second_number == number;
}
GPU_FUNCTION inline void acquire_flags() {}
GPU_FUNCTION inline void acquire_from_peers() {
}  // the flag's load acquires, and the barrier orders all threads after it
GPU_FUNCTION inline void pause_before_next_look() {}
GPU_FUNCTION inline u64 ticks() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#else
inline void release_block_to_peers(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  fence();
  barrier(file, line);
}
inline void store_flag(u32* flag, u32 value) { std::atomic_ref(*flag).store(value); }
inline u32 load_flag(const u32* flag) { return std::atomic_ref(*const_cast<u32*>(flag)).load(); }
inline void store_words(u64* words, float x, float y, u32 number) {
  const u64 high = static_cast<u64>(number) << 32;
  std::atomic_ref(words[0]).store(high | float_to_bits(x));
  std::atomic_ref(words[1]).store(high | float_to_bits(y));
}
inline bool load_words(const u64* words, u32 number, float& x, float& y) {
  const u64 first = std::atomic_ref(const_cast<u64&>(words[0])).load(),
            second = std::atomic_ref(const_cast<u64&>(words[1])).load();
  x = bits_to_float(static_cast<u32>(first));
  y = bits_to_float(static_cast<u32>(second));
  return static_cast<u32>(first >> 32) == number && static_cast<u32>(second >> 32) == number;
}
inline void acquire_flags() { fence(); }
inline void acquire_from_peers() { fence(); }
// A yield would wait for whole time slices of what else runs on the machine.
inline void pause_before_next_look() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
inline u64 ticks() { return static_cast<u64>(std::chrono::steady_clock::now().time_since_epoch().count()); }
#endif

}  // namespace gabbro::gpu::GABBRO_GPU
