// A pushdown machine over bytes, made deterministic while it runs: a state is a set of configurations (instruction and
// stack), and has a number. Stacks are shared lists, so a state is a value, and going back costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/text/grammar/intern_table.h"
#include "src/text/grammar/program.h"

namespace gabbro::text::grammar {

// Not thread-safe. States stay valid as long as the automaton.
class Automaton {
 public:
  using State = uint32_t;
  static constexpr State kDead = ~State{0};  // no text of the grammar begins so

  explicit Automaton(std::shared_ptr<const Program> program);

  State start() const { return start_; }
  // Throws bad_input for a grammar so ambiguous, or nested so deeply, that a state is too large.
  State next(State state, uint8_t byte) {
    const State found = table_[state * classes_ + program_->classes[byte]];
    return found != kUnknown ? found : compute(state, program_->classes[byte]);
  }
  State next(State state, std::string_view bytes) {
    for (size_t i = 0; i < bytes.size() && state != kDead; ++i) state = next(state, static_cast<uint8_t>(bytes[i]));
    return state;
  }
  bool accepts(State state) const { return accepts_[state]; }
  // Whether the text ends here: it may, and nothing may follow.
  bool is_complete(State state) const { return accepts_[state] && configs_of(state).empty(); }
  // The only byte that may follow; -1: several may, or the text may end.
  int forced_byte(State state);

  const std::shared_ptr<const Program>& program() const { return program_; }
  size_t bytes_in_use() const;  // of memory, about
  // Returns the equal state of another automaton for this program.
  State transfer(State state, Automaton& to) const;

 private:
  static constexpr State kUnknown = kDead - 1;
  struct Frame {
    uint32_t parent, code;  // the call or repetition that it returns to
    int32_t count;          // of a repetition: bodies that have ended
    uint32_t depth;
    bool operator==(const Frame&) const = default;
  };
  struct Config {
    uint32_t code, frame;
    auto operator<=>(const Config&) const = default;
  };

  std::span<const Config> configs_of(State state) const {
    return std::span(configs_).subspan(begins_[state], begins_[state + 1] - begins_[state]);
  }
  uint32_t frame(uint32_t parent, uint32_t code, int32_t count);
  void begin_state();
  void visit(Config config);
  void follow(Config config);
  void repeat(uint32_t code, uint32_t parent, int32_t count);
  State end_state();
  State compute(State state, uint8_t byte_class);

  std::shared_ptr<const Program> program_;
  const size_t classes_;
  State start_ = kDead;
  std::vector<State> table_;  // [states, classes]
  std::vector<Config> configs_;
  std::vector<size_t> begins_{0};  // of the states' configurations, and their end
  std::vector<bool> accepts_;
  InternTable states_;
  std::vector<Frame> frames_;  // the first one is the empty stack
  InternTable frame_numbers_;
  // The state that is being made.
  std::vector<Config> open_, made_;
  std::vector<Config> slots_;  // of a hash set: what was visited
  std::vector<uint32_t> slot_rounds_;
  uint32_t round_ = 0;
  size_t visited_ = 0;
  bool ends_ = false;
};

}  // namespace gabbro::text::grammar
