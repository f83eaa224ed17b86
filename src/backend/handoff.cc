#include "src/backend/handoff.h"

#include <utility>

#include "src/base/round_up.h"

namespace gabbro {
namespace {

constexpr size_t kAlignment = 256;  // bytes, as tensors of a device have

size_t bytes_of(const Tensor& tensor) {
  return dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.shape().elements()));
}

Stream& compute_stream(Device& device) { return device.state().compute_stream(device); }

bool has_copies_between(Device& from, Device& to) {
  const abi::Backend* const backend = from.state().backend;
  return backend == to.state().backend && backend->copy_between != nullptr;
}

void* offset(const std::shared_ptr<void>& memory, size_t bytes) {
  return static_cast<std::byte*>(memory.get()) + bytes;
}

}  // namespace

Handoff::Handoff(std::shared_ptr<Device> from, std::shared_ptr<Device> to)
    : from_(std::move(from)), to_(std::move(to)) {
  if (has_copies_between(*from_, *to_)) {
    copies_.emplace(to_);
    written_.emplace(from_);
  }
  for (Slot& slot : slots_) {
    slot.sent.emplace(from_);
    slot.arrived.emplace(to_);
    slot.used.emplace(to_);
  }
}

Handoff::~Handoff() {
  try {
    from_->synchronize();
    if (copies_) copies_->synchronize();
    to_->synchronize();
  } catch (const Error&) {
    // A device failed: it copies nothing more.
  }
}

std::string Handoff::detour() const {
  if (!copies_) return "";
  const abi::PeerRoute route = to_->route_from(*from_);
  if (route.direct) return "";
  return fmt::format("copies from {} to {} go through the host's memory: {}", from_->facts().id, to_->facts().id,
                     route.reason);
}

// The receiver's memory is freed in the order of its compute stream, which comes after the copies to it.
void Handoff::reserve(Slot& slot, size_t bytes) {
  slot.filled = bytes;
  if (bytes <= slot.bytes) return;
  slot.bytes = 0;
  slot.copies.clear();
  slot.memory.reset();
  slot.stage.reset();
  const bool through_host = !copies_ && !from_->host_accessible();
  if (through_host) slot.stage = from_->allocate_host(bytes);
  slot.memory = through_host && to_->host_accessible() ? slot.stage : to_->allocate(bytes);
  slot.bytes = bytes;
  compute_stream(*to_).record(*slot.used);
}

size_t Handoff::send(std::span<const Tensor> tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += round_up(bytes_of(tensor), kAlignment);
  }
  const size_t number = std::exchange(next_, (next_ + 1) % kSlots);
  Slot& slot = slots_[number];
  reserve(slot, bytes);
  if (copies_) {
    compute_stream(*from_).record(*written_);
    copies_->wait(*written_);
    copies_->wait(*slot.used);
  }
  slot.copies.clear();
  size_t at = 0;
  for (const Tensor& tensor : tensors) {
    slot.copies.emplace_back();
    if (!tensor.defined()) continue;
    slot.copies.back() = to_->tensor_in({slot.memory, offset(slot.memory, at)}, tensor.dtype(), tensor.shape());
    if (bytes_of(tensor) > 0) copy_out(slot, at, tensor);
    at += round_up(bytes_of(tensor), kAlignment);
  }
  if (copies_) {
    copies_->record(*slot.arrived);
    compute_stream(*from_).wait(*slot.arrived);
  } else {
    compute_stream(*from_).record(*slot.sent);
  }
  return number;
}

void Handoff::copy_out(Slot& slot, size_t at, const Tensor& tensor) {
  const size_t first = dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.state().layout.offset));
  const void* const source = static_cast<const std::byte*>(tensor.state().storage.get()) + first;
  if (copies_) {
    copies_->copy_from(*from_, offset(slot.memory, at), source, bytes_of(tensor));
  } else if (from_->host_accessible()) {
    to_->copy_to_device(offset(slot.memory, at), source, bytes_of(tensor));
  } else {
    compute_stream(*from_).copy_to_host(offset(slot.stage, at), source, bytes_of(tensor));
  }
}

std::vector<Tensor> Handoff::receive(size_t number, const std::atomic<bool>* cancel) {
  Slot& slot = slots_[number];
  if (copies_) {
    compute_stream(*to_).wait(*slot.arrived);
  } else if (!from_->host_accessible()) {
    slot.sent->synchronize(cancel);
    if (!to_->host_accessible()) to_->copy_to_device(slot.memory.get(), slot.stage.get(), slot.filled);
  }
  return std::move(slot.copies);
}

void Handoff::used(size_t number) { compute_stream(*to_).record(*slots_[number].used); }

void Handoff::keep(size_t number) {
  Slot& slot = slots_[number];
  slot.memory.reset();
  slot.stage.reset();
  slot.bytes = 0;
}

void Handoff::abandon() {
  try {
    for (size_t slot = 0; slot < kSlots; ++slot) used(slot);
  } catch (const Error&) {
    // The device failed: it reads nothing more.
  }
}

}  // namespace gabbro
