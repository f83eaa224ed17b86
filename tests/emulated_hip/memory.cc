#include "tests/emulated_hip/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

namespace emulated_hip {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;  // of hipMalloc
constexpr int kPattern = 0xa5;
// Larger allocations get their pattern page by page, when they are touched: as private copies of these pages.
constexpr size_t kTemplateBytes = size_t{64} << 20;
constexpr size_t kFilledBytes = size_t{1} << 20;

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

const char* name_of(MemoryKind kind) {
  return kind == MemoryKind::kDevice   ? "device allocation"
         : kind == MemoryKind::kPinned ? "pinned allocation"
                                       : "range";
}

}  // namespace

bool Memory::poison(char* begin, size_t bytes) {
  if (bytes <= kFilledBytes) {
    std::memset(begin, kPattern, bytes);
    return true;
  }
  if (template_ < 0) {
    template_ = ::memfd_create("poison", MFD_CLOEXEC);
    if (template_ < 0 || ::ftruncate(template_, kTemplateBytes) != 0) return false;
    void* pages = ::mmap(nullptr, kTemplateBytes, PROT_READ | PROT_WRITE, MAP_SHARED, template_, 0);
    if (pages == MAP_FAILED) return false;
    std::memset(pages, kPattern, kTemplateBytes);
    ::munmap(pages, kTemplateBytes);
  }
  for (size_t done = 0; done < bytes; done += kTemplateBytes) {
    if (::mmap(begin + done, std::min(kTemplateBytes, bytes - done), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, template_, 0) == MAP_FAILED)
      return false;
  }
  return true;
}

void* Memory::allocate(MemoryKind kind, int device, size_t bytes, size_t charged) {
  const size_t padded = round_up(bytes, kAlignment), pages = round_up(padded, kPage), mapped = pages + 2 * kPage;
  void* const mapping = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(mapping) + kPage;
  ::mprotect(first, pages, PROT_READ | PROT_WRITE);
  char* const begin = first + pages - padded;  // as close to the guard page as the alignment allows
  if (poisons_ && !poison(first, pages)) {
    ::munmap(mapping, mapped);
    return nullptr;
  }
  std::memset(first, kPattern, static_cast<size_t>(begin - first));
  std::memset(begin + bytes, kPattern, padded - bytes);
  allocations_[reinterpret_cast<uintptr_t>(begin)] = {.kind = kind,
                                                      .device = device,
                                                      .bytes = bytes,
                                                      .charged = charged,
                                                      .mapping = static_cast<char*>(mapping),
                                                      .mapped = mapped,
                                                      .padded = padded,
                                                      .pieces = {}};
  return begin;
}

void* Memory::reserve(int device, size_t bytes, size_t alignment) {
  const size_t mapped = bytes + alignment + kPage;
  void* const mapping = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(mapping), alignment);
  allocations_[begin] = {.kind = MemoryKind::kRange,
                         .device = device,
                         .bytes = bytes,
                         .charged = 0,
                         .mapping = static_cast<char*>(mapping),
                         .mapped = mapped,
                         .padded = bytes,
                         .pieces = {}};
  return reinterpret_cast<void*>(begin);
}

std::map<uintptr_t, Allocation>::iterator Memory::around(uintptr_t at) {
  const auto after = allocations_.upper_bound(at);
  if (after == allocations_.begin()) return allocations_.end();
  const auto found = std::prev(after);
  return at < found->first + found->second.bytes ? found : allocations_.end();
}

Allocation* Memory::find(const void* address) {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  return found == allocations_.end() ? nullptr : &found->second;
}

Allocation* Memory::find_around(const void* address, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto found = around(at);
  if (found == allocations_.end() || bytes > found->second.bytes - (at - found->first)) return nullptr;
  if (found->second.kind != MemoryKind::kRange) return &found->second;
  // Pieces that follow each other without a gap.
  const std::map<size_t, size_t>& pieces = found->second.pieces;
  size_t offset = at - found->first;
  const size_t end = offset + bytes;
  auto piece = pieces.upper_bound(offset);
  if (piece == pieces.begin()) return nullptr;
  for (--piece; offset < end; ++piece) {
    if (piece == pieces.end() || piece->first > offset || piece->first + piece->second <= offset) return nullptr;
    offset = piece->first + piece->second;
  }
  return &found->second;
}

void Memory::release(const void* address) {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  // The addresses stay reserved: later accesses fault.
  ::mmap(found->second.mapping, found->second.mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations_.erase(found);
}

std::string Memory::find_overwritten() {
  const auto is_written = [](char byte) { return byte != static_cast<char>(kPattern); };
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.kind == MemoryKind::kRange) continue;
    char* const begin = reinterpret_cast<char*>(address);
    char* const end = begin + allocation.bytes;
    char* const first = allocation.mapping + kPage;
    char* const last = begin + allocation.padded;
    if (char* written = std::find_if(end, last, is_written); written != last) {
      std::memset(written, kPattern, static_cast<size_t>(last - written));
      return fmt::format("a write {} bytes behind a {} of {} bytes", written - end, name_of(allocation.kind),
                         allocation.bytes);
    }
    if (char* written = std::find_if(first, begin, is_written); written != begin) {
      std::memset(written, kPattern, static_cast<size_t>(begin - written));
      return fmt::format("a write {} bytes before a {} of {} bytes", begin - written, name_of(allocation.kind),
                         allocation.bytes);
    }
  }
  return {};
}

std::string Memory::describe(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto after = allocations_.upper_bound(at);
  if (after != allocations_.begin()) {
    const auto& [begin, allocation] = *std::prev(after);
    if (at < reinterpret_cast<uintptr_t>(allocation.mapping) + allocation.mapped)
      return fmt::format("access at byte {} of a {} of {} bytes", at - begin, name_of(allocation.kind),
                         allocation.bytes);
  }
  if (after != allocations_.end() && at >= reinterpret_cast<uintptr_t>(after->second.mapping))
    return fmt::format("access {} bytes before a {} of {} bytes", after->first - at, name_of(after->second.kind),
                       after->second.bytes);
  return fmt::format("access at {}, which is not device memory", address);
}

}  // namespace emulated_hip
