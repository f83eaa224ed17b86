#include "src/base/large_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "src/base/round_up.h"

namespace gabbro {

std::shared_ptr<void> allocate_large(size_t bytes) {
  constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
  const size_t alignment = bytes < kHugePage ? kPage : kHugePage;
  void* memory = nullptr;  // not aligned_alloc: its sizes are multiples of the alignment
  if (::posix_memalign(&memory, alignment, round_up(bytes > 0 ? bytes : 1, kPage)) != 0) throw std::bad_alloc();
  // Whole huge pages alone: of a part the rest would be allocated as well. Advice, which may be refused.
  if (bytes >= kHugePage) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return {memory, std::free};
}

}  // namespace gabbro
