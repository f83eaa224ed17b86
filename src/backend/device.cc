#include "src/backend/device.h"

#include <algorithm>

#include "src/backend/device_reports.h"
#include "src/backend/stream.h"
#include "src/backend/survey.h"
#include "src/base/input_errors.h"
#include "src/base/large_memory.h"
#include "src/base/pooled.h"

namespace gabbro {

namespace {

std::string describe_launches() {
  const std::string launches = last_launches();
  return launches.empty() ? "" : "; the last launches were, the newest first: " + launches;
}

}  // namespace

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
      throw DeviceLost(fmt::format("{}: the device was lost: {}{}", doing, status.message, describe_launches()));
    case StatusCode::kFailed:
    case StatusCode::kUnsupported:
      break;
  }
  throw failed("{}: {}", doing, status.message);
}

namespace {

void* allocated(const abi::Backend* backend, abi::Device* device, const abi::DeviceFacts& facts, size_t bytes) {
  void* pointer = nullptr;
  const abi::Status status = backend->allocate(device, nullptr, bytes, &pointer);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("allocating {} bytes on {}", bytes, facts.id));
  return pointer;
}

Error does_not_count(const abi::DeviceFacts& facts) { return failed("device {} does not count its memory", facts.id); }

Error one_way(const abi::DeviceFacts& facts) {
  return failed("device {} has one way to compute each shape: there is nothing to tune", facts.id);
}

}  // namespace

Device::Device(const abi::Backend* backend, int index, const abi::DeviceOptions& options, std::shared_ptr<void> library)
    : state_(std::make_unique<State>()) {
  state_->backend = backend;
  state_->library = std::move(library);
  check(backend->device_facts(index, &facts_), fmt::format("device {}:{}", backend->name, index));
  if (facts_.pci_address[0] != '\0') correct_memory(facts_, discovery::read_machine());
  check(backend->open(index, &options, &state_->device), fmt::format("opening device {}", facts_.id));
  add_open_backend(backend);
}

Device::State::~State() = default;

Device::~Device() {
  state_->own_executor.reset();  // its kernels and memory belong to the device
  state_->compute.reset();
  state_->copies.reset();
  state_->backend->close(state_->device);
  remove_open_backend(state_->backend);
}

std::shared_ptr<void> Device::allocate(size_t bytes) {
  // Tensors hold their device, so it outlives them; only the device's own memory is freed by its destructor.
  return {
      allocated(state_->backend, state_->device, facts_, bytes),
      [backend = state_->backend, device = state_->device](void* memory) { backend->free(device, nullptr, memory); }};
}

std::shared_ptr<void> Device::allocate_unpooled(size_t bytes) {
  const auto free = state_->backend->free_unpooled != nullptr ? state_->backend->free_unpooled : state_->backend->free;
  return {allocated(state_->backend, state_->device, facts_, bytes),
          [free, device = state_->device](void* memory) { free(device, nullptr, memory); }};
}

std::shared_ptr<void> Device::allocate_host(size_t bytes) {
  if (state_->backend->allocate_host == nullptr) return allocate_large(bytes);
  void* pointer = nullptr;
  check(state_->backend->allocate_host(state_->device, bytes, &pointer),
        fmt::format("allocating {} bytes of host memory for {}", bytes, facts_.id));
  return {pointer,
          [backend = state_->backend, device = state_->device](void* memory) { backend->free_host(device, memory); }};
}

std::shared_ptr<void> Device::reserve_range(size_t bytes) {
  const abi::Backend* const backend = state_->backend;
  if (backend->reserve_range == nullptr) return nullptr;
  void* range = nullptr;
  const abi::Status status = backend->reserve_range(state_->device, bytes, &range);
  if (status.code == abi::StatusCode::kUnsupported) return nullptr;
  check(status, fmt::format("reserving addresses for {} bytes on {}", bytes, facts_.id));
  return {range, [backend, device = state_->device](void* memory) { backend->release_range(device, memory); }};
}

void Device::extend_range(void* range, size_t bytes) {
  const abi::Status status = state_->backend->extend_range(state_->device, range, bytes);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("allocating {} bytes on {}", bytes, facts_.id));
}

bool Device::counts_memory() const { return state_->backend->memory_facts != nullptr; }

abi::PoolFacts Device::memory(abi::MemoryKind kind) const {
  if (state_->backend->memory_facts == nullptr) throw does_not_count(facts_);
  abi::PoolFacts facts{};
  check(state_->backend->memory_facts(state_->device, kind, &facts), fmt::format("the memory of {}", facts_.id));
  return facts;
}

void Device::reset_memory_facts(abi::MemoryKind kind) {
  if (state_->backend->reset_memory_facts == nullptr) throw does_not_count(facts_);
  check(state_->backend->reset_memory_facts(state_->device, kind), fmt::format("the memory of {}", facts_.id));
}

void Device::reserve(abi::MemoryKind kind, size_t bytes) {
  if (state_->backend->reserve == nullptr) {
    throw failed("device {} keeps no memory: each allocation is the system's, and there is nothing to reserve",
                 facts_.id);
  }
  const char* what = kind == abi::MemoryKind::kPinned ? "pinned memory for" : "memory on";
  check(state_->backend->reserve(state_->device, kind, bytes),
        fmt::format("reserving {} bytes of {} {}", bytes, what, facts_.id));
}

size_t Device::trim(abi::MemoryKind kind) {
  size_t bytes = 0;
  std::unique_lock<std::mutex> paused;
  if (DeviceExecutor* const executor = state_->executor) {
    paused = executor->pause();
    if (kind == abi::MemoryKind::kDevice) executor->free_workspace();
  }
  if (state_->backend->trim == nullptr) return 0;
  check(state_->backend->trim(state_->device, kind, &bytes), fmt::format("releasing memory of {}", facts_.id));
  return bytes;
}

namespace {

// A copy whose host memory is pinned is still under way.
void finish_copy(const Device::State& state, abi::Status& status, const void* host,
                 const std::atomic<bool>* cancel = nullptr) {
  const abi::Backend& backend = *state.backend;
  if (status.code != abi::StatusCode::kOk || backend.is_pinned == nullptr) return;
  if (!backend.is_pinned(state.device, host)) return;
  status = backend.await_stream != nullptr ? backend.await_stream(state.device, nullptr, cancel)
                                           : backend.synchronize(state.device, nullptr);
}

}  // namespace

void Device::copy_to_device(void* target, const void* host, size_t bytes) {
  abi::Status status = state_->backend->copy_to_device(state_->device, nullptr, target, host, bytes);
  finish_copy(*state_, status, host);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("copying to {}", facts_.id));
}

void Device::copy_to_host(void* host, const void* source, size_t bytes, const std::atomic<bool>* cancel) {
  abi::Status status = state_->backend->copy_to_host(state_->device, nullptr, host, source, bytes);
  finish_copy(*state_, status, host, cancel);
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("copying from {}", facts_.id));
}

void Device::synchronize() {
  check(state_->backend->synchronize(state_->device, nullptr), fmt::format("waiting for {}", facts_.id));
  const std::lock_guard lock(state_->streams_mutex);
  if (state_->copies != nullptr) state_->copies->synchronize();
}

void Device::copy_from(Device& other, void* target, const void* source, size_t bytes) {
  if (state_->backend == other.state_->backend && state_->backend->copy_between != nullptr) {
    other.state_->compute_stream(other).synchronize();
    Stream& stream = state_->compute_stream(*this);
    stream.copy_from(other, target, source, bytes);
    return stream.synchronize();
  }
  constexpr size_t kPart = size_t{16} << 20;
  const std::shared_ptr<void> stage = allocate_host(std::min(bytes, kPart));
  for (size_t at = 0; at < bytes; at += kPart) {
    const size_t part = std::min(bytes - at, kPart);
    other.copy_to_host(stage.get(), static_cast<const std::byte*>(source) + at, part);
    copy_to_device(static_cast<std::byte*>(target) + at, stage.get(), part);
    check(state_->backend->synchronize(state_->device, nullptr), fmt::format("copying to {}", facts_.id));
  }
}

abi::PeerRoute Device::route_from(Device& other) {
  abi::PeerRoute route{};
  if (state_->backend == other.state_->backend && state_->backend->peer_route != nullptr) {
    check(state_->backend->peer_route(state_->device, other.state_->device, &route),
          fmt::format("copying from {} to {}", other.facts_.id, facts_.id));
    return route;
  }
  const std::string reason = fmt::format("{} and {} have no direct route", other.facts_.id, facts_.id);
  reason.copy(route.reason, sizeof(route.reason) - 1);
  return route;
}

size_t Device::matrix_bytes(DType dtype, int64_t rows, int64_t columns) const {
  const size_t packed = state_->backend->packed_bytes(state_->device, dtype, rows, columns);
  if (packed > 0 || host_accessible()) return packed;
  return dtype_bytes(dtype, static_cast<size_t>(rows * columns));
}

Tensor Device::upload_matrix(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& host,
                             MemoryBlock* block) {
  const size_t bytes = matrix_bytes(dtype, rows, columns);
  if (bytes == 0) return tensor_in(std::const_pointer_cast<void>(host), dtype, Shape{rows, columns});  // only read
  Tensor matrix = tensor_in(block != nullptr ? block->take(bytes) : allocate(bytes), dtype, Shape{rows, columns});
  TensorState& state = matrix.state();
  state.spec.packed = state_->backend->packed_bytes(state_->device, dtype, rows, columns) > 0;
  if (!state.spec.packed) return copy_to_device(state.storage.get(), host.get(), bytes), matrix;
  pack_from_host({dtype, rows, columns, 0, rows}, static_cast<const std::byte*>(host.get()), state.storage.get());
  return matrix;
}

// In parts that go through device memory, in sequence on the compute stream.
void Device::pack_from_host(const abi::PackRequest& all, const std::byte* host, void* target) {
  constexpr size_t kStageBytes = size_t{8} << 20;  // longer than the launches by far, and little memory
  const size_t row_bytes = dtype_bytes(all.dtype, static_cast<size_t>(all.columns));
  const auto packed = [&](const abi::Status& status) {
    check(status, fmt::format("packing weights on {}", facts_.id));
  };
  if (host_accessible()) return packed(state_->backend->pack(state_->device, nullptr, &all, host, target));
  const auto fitting = static_cast<int64_t>(kStageBytes / (row_bytes * abi::kPackRows));
  const int64_t step = std::min(all.rows, std::max<int64_t>(fitting, 1) * abi::kPackRows);
  const std::shared_ptr<void> stage = allocate(static_cast<size_t>(step) * row_bytes);
  for (int64_t row = 0; row < all.rows; row += step) {
    const abi::PackRequest part = {all.dtype, all.rows, all.columns, row, std::min(step, all.rows - row)};
    const std::byte* const from = host + static_cast<size_t>(row) * row_bytes;
    const size_t bytes = static_cast<size_t>(part.row_count) * row_bytes;
    packed(state_->backend->copy_to_device(state_->device, nullptr, stage.get(), from, bytes));
    packed(state_->backend->pack(state_->device, nullptr, &part, stage.get(), target));
  }
  if (state_->backend->is_pinned != nullptr && state_->backend->is_pinned(state_->device, host)) synchronize();
}

Tensor Device::tensor_in(std::shared_ptr<void> memory, DType dtype, const Shape& shape) {
  auto state = make_pooled<TensorState>();
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

std::shared_ptr<KernelHandle> find_kernel(Device& device, const abi::KernelRequest& request) {
  const Device::State& state = device.state();
  abi::BoundKernel bound{};
  const abi::Status status = state.backend->find_kernel(state.device, &request, &bound);
  if (status.code == abi::StatusCode::kUnsupported) return nullptr;
  check(status, fmt::format("[{}] on {}", request.op, device.facts().id));
  return std::make_shared<KernelHandle>(state.backend, state.device, bound);
}

std::optional<abi::TuningFacts> Device::tuning() const {
  if (state_->backend->tuning_facts == nullptr) return std::nullopt;
  abi::TuningFacts facts{};
  check(state_->backend->tuning_facts(state_->device, &facts), fmt::format("what {} has measured", facts_.id));
  return facts;
}

void Device::State::forget_plans() {
  if (DeviceExecutor* const made = executor) made->forget_plans();
}

void Device::set_tuning(const abi::TuningOptions& options) {
  if (state_->backend->set_tuning == nullptr) throw one_way(facts_);
  check(state_->backend->set_tuning(state_->device, &options), fmt::format("tuning {}", facts_.id));
  state_->forget_plans();
}

void Device::forget_tuning() {
  if (state_->backend->forget_tuning == nullptr) throw one_way(facts_);
  check(state_->backend->forget_tuning(state_->device), fmt::format("tuning {}", facts_.id));
  state_->forget_plans();
}

std::vector<abi::MeasuredShape> Device::measured_shapes() const {
  std::vector<abi::MeasuredShape> shapes;
  abi::MeasuredShape shape{};
  while (state_->backend->measured_shape != nullptr &&
         state_->backend->measured_shape(state_->device, static_cast<int32_t>(shapes.size()), &shape).code ==
             abi::StatusCode::kOk) {
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace gabbro
