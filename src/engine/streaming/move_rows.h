// Rows in the file's layout, moved to their part of a matrix on a device.
#pragma once

#include <array>
#include <memory>

#include "src/backend/stream.h"

namespace gabbro::streaming {

// Rows that are packed go through one of two stages in turn on the device: the next rows are copied while the last ones
// are packed, on a separate stream. A device that works in host memory packs `source` itself, on the same stream.
class RowMover {
 public:
  static constexpr size_t kStages = 2;

  // `copies` outlives it. `stage_bytes`: of the largest part that is packed; 0: nothing is. Throws OutOfMemory.
  RowMover(std::shared_ptr<Device> device, Stream& copies, size_t stage_bytes);
  ~RowMover();
  RowMover(const RowMover&) = delete;
  RowMover& operator=(const RowMover&) = delete;

  // Copies to targets from here on wait for this; `packed`: packing does.
  void wait(const Event& event, bool packed);
  // `rows` says which of which matrix; `packed` whether the device packs it. `source` is memory of
  // Device::allocate_host.
  void move(const abi::PackRequest& rows, bool packed, const std::byte* source, std::byte* target);
  // Bytes as the device has them.
  void copy(const std::byte* source, std::byte* target, size_t bytes);
  // The other way: what was moved to `source`.
  void copy_back(const std::byte* source, std::byte* target, size_t bytes);
  // The sources of what was moved are read.
  void record_read(Event& event);
  // All that was moved is there.
  void record_moved(Event& event);
  void synchronize();

 private:
  struct Stage {
    std::shared_ptr<void> memory;
    std::unique_ptr<Event> filled, packed;
  };

  Stream& packs() { return own_ != nullptr ? *own_ : copies_; }

  std::shared_ptr<Device> device_;
  Stream& copies_;
  std::unique_ptr<Event> copied_, all_packed_;
  std::array<Stage, kStages> stages_;
  size_t next_ = 0;
  std::unique_ptr<Stream> own_;  // that packs; null: `copies_` does
};

}  // namespace gabbro::streaming
