#include "src/engine/streaming/move_rows.h"

#include <cstring>
#include <utility>

namespace gabbro::streaming {

RowMover::RowMover(std::shared_ptr<Device> device, Stream& copies, size_t stage_bytes)
    : device_(std::move(device)),
      copies_(copies),
      copied_(std::make_unique<Event>(device_)),
      all_packed_(std::make_unique<Event>(device_)) {
  if (!device_->host_accessible() && stage_bytes > 0) {
    own_ = std::make_unique<Stream>(device_);
    for (Stage& stage : stages_) {
      stage.memory = device_->allocate_unpooled(stage_bytes);
      stage.filled = std::make_unique<Event>(device_);
      stage.packed = std::make_unique<Event>(device_);
    }
  }
  // Memory is allocated in the order of the compute stream, and used first by the others.
  device_->state().compute_stream(*device_).record(*copied_);
  copies_.wait(*copied_);
  if (own_ != nullptr) own_->wait(*copied_);
}

RowMover::~RowMover() {
  try {  // the stages are freed in the order of the compute stream
    synchronize();
  } catch (const Error&) {  // a lost device uses nothing
  }
}

void RowMover::synchronize() {
  copies_.synchronize();
  if (own_ != nullptr) own_->synchronize();
}

void RowMover::wait(const Event& event, bool packed) { (packed ? packs() : copies_).wait(event); }

void RowMover::move(const abi::PackRequest& rows, bool packed, const std::byte* source, std::byte* target) {
  const size_t row_bytes = dtype_bytes(rows.dtype, static_cast<size_t>(rows.columns));
  const size_t bytes = static_cast<size_t>(rows.row_count) * row_bytes;
  if (!packed) return copy(source, target + static_cast<size_t>(rows.first_row) * row_bytes, bytes);
  if (own_ == nullptr) return copies_.pack(rows, source, target);
  const Stage& stage = stages_[next_];
  next_ = (next_ + 1) % kStages;
  copies_.wait(*stage.packed);
  copies_.copy_to_device(stage.memory.get(), source, bytes);
  copies_.record(*stage.filled);
  own_->wait(*stage.filled);
  own_->pack(rows, stage.memory.get(), target);
  own_->record(*stage.packed);
}

void RowMover::copy(const std::byte* source, std::byte* target, size_t bytes) {
  if (device_->host_accessible()) {
    std::memcpy(target, source, bytes);
  } else {
    copies_.copy_to_device(target, source, bytes);
  }
}

void RowMover::copy_back(const std::byte* source, std::byte* target, size_t bytes) {
  if (own_ != nullptr) {
    own_->record(*all_packed_);
    copies_.wait(*all_packed_);
  }
  copies_.copy_to_host(target, source, bytes);
}

void RowMover::record_read(Event& event) { copies_.record(event); }

void RowMover::record_moved(Event& event) {
  if (own_ == nullptr) return copies_.record(event);
  copies_.record(*copied_);
  own_->wait(*copied_);
  own_->record(event);
}

}  // namespace gabbro::streaming
