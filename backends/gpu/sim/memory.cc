#include "backends/gpu/sim/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include <fmt/format.h>

#include "src/base/round_up.h"

namespace gabbro::gpu::sim {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kPattern = 0xa5;

struct Allocation {
  size_t bytes;
  std::byte* mapping;
  size_t mapped;
  bool pinned;
  bool readable = true;
  size_t without_memory = 0;                  // of the bytes
  std::map<std::uintptr_t, size_t> pieces{};  // those that commit() gave memory, by address
};

std::mutex mutex;
using Allocations = std::map<std::uintptr_t, Allocation>;  // by address
// Never destroyed: a device that lives as long as the program gives its memory back last of all.
union Forever {
  Forever() : all() {}
  ~Forever() {}
  Allocations all;
};
Allocations& allocations() {
  static Forever forever;
  return forever.all;
}
size_t total_bytes = 0, range_bytes = 0;

// The first byte in [begin, end) that is not of the pattern, or null.
std::byte* first_written(std::byte* begin, std::byte* end) {
  std::byte* found = std::find_if(begin, end, [](std::byte byte) { return byte != std::byte{kPattern}; });
  return found == end ? nullptr : found;
}

}  // namespace

void* allocate(size_t bytes, bool pinned) {
  const size_t padded = round_up(std::max<size_t>(bytes, 1), kAlignment);
  const size_t pages = round_up(padded, kPage);
  const size_t mapped = pages + 2 * kPage;
  void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(mapping);
  ::mprotect(base, kPage, PROT_NONE);
  ::mprotect(base + kPage + pages, kPage, PROT_NONE);
  std::byte* pointer = base + kPage + pages - padded;
  std::memset(base + kPage, kPattern, pages - padded);
  std::memset(pointer + bytes, kPattern, padded - bytes);
  const std::lock_guard lock(mutex);
  allocations()[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes, base, mapped, pinned};
  total_bytes += bytes;
  return pointer;
}

void* reserve(size_t bytes) {
  bytes = round_up(bytes, kPage);
  void* const pointer = allocate(bytes);
  if (pointer == nullptr) return nullptr;
  ::mprotect(pointer, bytes, PROT_NONE);
  const std::lock_guard lock(mutex);
  Allocation& allocation = allocations()[reinterpret_cast<std::uintptr_t>(pointer)];
  allocation.without_memory = bytes;
  total_bytes -= bytes;
  return pointer;
}

namespace {

// The allocation that begins there or before; the mutex is held.
Allocation& allocation_at(std::uintptr_t address) { return std::prev(allocations().upper_bound(address))->second; }

}  // namespace

void commit(void* begin, size_t bytes) {
  ::mprotect(begin, bytes, PROT_READ | PROT_WRITE);
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  Allocation& allocation = allocation_at(address);
  allocation.without_memory -= bytes;
  allocation.pieces[address] = bytes;
  total_bytes += bytes;
  range_bytes += bytes;
}

bool decommit(void* begin, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  Allocation& allocation = allocation_at(address);
  const auto piece = allocation.pieces.find(address);
  if (piece == allocation.pieces.end() || piece->second != bytes) return false;
  allocation.pieces.erase(piece);
  allocation.without_memory += bytes;
  total_bytes -= bytes;
  range_bytes -= bytes;
  ::mprotect(begin, bytes, PROT_NONE);
  return true;
}

bool has_pieces(const void* reserved) {
  const std::lock_guard lock(mutex);
  return !allocation_at(reinterpret_cast<std::uintptr_t>(reserved)).pieces.empty();
}

size_t committed_bytes() {
  const std::lock_guard lock(mutex);
  return range_bytes;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Allocation allocation{};
  {
    const std::lock_guard lock(mutex);
    const auto found = allocations().find(address);
    if (found == allocations().end()) throw std::logic_error("sim: freed what is not an allocation");
    allocation = found->second;
    allocations().erase(found);
    total_bytes -= allocation.bytes - allocation.without_memory;
  }
  ::munmap(allocation.mapping, allocation.mapped);
}

void release_all() {
  const std::lock_guard lock(mutex);
  for (const auto& [address, allocation] : allocations()) ::munmap(allocation.mapping, allocation.mapped);
  allocations().clear();
  total_bytes = range_bytes = 0;
}

std::string find_overwritten() {
  const std::lock_guard lock(mutex);
  for (const auto& [address, allocation] : allocations()) {
    if (!allocation.readable) continue;
    auto* start = reinterpret_cast<std::byte*>(address);
    std::byte *first = allocation.mapping + kPage, *last = allocation.mapping + allocation.mapped - kPage;
    if (std::byte* written = first_written(start + allocation.bytes, last)) {
      std::memset(written, kPattern, static_cast<size_t>(last - written));
      return fmt::format("a write {} bytes behind an allocation of {} bytes",
                         written - start - static_cast<std::ptrdiff_t>(allocation.bytes), allocation.bytes);
    }
    if (std::byte* written = first_written(first, start)) {
      std::memset(written, kPattern, static_cast<size_t>(start - written));
      return fmt::format("a write {} bytes before an allocation of {} bytes", start - written, allocation.bytes);
    }
  }
  return {};
}

std::string describe_address(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex);
  auto after = allocations().upper_bound(at);
  if (after != allocations().begin()) {
    const auto& [start, allocation] = *std::prev(after);
    if (at < reinterpret_cast<std::uintptr_t>(allocation.mapping) + allocation.mapped)
      return fmt::format("access at byte {} of an allocation of {} bytes", at - start, allocation.bytes);
  }
  if (after != allocations().end() && at >= reinterpret_cast<std::uintptr_t>(after->second.mapping))
    return fmt::format("access {} bytes before an allocation of {} bytes", after->first - at, after->second.bytes);
  return fmt::format("access at {}, which is not device memory", address);
}

namespace {

// The allocation that this byte is in, or null; the mutex is held.
const std::pair<const std::uintptr_t, Allocation>* allocation_of(std::uintptr_t at) {
  const auto after = allocations().upper_bound(at);
  if (after == allocations().begin()) return nullptr;
  const auto& found = *std::prev(after);
  return at < found.first + found.second.bytes ? &found : nullptr;
}

}  // namespace

bool is_pinned(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto* const found = allocation_of(reinterpret_cast<std::uintptr_t>(memory));
  return found != nullptr && found->second.pinned;
}

std::string describe_range(std::uintptr_t begin, std::uintptr_t end) {
  const std::lock_guard lock(mutex);
  const auto* const found = allocation_of(begin);
  if (found == nullptr) return fmt::format("{} bytes at {:#x}, which is not device memory", end - begin, begin);
  return fmt::format("bytes {} to {} of an allocation of {} bytes", begin - found->first, end - found->first,
                     found->second.bytes);
}

std::pair<std::uintptr_t, std::uintptr_t> own_pages(const void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  const auto* const found = allocation_of(begin);
  if (found == nullptr || bytes == 0) return {0, 0};
  // The rest of an allocation's pages is padding.
  const auto first = begin == found->first ? begin / kPage * kPage : round_up(begin, kPage);
  const auto last = end == found->first + found->second.bytes ? round_up(end, kPage) : end / kPage * kPage;
  return {first, std::max(first, last)};
}

void set_protection(std::uintptr_t begin, std::uintptr_t end, int protection) {
  const std::lock_guard lock(mutex);
  ::mprotect(reinterpret_cast<void*>(begin), end - begin, protection);
  // The allocation begins in the first of the pages, or before.
  const auto after = allocations().lower_bound(end);
  if (after != allocations().begin()) std::prev(after)->second.readable = protection != PROT_NONE;
}

size_t allocation_bytes(const void* pointer) {
  const std::lock_guard lock(mutex);
  const auto found = allocations().find(reinterpret_cast<std::uintptr_t>(pointer));
  return found == allocations().end() ? 0 : found->second.bytes;
}

size_t allocated_bytes() {
  const std::lock_guard lock(mutex);
  return total_bytes;
}

size_t allocation_count() {
  const std::lock_guard lock(mutex);
  return allocations().size();
}

}  // namespace gabbro::gpu::sim
