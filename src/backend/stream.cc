#include "src/backend/stream.h"

#include <utility>

namespace gabbro {
namespace {

void check_on(const abi::DeviceFacts& facts, const abi::Status& status, const char* doing) {
  if (status.code != abi::StatusCode::kOk) check(status, fmt::format("{} {}", doing, facts.id));
}

}  // namespace

Stream::Stream(std::shared_ptr<Device> device) : Stream(*device, device) {}

Stream::Stream(Device& device, std::shared_ptr<Device> owner) {
  const Device::State& state = device.state();
  abi::Stream* handle = nullptr;
  check_on(device.facts(), state.backend->create_stream(state.device, &handle), "creating a stream on");
  core_ = std::make_shared<Core>(std::move(owner), state.backend, state.device, &device.facts(), handle);
}

Stream::~Stream() = default;

void Stream::copy_to_device(void* target, const void* host, size_t bytes) {
  check_on(*core_->facts, core_->backend->copy_to_device(core_->device, core_->handle, target, host, bytes),
           "copying to");
}

void Stream::copy_to_host(void* host, const void* source, size_t bytes) {
  check_on(*core_->facts, core_->backend->copy_to_host(core_->device, core_->handle, host, source, bytes),
           "copying from");
}

void Stream::copy_from(Device& other, void* target, const void* source, size_t bytes) {
  const abi::Status status =
      core_->backend->copy_between(core_->device, core_->handle, target, other.state().device, source, bytes);
  if (status.code != abi::StatusCode::kOk)
    check(status, fmt::format("copying from {} to {}", other.facts().id, core_->facts->id));
}

void Stream::pack(const abi::PackRequest& request, const void* source, void* target) {
  check_on(*core_->facts, core_->backend->pack(core_->device, core_->handle, &request, source, target),
           "packing weights on");
}

void Stream::execute(std::span<const abi::Launch> launches, const std::atomic<bool>* cancel) {
  check_on(*core_->facts,
           core_->backend->execute(core_->device, core_->handle, launches.data(), static_cast<int32_t>(launches.size()),
                                   cancel),
           "running on");
}

std::shared_ptr<void> Stream::allocate(size_t bytes) {
  void* pointer = nullptr;
  const abi::Status status = core_->backend->allocate(core_->device, core_->handle, bytes, &pointer);
  if (status.code != abi::StatusCode::kOk)
    check(status, fmt::format("allocating {} bytes on {}", bytes, core_->facts->id));
  return {pointer, [core = core_](void* memory) { core->backend->free(core->device, core->handle, memory); }};
}

void Stream::record(Event& event) {
  check_on(*core_->facts, core_->backend->record(core_->device, core_->handle, event.handle()),
           "recording an event on");
}

void Stream::wait(const Event& event) {
  check_on(*core_->facts, core_->backend->wait(core_->device, core_->handle, event.handle()), "waiting on");
}

void Stream::synchronize(const std::atomic<bool>* cancel) {
  const abi::Backend& backend = *core_->backend;
  check_on(*core_->facts,
           backend.await_stream != nullptr ? backend.await_stream(core_->device, core_->handle, cancel)
                                           : backend.synchronize(core_->device, core_->handle),
           "waiting for");
}

Event::Event(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Device::State& state = device_->state();
  check_on(device_->facts(), state.backend->create_event(state.device, &handle_), "creating an event on");
}

Event::~Event() { device_->state().backend->destroy_event(device_->state().device, handle_); }

void Event::synchronize(const std::atomic<bool>* cancel) {
  const Device::State& state = device_->state();
  check_on(device_->facts(),
           state.backend->await_event != nullptr ? state.backend->await_event(state.device, handle_, cancel)
                                                 : state.backend->synchronize_event(state.device, handle_),
           "waiting for");
}

Stream& Device::State::compute_stream(Device& owner) {
  const std::lock_guard lock(streams_mutex);
  if (compute == nullptr) {
    compute.reset(new Stream(std::make_shared<Stream::Core>(nullptr, backend, device, &owner.facts(), nullptr)));
  }
  return *compute;
}

Stream& Device::State::copy_stream(Device& owner) {
  const std::lock_guard lock(streams_mutex);
  if (copies == nullptr) copies.reset(new Stream(owner, nullptr));
  return *copies;
}

}  // namespace gabbro
