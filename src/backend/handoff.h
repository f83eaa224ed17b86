// Hands tensors of one device over to the next one of a pipeline, as work on their streams: neither the host nor the
// giver waits for the receiver, which may be two handovers behind. Devices of different backends exchange through the
// host's memory, for which the host waits in receive().
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/stream.h"

namespace gabbro {

class Handoff {
 public:
  Handoff(std::shared_ptr<Device> from, std::shared_ptr<Device> to);
  ~Handoff();  // waits for its copies
  Handoff(const Handoff&) = delete;
  Handoff& operator=(const Handoff&) = delete;

  static constexpr size_t kSlots = 2;

  // Empty if copies go directly, or between backends; else a line that says why not. The first call of a pair tests it.
  std::string detour() const;

  // Enqueues copies of contiguous tensors, after the work of the giver's compute stream, whose later work may write the
  // tensors again; undefined ones stay so. Returns the slot, whose handover before the last one has been used().
  size_t send(std::span<const Tensor> tensors);
  // The copies, for later work of the receiver's compute stream. Throws Error kInterrupted when `cancel` becomes true.
  std::vector<Tensor> receive(size_t slot, const std::atomic<bool>* cancel = nullptr);
  // To be called when all work of the receiver that reads the tensors has been enqueued.
  void used(size_t slot);
  // Instead of used(): the copies stay unchanged, and the next handover of the slot gets other memory.
  void keep(size_t slot);
  // used() of all slots, after an error. Throws nothing.
  void abandon();

 private:
  struct Slot {
    std::vector<Tensor> copies;
    std::shared_ptr<void> memory;  // of the receiver
    std::shared_ptr<void> stage;   // of the host
    size_t bytes = 0;              // that the memory has
    size_t filled = 0;             // that the last handover has
    std::optional<Event> sent;     // of the giver: on the way through the host
    std::optional<Event> arrived, used;
  };

  void reserve(Slot& slot, size_t bytes);
  void copy_out(Slot& slot, size_t at, const Tensor& tensor);

  std::shared_ptr<Device> from_, to_;
  std::optional<Stream> copies_;  // of the receiver; none: through the host
  std::optional<Event> written_;  // of the giver
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace gabbro
