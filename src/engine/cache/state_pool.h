// Slots of the recurrent states of sequences. There may be more sequences than slots: the one that was used the longest
// time ago loses its states, which are computed again from its tokens when it goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/backend/device.h"
#include "src/tensor/tensor.h"

namespace gabbro {

// The states of one sequence.
struct SequenceState {
  int32_t slot = -1;   // none
  int64_t length = 0;  // tokens that the states in the slot have seen
};

class StatePool {
 public:
  explicit StatePool(int64_t slots) : slots_(static_cast<size_t>(slots)) {}

  bool has_slots() const { return !slots_.empty(); }
  // Whether the states have not seen the `length` tokens of a sequence, and no others; never without slots.
  bool has_lost(const SequenceState& state, int64_t length) const { return has_slots() && state.length != length; }

  // The sequences that take a slot between two calls of this keep it.
  void begin_step() { ++step_; }
  // Gives a sequence a slot, if it has none, and there are slots. Throws Error kNoDevice where all belong to sequences
  // of this step.
  void take(const std::shared_ptr<SequenceState>& state);

  // The slots of a step's sequences, i32 [S]; undefined without slots.
  Tensor upload(Device& device, std::span<const int32_t> slots) const;

 private:
  struct Slot {
    std::weak_ptr<SequenceState> owner;
    uint64_t used = 0;  // the last step that took it
  };

  std::vector<Slot> slots_;
  uint64_t step_ = 0;
};

}  // namespace gabbro
