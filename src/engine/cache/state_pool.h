// Slots of the recurrent states of sequences. There may be more sequences than slots: the one that was used the longest
// time ago loses its states, which are computed again from its tokens when it goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace gabbro {

// The states of one sequence.
struct SequenceState {
  int32_t slot = -1;   // none
  int64_t length = 0;  // tokens that the states in the slot have seen
};

class StatePool {
 public:
  explicit StatePool(int64_t slots) : slots_(static_cast<size_t>(slots)) {}

  // The sequences that take a slot between two calls of this keep it.
  void begin_step() { ++step_; }
  // Gives a sequence a slot, if it has none. Throws Error kNoDevice where all belong to sequences of this step.
  void take(const std::shared_ptr<SequenceState>& state);

 private:
  struct Slot {
    std::weak_ptr<SequenceState> owner;
    uint64_t used = 0;  // the last step that took it
  };

  std::vector<Slot> slots_;
  uint64_t step_ = 0;
};

}  // namespace gabbro
