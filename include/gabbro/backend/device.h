// An opened device of a backend plugin, and how it is found.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gabbro/backend_abi.h"
#include "gabbro/tensor/tensor.h"

namespace gabbro {

class MemoryBlock;  // src/backend/memory_block.h

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

class Device : public std::enable_shared_from_this<Device> {
 public:
  // Throws what the backend says. `library` keeps the plugin's code loaded for as long as the device lives.
  Device(const abi::Backend* backend, int index, const abi::DeviceOptions& options, std::shared_ptr<void> library);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const abi::DeviceFacts& facts() const { return facts_; }
  bool host_accessible() const { return facts_.host_accessible; }

  // Memory that is freed with its last owner. Throws OutOfMemory.
  std::shared_ptr<void> allocate(size_t bytes);
  // Goes back to the system when it is freed, where allocate()'s is kept for the next that asks for as much.
  std::shared_ptr<void> allocate_unpooled(size_t bytes);
  // Host memory that copies need not go round, where the device has such; freed with its last owner. Throws as above.
  std::shared_ptr<void> allocate_host(size_t bytes);
  // Addresses for `bytes` of memory that comes by need, freed with the last owner; null where the device has no such
  // thing. Throws where there are no addresses.
  std::shared_ptr<void> reserve_range(size_t bytes);
  // Now its first `bytes` have memory. Throws OutOfMemory: it is as it was.
  void extend_range(void* range, size_t bytes);
  // Use of the pools. Throws if the device does not count.
  abi::PoolFacts memory(abi::MemoryKind kind) const;
  bool counts_memory() const;
  void reset_memory_facts(abi::MemoryKind kind);  // restarts peaks and counts
  // Takes memory from the runtime, so that later allocations need not. Throws OutOfMemory, and where the device keeps
  // no memory.
  void reserve(abi::MemoryKind kind, size_t bytes);
  // Releases unused memory, the scratch of plans included. Returns the bytes.
  size_t trim(abi::MemoryKind kind);

  void copy_to_device(void* target, const void* host, size_t bytes);
  // Throws Error kInterrupted within 100 ms of `cancel` becoming true: `host`, of allocate_host(), may be written
  // later.
  void copy_to_host(void* host, const void* source, size_t bytes, const std::atomic<bool>* cancel = nullptr);

  void synchronize();  // waits for all that was enqueued on its compute and its copy stream

  // Copies from another device's memory to this one's; the bytes are there on return. Devices of one backend may have a
  // direct route; between others the copy goes through host memory.
  void copy_from(Device& other, void* target, const void* source, size_t bytes);
  // How the copies of copy_from() go.
  abi::PeerRoute route_from(Device& other);

  // A matrix [rows, columns] from host memory, in the arrangement that this device's `linear` reads fastest; its memory
  // is taken from `block` if there is one. If `host` has that arrangement already, and the device works in host
  // memory, it is not copied, and the tensor owns `host` together with the others: a model's weights stay in its file's
  // pages.
  Tensor upload_matrix(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& host,
                       MemoryBlock* block = nullptr);
  // The memory that upload_matrix takes; 0 where it copies nothing.
  size_t matrix_bytes(DType dtype, int64_t rows, int64_t columns) const;
  // A contiguous tensor from host memory.
  Tensor upload(DType dtype, const Shape& shape, const void* host);
  // A contiguous tensor whose elements are, or will be written, in this memory of the device.
  Tensor tensor_in(std::shared_ptr<void> memory, DType dtype, const Shape& shape);

  // For a device with several candidates per shape (abi::Tuning): their known speeds, and what was measured since it
  // was opened. Nothing for other devices.
  std::optional<abi::TuningFacts> tuning() const;
  std::vector<abi::MeasuredShape> measured_shapes() const;
  // Changes how that goes on, and forgets the plans of the device, so that it holds for whatever is evaluated next.
  // Compiled functions (`Compiled`) keep their kernels. Throws if the device has one kernel for each shape.
  void set_tuning(const abi::TuningOptions& options);
  void forget_tuning();

  // For the library: src/backend/device.h.
  struct [[gnu::visibility("hidden")]] State;
  State& state() { return *state_; }

 private:
  void pack_from_host(const abi::PackRequest& all, const std::byte* host, void* target);

  abi::DeviceFacts facts_{};
  std::unique_ptr<State> state_;
};

// The facts of every device of every plugin, best first as `auto` ranks them. A plugin that cannot be loaded is listed
// as one unusable device with the reason.
std::vector<abi::DeviceFacts> list_devices();

// `name`: "auto" (also empty; the environment variable GABBRO_DEVICE replaces it), "gpu" (the best GPU of any vendor),
// a backend ("cpu", "rocm", also called "hip"), a device id ("cuda:0"), a PCI address ("pci:0000:03:00.0") or an
// architecture ("gfx1100"); "null" plans without running. If several devices fit a name, the best usable one is
// opened. Throws Error kNoDevice that says what is missing, and what to do about it.
DevicePointer open_device(const std::string& name, const abi::DeviceOptions& options = {});

}  // namespace gabbro
#pragma GCC visibility pop
