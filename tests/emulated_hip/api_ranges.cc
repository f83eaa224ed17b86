// Virtual memory: addresses are reserved, and memory is mapped to pieces of them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::Allocation;
using emulated_hip::call;
using emulated_hip::Device;
using emulated_hip::Failure;
using emulated_hip::Lock;
using emulated_hip::MemoryKind;
using emulated_hip::Runtime;

namespace {

constexpr size_t kMinimumGranularity = 4096;

// Memory of hipMemCreate: a part of one file. It goes back when neither a handle nor a mapping is left.
struct Physical {
  int device;
  size_t bytes;
  off_t offset;
  int uses = 1;  // the handle and each mapping
  bool fresh = true;
};

// A piece of a reservation with memory, and whether hipMemSetAccess has named it.
struct Piece {
  size_t bytes;
  Physical* physical;
  bool accessible = false;
};

struct Ranges {
  int file = -1;
  off_t end = 0;  // of the file's parts so far
  std::map<Physical*, std::unique_ptr<Physical>> physicals;
  std::map<uintptr_t, std::map<size_t, Piece>> reservations;  // by their first address; pieces by offset
  std::map<uintptr_t, uint64_t> maps;                         // hipMemMap calls, by reservation
  std::map<uintptr_t, bool> leaked;                           // a piece that was unmapped with others keeps a use
};

Ranges& ranges() {
  static Ranges& all = *new Ranges;
  return all;
}

void drop_use(Runtime& runtime, Physical* physical) {
  if (--physical->uses > 0) return;
  ::fallocate(ranges().file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset,
              static_cast<off_t>(physical->bytes));
  runtime.device(physical->device).charged -= physical->bytes;
  ranges().physicals.erase(physical);
}

// The reservation that contains [address, address + bytes), and the offset in it.
std::pair<uintptr_t, size_t> reservation_of(Runtime& runtime, const void* address, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto after = ranges().reservations.upper_bound(at);
  if (after != ranges().reservations.begin()) {
    const uintptr_t begin = std::prev(after)->first;
    const Allocation* found = runtime.memory.find(reinterpret_cast<void*>(begin));
    if (at - begin < found->bytes && bytes <= found->bytes - (at - begin)) return {begin, at - begin};
  }
  throw Failure{hipErrorInvalidValue, "the addresses are not in one reservation"};
}

// Pieces that cover exactly [offset, offset + bytes); throws if there are none.
std::vector<size_t> pieces_of(const std::map<size_t, Piece>& pieces, size_t offset, size_t bytes) {
  std::vector<size_t> found;
  size_t at = offset;
  while (at < offset + bytes) {
    const auto piece = pieces.find(at);
    if (piece == pieces.end() || at + piece->second.bytes > offset + bytes)
      throw Failure{hipErrorInvalidValue, "the range is not made of whole mapped pieces"};
    found.push_back(at);
    at += piece->second.bytes;
  }
  return found;
}

void require_device(Runtime& runtime, const hipMemLocation& location) {
  if (location.type != hipMemLocationTypeDevice) throw Failure{hipErrorInvalidValue, "the location is not a device"};
  static_cast<void>(runtime.device(location.id));
}

}  // namespace

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* property,
                                          hipMemAllocationGranularity_flags option) {
  return call("hipMemGetAllocationGranularity", [&](Runtime& runtime, Lock&) {
    if (granularity == nullptr || property == nullptr || property->type != hipMemAllocationTypePinned)
      throw Failure{hipErrorInvalidValue, "property"};
    require_device(runtime, property->location);
    *granularity = option == hipMemAllocationGranularityMinimum ? kMinimumGranularity
                                                                : runtime.settings.rules.recommended_granularity;
  });
}

hipError_t hipMemAddressReserve(void** pointer, size_t bytes, size_t alignment, void*, unsigned long long flags) {
  return call("hipMemAddressReserve", [&](Runtime& runtime, Lock&) {
    if (pointer == nullptr || flags != 0 || bytes == 0 || bytes % kMinimumGranularity != 0 ||
        (alignment & (alignment - 1)) != 0)
      throw Failure{hipErrorInvalidValue, "pointer, size, alignment or flags"};
    if (!runtime.settings.ranges) throw Failure{hipErrorNotSupported, "EMULATED_GPU_RANGES=0"};
    *pointer = runtime.memory.reserve(runtime.current_device(), bytes, std::max(alignment, size_t{2} << 20));
    if (*pointer == nullptr) throw Failure{hipErrorOutOfMemory, "no addresses"};
    ranges().reservations[reinterpret_cast<uintptr_t>(*pointer)];
    ++runtime.statistics.ranges;
  });
}

hipError_t hipMemAddressFree(void* pointer, size_t bytes) {
  return call("hipMemAddressFree", [&](Runtime& runtime, Lock& lock) {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    const auto found = ranges().reservations.find(at);
    const Allocation* allocation = runtime.memory.find(pointer);
    if (found == ranges().reservations.end() || allocation->bytes != bytes)
      throw Failure{hipErrorInvalidValue, "the addresses are not a reservation of this size"};
    if (!found->second.empty()) throw Failure{hipErrorInvalidValue, "memory is mapped to the addresses"};
    if (ranges().leaked.count(at) != 0) throw Failure{hipErrorInvalidValue, "the runtime counts a use that is left"};
    runtime.engine.wait_for_all(lock, allocation->device);
    emulated_hip::end_wait(runtime);
    ranges().reservations.erase(at);
    ranges().maps.erase(at);
    runtime.memory.release(pointer);
  });
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, size_t bytes, const hipMemAllocationProp* property,
                        unsigned long long flags) {
  return call("hipMemCreate", [&](Runtime& runtime, Lock&) {
    if (handle == nullptr || property == nullptr || flags != 0 || bytes == 0 || bytes % kMinimumGranularity != 0 ||
        property->type != hipMemAllocationTypePinned)
      throw Failure{hipErrorInvalidValue, "handle, size, property or flags"};
    require_device(runtime, property->location);
    Device& device = runtime.device(property->location.id);
    if (runtime.is_failing("malloc") || !runtime.has_room(device, bytes))
      throw Failure{hipErrorOutOfMemory, fmt::format("{} bytes of {}, {} in use", bytes, device.total, device.charged)};
    Ranges& all = ranges();
    if (all.file < 0) all.file = ::memfd_create("ranges", MFD_CLOEXEC);
    if (all.file < 0 || ::ftruncate(all.file, all.end + static_cast<off_t>(bytes)) != 0)
      throw Failure{hipErrorOutOfMemory, "the host has no memory"};
    auto physical = std::make_unique<Physical>();
    *physical = {.device = property->location.id, .bytes = bytes, .offset = all.end};
    all.end += static_cast<off_t>(bytes);
    runtime.charge(device, bytes);
    Physical* const key = physical.get();
    all.physicals[key] = std::move(physical);
    *handle = reinterpret_cast<hipMemGenericAllocationHandle_t>(key);
  });
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return call("hipMemRelease", [&](Runtime& runtime, Lock&) {
    auto* const physical = reinterpret_cast<Physical*>(handle);
    if (ranges().physicals.count(physical) == 0) throw Failure{hipErrorInvalidValue, "handle"};
    drop_use(runtime, physical);
  });
}

hipError_t hipMemMap(void* pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags) {
  return call("hipMemMap", [&](Runtime& runtime, Lock&) {
    auto* const physical = reinterpret_cast<Physical*>(handle);
    if (ranges().physicals.count(physical) == 0 || flags != 0 || offset != 0 || bytes != physical->bytes)
      throw Failure{hipErrorInvalidValue, "handle, offset, size or flags"};
    const auto [begin, at] = reservation_of(runtime, pointer, bytes);
    auto& pieces = ranges().reservations[begin];
    auto next = pieces.lower_bound(at);
    const bool overlaps = (next != pieces.end() && next->first < at + bytes) ||
                          (next != pieces.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at);
    if (overlaps) throw Failure{hipErrorInvalidValue, "memory is mapped there"};
    ++physical->uses;
    pieces[at] = {.bytes = bytes, .physical = physical};
    runtime.statistics.most_maps_of_a_range = std::max(runtime.statistics.most_maps_of_a_range, ++ranges().maps[begin]);
    ++runtime.statistics.map_calls;
  });
}

hipError_t hipMemSetAccess(void* pointer, size_t bytes, const hipMemAccessDesc* access, size_t count) {
  return call("hipMemSetAccess", [&](Runtime& runtime, Lock&) {
    if (access == nullptr || count != 1 || access->flags != hipMemAccessFlagsProtReadWrite)
      throw Failure{hipErrorInvalidValue, "access"};
    require_device(runtime, access->location);
    const auto [begin, at] = reservation_of(runtime, pointer, bytes);
    auto& pieces = ranges().reservations[begin];
    if (runtime.settings.rules.refuses_tail_access && at != 0 && ranges().reservations.size() > 1)
      throw Failure{hipErrorInvalidValue, "the range does not begin with its reservation"};
    Allocation& allocation = *runtime.memory.find(reinterpret_cast<void*>(begin));
    for (const size_t offset : pieces_of(pieces, at, bytes)) {
      Piece& piece = pieces[offset];
      if (piece.accessible) continue;
      char* const target = reinterpret_cast<char*>(begin) + offset;
      if (::mmap(target, piece.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, ranges().file,
                 piece.physical->offset) == MAP_FAILED)
        throw Failure{hipErrorOutOfMemory, "the host has no memory"};
      if (runtime.settings.poisons && std::exchange(piece.physical->fresh, false))
        std::memset(target, 0xa5, piece.bytes);
      piece.accessible = true;
      allocation.pieces[offset] = piece.bytes;
    }
  });
}

hipError_t hipMemUnmap(void* pointer, size_t bytes) {
  return call("hipMemUnmap", [&](Runtime& runtime, Lock& lock) {
    const auto [begin, at] = reservation_of(runtime, pointer, bytes);
    Allocation& allocation = *runtime.memory.find(reinterpret_cast<void*>(begin));
    runtime.engine.wait_for_all(lock, allocation.device);
    emulated_hip::end_wait(runtime);
    auto& pieces = ranges().reservations[begin];
    const std::vector<size_t> offsets = pieces_of(pieces, at, bytes);
    ++runtime.statistics.unmap_calls;
    const bool leaks = runtime.settings.rules.unmaps_one_piece && offsets.size() > 1;
    if (leaks) ranges().leaked[begin] = true;
    for (const size_t offset : offsets) {
      const Piece piece = pieces[offset];
      ::mmap(reinterpret_cast<char*>(begin) + offset, piece.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      pieces.erase(offset);
      allocation.pieces.erase(offset);
      // A release with this fault finds the first piece only.
      if (!leaks || offset == offsets.front()) drop_use(runtime, piece.physical);
    }
  });
}
