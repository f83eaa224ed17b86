#include "src/text/grammar/automaton.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostVisited = 1U << 16;  // configurations on the way to one state
constexpr size_t kMostConfigs = 1U << 14;  // of a state: an `enum` of thousands of values begins with as many
constexpr size_t kMostStacks = 512;        // of a state, at one instruction: more come from ambiguous grammars only
constexpr uint32_t kDeepestStack = 10'000;

}  // namespace

Automaton::Automaton(std::shared_ptr<const Program> program)
    : program_(std::move(program)), classes_(program_->bytes.size()), slots_(1024), slot_rounds_(1024) {
  frames_.push_back({.parent = 0, .code = 0, .count = 0, .depth = 0});
  frame_numbers_.find_or_add(
      0, [](uint32_t) { return false; }, [] {});
  begin_state();
  visit({program_->start, 0});
  start_ = end_state();
}

uint32_t Automaton::frame(uint32_t parent, uint32_t code, int32_t count) {
  const Frame wanted{.parent = parent, .code = code, .count = count, .depth = frames_[parent].depth + 1};
  if (wanted.depth > kDeepestStack) throw bad_input("the text nests the grammar's rules deeper than {}", kDeepestStack);
  uint64_t hash = mix_hash(mix_hash(parent, code), static_cast<uint64_t>(count));
  return frame_numbers_.find_or_add(
      hash, [&](uint32_t number) { return frames_[number] == wanted; }, [&] { frames_.push_back(wanted); });
}

void Automaton::begin_state() {
  open_.clear();
  made_.clear();
  ++round_;
  visited_ = 0;
  ends_ = false;
}

// Adds a configuration that was not visited yet.
void Automaton::visit(Config config) {
  if (2 * (visited_ + 1) > slots_.size()) {
    if (visited_ >= kMostVisited) throw bad_input("the grammar is too ambiguous: more than {} parses", kMostVisited);
    std::vector<Config> old(2 * slots_.size());
    std::vector<uint32_t> old_rounds(old.size());
    old.swap(slots_);
    old_rounds.swap(slot_rounds_);
    const size_t mask = slots_.size() - 1;
    for (size_t i = 0; i < old.size(); ++i) {
      if (old_rounds[i] != round_) continue;
      size_t at = mix_hash(old[i].code, old[i].frame) & mask;
      while (slot_rounds_[at] == round_) at = (at + 1) & mask;
      slots_[at] = old[i];
      slot_rounds_[at] = round_;
    }
  }
  const size_t mask = slots_.size() - 1;
  for (size_t at = mix_hash(config.code, config.frame) & mask;; at = (at + 1) & mask) {
    if (slot_rounds_[at] != round_) {
      slots_[at] = config;
      slot_rounds_[at] = round_;
      ++visited_;
      open_.push_back(config);
      return;
    }
    if (slots_[at] == config) return;
  }
}

// A repetition whose body has ended `count` times.
void Automaton::repeat(uint32_t code, uint32_t parent, int32_t count) {
  const Instruction& one = program_->code[code];
  if (count >= one.least) visit({one.b, parent});
  // Without an upper bound only the missing ones count, so that a long repetition comes back to the same state.
  if (one.most == kUnbounded) count = std::min(count, one.least);
  if (count < one.most) visit({one.a, frame(parent, code, count)});
}

void Automaton::follow(Config config) {
  const Instruction& one = program_->code[config.code];
  switch (one.op) {
    case Instruction::Op::kBytes:
      made_.push_back(config);
      return;
    case Instruction::Op::kSplit:
      visit({one.a, config.frame});
      visit({one.b, config.frame});
      return;
    case Instruction::Op::kJump:
      return visit({one.a, config.frame});
    case Instruction::Op::kCall:
      return visit({one.a, one.is_tail ? config.frame : frame(config.frame, config.code, 0)});
    case Instruction::Op::kRepeat:
      return repeat(config.code, config.frame, 0);
    case Instruction::Op::kReturn: {
      if (config.frame == 0) {
        ends_ = true;
        return;
      }
      const Frame from = frames_[config.frame];
      const Instruction& caller = program_->code[from.code];
      if (caller.op == Instruction::Op::kCall) return visit({caller.b, from.parent});
      return repeat(from.code, from.parent, from.count + 1);
    }
  }
}

// The number of the state with the configurations that were visited.
Automaton::State Automaton::end_state() {
  while (!open_.empty()) {
    const Config config = open_.back();
    open_.pop_back();
    follow(config);
  }
  if (made_.size() > kMostConfigs) throw bad_input("the grammar is too ambiguous: more than {} parses", kMostConfigs);
  if (made_.empty() && !ends_) return kDead;
  std::ranges::sort(made_);
  for (size_t i = kMostStacks; i < made_.size(); ++i) {
    if (made_[i].code == made_[i - kMostStacks].code)
      throw bad_input("the grammar is too ambiguous: more than {} parses of one rule", kMostStacks);
  }
  uint64_t hash = ends_ ? 1 : 2;
  for (const Config& config : made_) hash = mix_hash(mix_hash(hash, config.code), config.frame);
  return states_.find_or_add(
      hash, [&](State state) { return accepts_[state] == ends_ && std::ranges::equal(configs_of(state), made_); },
      [&] {
        configs_.insert(configs_.end(), made_.begin(), made_.end());
        begins_.push_back(configs_.size());
        accepts_.push_back(ends_);
        table_.resize(table_.size() + classes_, kUnknown);
      });
}

Automaton::State Automaton::compute(State state, uint8_t byte_class) {
  const uint8_t byte = program_->bytes[byte_class];
  begin_state();
  for (const Config& config : configs_of(state)) {
    const Instruction& one = program_->code[config.code];
    if (program_->sets[one.a][byte]) visit({one.b, config.frame});
  }
  const State found = end_state();
  table_[state * classes_ + byte_class] = found;
  return found;
}

int Automaton::forced_byte(State state) {
  if (accepts(state)) return -1;
  ByteSet all;
  for (const Config& config : configs_of(state)) all |= program_->sets[program_->code[config.code].a];
  if (all.count() != 1) return -1;
  return static_cast<int>(all._Find_first());
}

size_t Automaton::bytes_in_use() const {
  return table_.size() * sizeof(State) + configs_.size() * sizeof(Config) + frames_.size() * (sizeof(Frame) + 32) +
         begins_.size() * 48;
}

Automaton::State Automaton::transfer(State state, Automaton& to) const {
  to.begin_state();
  for (const Config& config : configs_of(state)) {
    std::vector<uint32_t> stack;
    for (uint32_t at = config.frame; at != 0; at = frames_[at].parent) stack.push_back(at);
    uint32_t copy = 0;
    while (!stack.empty()) {
      copy = to.frame(copy, frames_[stack.back()].code, frames_[stack.back()].count);
      stack.pop_back();
    }
    to.visit({config.code, copy});
  }
  to.ends_ = accepts(state);
  return to.end_state();
}

}  // namespace gabbro::text::grammar
