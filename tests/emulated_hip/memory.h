// Memory of the devices and pinned memory of the host, as pages of this process: an address of the device is one of the
// host. Each allocation is between pages that nothing may touch; addresses that were freed are not used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulated_hip {

enum class MemoryKind : uint8_t { kDevice, kPinned, kRange };

struct Allocation {
  MemoryKind kind;
  int device;
  size_t bytes;    // as asked for
  size_t charged;  // bytes of the device
  char* mapping;   // with the guard pages
  size_t mapped;
  size_t padded;                    // bytes up to the guard page; those behind `bytes` hold a pattern
  std::map<size_t, size_t> pieces;  // of a range: offset and bytes of what is mapped and accessible
};

// Addresses; the amounts of a device are the caller's concern. All functions need the runtime's lock.
class Memory {
 public:
  explicit Memory(bool poisons) : poisons_(poisons) {}

  // Null if the host has no memory. `bytes` > 0.
  void* allocate(MemoryKind kind, int device, size_t bytes, size_t charged);
  void* reserve(int device, size_t bytes, size_t alignment);
  // The allocation that begins at this address; null if there is none.
  Allocation* find(const void* address);
  // The allocation that contains [address, address + bytes), as far as its memory is accessible.
  Allocation* find_around(const void* address, size_t bytes);
  void release(const void* address);

  // "a write 4 bytes behind device allocation of 400 bytes", or empty; the pattern is restored.
  std::string find_overwritten();
  std::string describe(const void* address);
  const std::map<uintptr_t, Allocation>& all() const { return allocations_; }

 private:
  std::map<uintptr_t, Allocation>::iterator around(uintptr_t at);
  bool poison(char* begin, size_t bytes);

  bool poisons_;
  int template_ = -1;  // a file of pages that hold the pattern
  std::map<uintptr_t, Allocation> allocations_;
};

}  // namespace emulated_hip
