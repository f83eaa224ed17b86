// An opened device of a backend plugin: the calls of the contract with C++ ownership and exceptions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/backend_abi.h"
#include "src/backend/memory_block.h"
#include "src/base/error.h"
#include "src/tensor/tensor.h"

namespace gabbro {

// kNoDevice for a device with too little memory.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(ErrorCode::kNoDevice, message) {}
};

// A kernel bound to one request; released with its last owner.
struct KernelHandle {
  KernelHandle(const abi::Backend* owner, abi::Device* on, const abi::BoundKernel& kernel)
      : backend(owner), device(on), bound(kernel) {}
  ~KernelHandle() { backend->release_kernel(device, bound.handle); }
  KernelHandle(const KernelHandle&) = delete;
  KernelHandle& operator=(const KernelHandle&) = delete;

  const abi::Backend* backend;
  abi::Device* device;
  abi::BoundKernel bound;
};

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
  // Use of the pools. Throws if the device does not count.
  abi::PoolFacts memory(abi::MemoryKind kind) const;
  bool counts_memory() const { return backend_->memory_facts != nullptr; }
  void reset_memory_facts(abi::MemoryKind kind);  // restarts peaks and counts
  // Takes memory from the runtime, so that later allocations need not. Throws OutOfMemory, and where the device keeps
  // no memory.
  void reserve(abi::MemoryKind kind, size_t bytes);
  // Releases unused memory, the scratch of plans included. Returns the bytes.
  size_t trim(abi::MemoryKind kind);

  void copy_to_device(void* target, const void* host, size_t bytes);
  void copy_to_host(void* host, const void* source, size_t bytes);

  void synchronize();  // waits for all that was enqueued

  // Copies from another device's memory to this one's; the bytes are there on return. Devices of one backend may have a
  // direct route; between others the copy goes through host memory.
  void copy_from(Device& other, void* target, const void* source, size_t bytes);
  // How the copies of copy_from() go.
  abi::PeerRoute route_from(Device& other);

  // A matrix [rows, columns] from host memory, in the arrangement that this device's `linear` reads fastest; its memory
  // is taken from `block` if there is one. Where that arrangement is the one it has, and the device works in host
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

  // Null where the backend has no kernel for the request.
  std::shared_ptr<KernelHandle> find_kernel(const abi::KernelRequest& request);
  // Throws Error kInterrupted when `cancel` became true, and what the backend says when it failed.
  void execute(std::span<const abi::Launch> launches, const std::atomic<bool>* cancel);

  // For a device with several candidates per shape (abi::Tuning): their known speeds, and what was measured since it
  // was opened. Nothing for other devices.
  std::optional<abi::TuningFacts> tuning() const;
  std::vector<abi::MeasuredShape> measured_shapes() const;
  // Changes how that goes on, and forgets the plans of the device, so that it holds for whatever is evaluated next.
  // What was compiled (`Compiled`) keeps its kernels. Throws where there is one way for each shape.
  void set_tuning(const abi::TuningOptions& options);
  void forget_tuning();

  // Scratch that all plans of the device share, since only one of them runs at a time. Valid until it is asked for
  // more.
  void* workspace(size_t bytes);
  std::mutex& execution_mutex() { return execution_mutex_; }

  // State of the graph layer for this device (its plan cache).
  std::shared_ptr<void>& graph_context() { return graph_context_; }

 private:
  void* allocated(size_t bytes);
  void forget_plans();

  const abi::Backend* backend_;
  std::shared_ptr<void> library_;
  abi::Device* device_ = nullptr;
  abi::DeviceFacts facts_{};
  std::shared_ptr<void> workspace_;
  size_t workspace_bytes_ = 0;
  std::mutex execution_mutex_;
  std::shared_ptr<void> graph_context_;
};

// Status -> exception, naming what was being done.
void check(const abi::Status& status, const std::string& doing);

}  // namespace gabbro
