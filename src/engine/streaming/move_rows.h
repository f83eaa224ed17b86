// Moves rows in the file's layout to their range of a matrix on a device.
#pragma once

#include <array>
#include <memory>

#include "src/backend/stream.h"

namespace gabbro::streaming {

// Packed rows go through two alternating stages on the device: the next rows are copied while the last ones are packed,
// on a separate stream. A device that uses host memory packs `source` itself, on the same stream.
class RowMover {
 public:
  static constexpr size_t kStages = 2;

  // `copies` must outlive the mover. `stage_bytes`: of the largest range that is packed; 0: nothing is. Throws
  // OutOfMemory.
  RowMover(std::shared_ptr<Device> device, Stream& copies, size_t stage_bytes);
  ~RowMover();
  RowMover(const RowMover&) = delete;
  RowMover& operator=(const RowMover&) = delete;

  // Makes later copies to targets wait for `event`; `packed`: makes packing wait.
  void wait(const Event& event, bool packed);
  // `rows` names the rows and their matrix. `packed`: the device packs them. `source` is memory of
  // Device::allocate_host.
  void move(const abi::PackRequest& rows, bool packed, const std::byte* source, std::byte* target);
  // Copies bytes in the device's layout.
  void copy(const std::byte* source, std::byte* target, size_t bytes);
  // Copies in the other direction, from the device to the host.
  void copy_back(const std::byte* source, std::byte* target, size_t bytes);
  // Records `event` after the last read of a source.
  void record_read(Event& event);
  // Records `event` after the last move.
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
  std::unique_ptr<Stream> own_;  // packs; null: `copies_` does
};

}  // namespace gabbro::streaming
