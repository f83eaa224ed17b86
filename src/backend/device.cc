#include "src/backend/device.h"

#include <algorithm>

#include "src/base/input_errors.h"

namespace gabbro {

void check(const abi::Status& status, const std::string& doing) {
  using abi::StatusCode;
  switch (status.code) {
    case StatusCode::kOk:
      return;
    case StatusCode::kCanceled:
      throw Error(ErrorCode::kInterrupted, "interrupted");
    case StatusCode::kOutOfMemory:
      throw OutOfMemory(fmt::format("{}: out of memory: {}", doing, status.message));
    case StatusCode::kBadIndex:
      throw IndexError(status.message);
    case StatusCode::kLost:
      throw failed("{}: the device was lost: {}", doing, status.message);
    case StatusCode::kFailed:
    case StatusCode::kUnsupported:
      break;
  }
  throw failed("{}: {}", doing, status.message);
}

namespace {

Error does_not_count(const abi::DeviceFacts& facts) { return failed("device {} does not count its memory", facts.id); }

Error one_way(const abi::DeviceFacts& facts) {
  return failed("device {} has one way to compute each shape: there is nothing to tune", facts.id);
}

}  // namespace

Device::Device(const abi::Backend* backend, int index, const abi::DeviceOptions& options, std::shared_ptr<void> library)
    : backend_(backend), library_(std::move(library)) {
  check(backend_->device_facts(index, &facts_), fmt::format("device {}:{}", backend_->name, index));
  check(backend_->open(index, &options, &device_), fmt::format("opening device {}", facts_.id));
}

Device::~Device() {
  graph_context_.reset();  // its kernels and the workspace belong to the device
  workspace_.reset();
  backend_->close(device_);
}

void* Device::allocated(size_t bytes) {
  void* pointer = nullptr;
  const abi::Status status = backend_->allocate(device_, bytes, &pointer);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("allocating {} bytes on {}", bytes, facts_.id));
  return pointer;
}

std::shared_ptr<void> Device::allocate(size_t bytes) {
  // Tensors hold their device, so it outlives them; only the device's own memory is freed by its destructor.
  return {allocated(bytes), [backend = backend_, device = device_](void* memory) { backend->free(device, memory); }};
}

std::shared_ptr<void> Device::allocate_unpooled(size_t bytes) {
  const auto free = backend_->free_unpooled != nullptr ? backend_->free_unpooled : backend_->free;
  return {allocated(bytes), [free, device = device_](void* memory) { free(device, memory); }};
}

std::shared_ptr<void> Device::allocate_host(size_t bytes) {
  if (backend_->allocate_host == nullptr) return std::make_shared<std::byte[]>(bytes);
  void* pointer = nullptr;
  check(backend_->allocate_host(device_, bytes, &pointer),
        fmt::format("allocating {} bytes of host memory for {}", bytes, facts_.id));
  return {pointer, [backend = backend_, device = device_](void* memory) { backend->free_host(device, memory); }};
}

abi::PoolFacts Device::memory(abi::MemoryKind kind) const {
  if (backend_->memory_facts == nullptr) throw does_not_count(facts_);
  abi::PoolFacts facts{};
  check(backend_->memory_facts(device_, kind, &facts), fmt::format("the memory of {}", facts_.id));
  return facts;
}

void Device::reset_memory_facts(abi::MemoryKind kind) {
  if (backend_->reset_memory_facts == nullptr) throw does_not_count(facts_);
  check(backend_->reset_memory_facts(device_, kind), fmt::format("the memory of {}", facts_.id));
}

void Device::reserve(abi::MemoryKind kind, size_t bytes) {
  if (backend_->reserve == nullptr) {
    throw failed("device {} keeps no memory: each allocation is the system's, and there is nothing to reserve",
                 facts_.id);
  }
  const char* what = kind == abi::MemoryKind::kPinned ? "pinned memory for" : "memory on";
  check(backend_->reserve(device_, kind, bytes), fmt::format("reserving {} bytes of {} {}", bytes, what, facts_.id));
}

size_t Device::trim(abi::MemoryKind kind) {
  size_t bytes = 0;
  const std::lock_guard lock(execution_mutex_);  // the workspace is not in use
  if (kind == abi::MemoryKind::kDevice) {
    workspace_.reset();
    workspace_bytes_ = 0;
  }
  if (backend_->trim == nullptr) return 0;
  check(backend_->trim(device_, kind, &bytes), fmt::format("releasing memory of {}", facts_.id));
  return bytes;
}

void Device::copy_to_device(void* target, const void* host, size_t bytes) {
  check(backend_->copy_to_device(device_, nullptr, target, host, bytes), fmt::format("copying to {}", facts_.id));
}

void Device::copy_to_host(void* host, const void* source, size_t bytes) {
  check(backend_->copy_to_host(device_, nullptr, host, source, bytes), fmt::format("copying from {}", facts_.id));
}

void Device::synchronize() { check(backend_->synchronize(device_, nullptr), fmt::format("waiting for {}", facts_.id)); }

void Device::copy_from(Device& other, void* target, const void* source, size_t bytes) {
  if (backend_ == other.backend_ && backend_->copy_between != nullptr) {
    return check(backend_->copy_between(device_, target, other.device_, source, bytes),
                 fmt::format("copying from {} to {}", other.facts_.id, facts_.id));
  }
  constexpr size_t kPart = size_t{16} << 20;
  const std::shared_ptr<void> stage = allocate_host(std::min(bytes, kPart));
  for (size_t at = 0; at < bytes; at += kPart) {
    const size_t part = std::min(bytes - at, kPart);
    other.copy_to_host(stage.get(), static_cast<const std::byte*>(source) + at, part);
    copy_to_device(static_cast<std::byte*>(target) + at, stage.get(), part);
    check(backend_->synchronize(device_, nullptr), fmt::format("copying to {}", facts_.id));
  }
}

abi::PeerRoute Device::route_from(Device& other) {
  abi::PeerRoute route{};
  if (backend_ == other.backend_ && backend_->peer_route != nullptr) {
    check(backend_->peer_route(device_, other.device_, &route),
          fmt::format("copying from {} to {}", other.facts_.id, facts_.id));
    return route;
  }
  const std::string reason = fmt::format("{} and {} have no direct route", other.facts_.id, facts_.id);
  reason.copy(route.reason, sizeof(route.reason) - 1);
  return route;
}

size_t Device::matrix_bytes(DType dtype, int64_t rows, int64_t columns) const {
  const size_t packed = backend_->packed_bytes(device_, dtype, rows, columns);
  if (packed > 0 || host_accessible()) return packed;
  return dtype_bytes(dtype, static_cast<size_t>(rows * columns));
}

Tensor Device::upload_matrix(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& host,
                             MemoryBlock* block) {
  const size_t bytes = matrix_bytes(dtype, rows, columns);
  if (bytes == 0) return tensor_in(std::const_pointer_cast<void>(host), dtype, Shape{rows, columns});  // only read
  Tensor matrix = tensor_in(block != nullptr ? block->take(bytes) : allocate(bytes), dtype, Shape{rows, columns});
  TensorState& state = matrix.state();
  state.spec.packed = backend_->packed_bytes(device_, dtype, rows, columns) > 0;
  if (!state.spec.packed) return copy_to_device(state.storage.get(), host.get(), bytes), matrix;
  check(backend_->pack(device_, dtype, rows, columns, host.get(), state.storage.get()),
        fmt::format("packing weights on {}", facts_.id));
  return matrix;
}

Tensor Device::tensor_in(std::shared_ptr<void> memory, DType dtype, const Shape& shape) {
  auto state = std::make_shared<TensorState>();
  state->spec = {.shape = shape, .dtype = dtype};
  state->device = shared_from_this();
  state->layout = Layout::contiguous(shape);
  state->storage = std::move(memory);
  return Tensor(std::move(state));
}

Tensor Device::upload(DType dtype, const Shape& shape, const void* host) {
  const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(shape.elements()));
  Tensor tensor = tensor_in(allocate(bytes), dtype, shape);
  if (host != nullptr) copy_to_device(tensor.state().storage.get(), host, bytes);
  return tensor;
}

std::shared_ptr<KernelHandle> Device::find_kernel(const abi::KernelRequest& request) {
  abi::BoundKernel bound{};
  const abi::Status status = backend_->find_kernel(device_, &request, &bound);
  if (status.code == abi::StatusCode::kUnsupported) return nullptr;
  check(status, fmt::format("[{}] on {}", request.op, facts_.id));
  return std::make_shared<KernelHandle>(backend_, device_, bound);
}

void Device::execute(std::span<const abi::Launch> launches, const std::atomic<bool>* cancel) {
  const auto count = static_cast<int32_t>(launches.size());
  const abi::Status status = backend_->execute(device_, nullptr, launches.data(), count, cancel);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("running on {}", facts_.id));
}

void* Device::workspace(size_t bytes) {
  if (bytes > workspace_bytes_) {
    workspace_.reset();  // release first, then allocate more
    workspace_bytes_ = 0;
    workspace_ = allocate_unpooled(bytes);  // a piece that was too small once is no use to anybody
    workspace_bytes_ = bytes;
  }
  return workspace_.get();
}

std::optional<abi::TuningFacts> Device::tuning() const {
  if (backend_->tuning_facts == nullptr) return std::nullopt;
  abi::TuningFacts facts{};
  check(backend_->tuning_facts(device_, &facts), fmt::format("what {} has measured", facts_.id));
  return facts;
}

void Device::forget_plans() {
  std::shared_ptr<void> plans;  // let go of without the lock
  const std::lock_guard lock(execution_mutex_);
  plans.swap(graph_context_);
}

void Device::set_tuning(const abi::TuningOptions& options) {
  if (backend_->set_tuning == nullptr) throw one_way(facts_);
  check(backend_->set_tuning(device_, &options), fmt::format("tuning {}", facts_.id));
  forget_plans();
}

void Device::forget_tuning() {
  if (backend_->forget_tuning == nullptr) throw one_way(facts_);
  check(backend_->forget_tuning(device_), fmt::format("tuning {}", facts_.id));
  forget_plans();
}

std::vector<abi::MeasuredShape> Device::measured_shapes() const {
  std::vector<abi::MeasuredShape> shapes;
  abi::MeasuredShape shape{};
  while (backend_->measured_shape != nullptr &&
         backend_->measured_shape(device_, static_cast<int32_t>(shapes.size()), &shape).code == abi::StatusCode::kOk) {
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace gabbro
