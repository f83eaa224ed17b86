// elementwise: elementwise ops of one shape that use each other's results become one launch. Intermediate values stay
// in registers, so that only inputs and needed results go through memory.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include <fmt/ranges.h>

#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kElementwise = {.name = "elementwise"};

// Limits that kernels accept (docs/design/fused_ops.md).
constexpr size_t kMostInputs = 8, kMostConstants = 16, kMostOutputs = 4, kMostOps = 32;
constexpr double kMostExact = 0x1p53;  // whole numbers up to here are doubles

// Start of an iota: an integer for i64.
double start_of(const Attributes& attributes) {
  for (const auto& [name, value] : attributes.entries()) {
    if (std::string_view(name) != "start") continue;
    const auto* whole = std::get_if<int64_t>(&value);
    return whole == nullptr ? std::get<double>(value) : static_cast<double>(*whole);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Instructions that are to become one, in order; it will stand where the last of them stands.
struct Chain {
  std::vector<int> members;
};

// Writes the attribute `steps` of a group: the ops in order, each with the dtype of its result. f16 and bf16 are
// rounded after each step, so that a value is the same whether or not its op became a part of a chain.
class StepWriter {
 public:
  explicit StepWriter(const Program& program) : program_(program) {}

  void add_input(int value) { numbers_[value] = next_++; }

  // A number of the value's dtype that is the same everywhere. All inputs come before.
  void add_constant(int value, double number) {
    numbers_[value] = write_step(fmt::format("const {} {:.17g}", dtype_name(dtype_of(value)), number));
  }

  void add(const Instruction& instruction) {
    std::vector<int> operands;
    for (const int input : instruction.inputs) operands.push_back(numbers_.at(input));
    const int output = instruction.outputs[0];
    numbers_[output] = write_step(
        fmt::format("{} {} {}", instruction.op->name, dtype_name(dtype_of(output)), fmt::join(operands, " ")));
  }

  int result(int value) const { return numbers_.at(value); }

  const std::string& text() const { return text_; }

 private:
  DType dtype_of(int value) const { return program_.values[value].dtype; }

  int write_step(const std::string& step) {
    text_ += (text_.empty() ? "" : "; ") + step;
    return next_++;
  }

  const Program& program_;
  std::map<int, int> numbers_;  // by value
  std::string text_;
  int next_ = 0;
};

class ElementwiseFuser {
 public:
  ElementwiseFuser(Program& program, const HasKernel& has_kernel)
      : program_(program), has_kernel_(has_kernel), flow_(program), group_of_(program.instructions.size(), kNoGroup) {}

  void run() {
    const int count = static_cast<int>(program_.instructions.size());
    for (int index = 0; index < count; ++index) {
      if (!at(index).op->in_place.empty()) barrier_ = index;
      if (is_member(at(index))) join(index);
    }
    for (const Chain& group : groups_) {
      if (group.members.size() > 1 || (group.members.size() == 1 && has_constant(group))) fuse(group);
    }
  }

 private:
  static constexpr int kNoGroup = -1;

  const Instruction& at(int index) const { return program_.instructions[index]; }
  const Shape& shape_of(int value) const { return program_.values[value].shape; }
  int group_of(int index) const { return group_of_[index]; }

  bool is_member(const Instruction& instruction) const {
    if (!instruction.op->elementwise) return false;
    const Shape& shape = shape_of(instruction.outputs[0]);
    return shape.elements() > 0 &&
           std::ranges::all_of(instruction.inputs, [&](int input) { return shape_of(input) == shape; });
  }

  // Makes a group of the instruction and of those groups that hand it something, as far as they can wait for it.
  void join(int index) {
    Chain joined{{index}};
    std::set<int> taken;
    for (const int input : at(index).inputs) {
      const int producer = flow_.producer(input);
      if (producer == DataFlow::kNone || group_of(producer) == kNoGroup || taken.contains(group_of(producer))) continue;
      const Chain& other = groups_[group_of(producer)];
      Chain both = joined;
      both.members.insert(both.members.end(), other.members.begin(), other.members.end());
      std::ranges::sort(both.members);
      if (!can_stand_at(index, both) || !fits(both)) continue;
      taken.insert(group_of(producer));
      joined = std::move(both);
    }
    for (const int group : taken) groups_[group].members.clear();
    for (const int member : joined.members) group_of_[member] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(joined));
  }

  // No one else may use their results before, and no state that they read may be written.
  bool can_stand_at(int index, const Chain& group) const {
    if (group.members.front() < barrier_) return false;
    return std::ranges::all_of(group.members, [&](int member) {
      return std::ranges::all_of(flow_.users(at(member).outputs[0]), [&](int user) {
        return user >= index || std::ranges::binary_search(group.members, user);
      });
    });
  }

  // The number that the value is everywhere, where it is known now: what full() makes.
  std::optional<double> constant(int value) const {
    for (int from = flow_.producer(value); from != DataFlow::kNone; from = flow_.producer(at(from).inputs[0])) {
      if (at(from).op == nullptr) return {};  // it became a part of another one
      const Op* const op = at(from).op;
      if (op == &kIota) {
        if (at(from).attributes.integer("count") != 1) return {};
        const double number = start_of(at(from).attributes);
        return std::fabs(number) < kMostExact || std::isinf(number) ? std::optional(number) : std::nullopt;
      }
      if (op != &kReshape && op != &kBroadcast) return {};
    }
    return {};
  }

  bool has_constant(const Chain& group) const { return !inputs_of(group).constants.empty(); }

  struct Inputs {
    std::vector<int> values;
    std::vector<std::pair<int, double>> constants;  // by value
  };
  Inputs inputs_of(const Chain& group) const {
    Inputs inputs;
    std::set<int> known;
    for (const int member : group.members) {
      for (const int input : at(member).inputs) {
        const int producer = flow_.producer(input);
        const bool inside = producer != DataFlow::kNone && std::ranges::binary_search(group.members, producer);
        if (inside || !known.insert(input).second) continue;
        if (const std::optional<double> number = constant(input)) {
          inputs.constants.emplace_back(input, *number);
        } else {
          inputs.values.push_back(input);
        }
      }
    }
    return inputs;
  }

  std::vector<int> outputs_of(const Chain& group) const {
    std::vector<int> outputs;
    for (const int member : group.members) {
      const int output = at(member).outputs[0];
      const bool used = std::ranges::any_of(flow_.users(output),
                                            [&](int user) { return !std::ranges::binary_search(group.members, user); });
      if (used || flow_.is_result(output)) outputs.push_back(output);
    }
    return outputs;
  }

  // Users that come later may still join, so there can be more outputs now than in the end.
  bool fits(const Chain& group) const {
    const Inputs inputs = inputs_of(group);
    return group.members.size() <= kMostOps && inputs.values.size() <= kMostInputs &&
           inputs.constants.size() <= kMostConstants;
  }

  void fuse(const Chain& group) {
    const Inputs inputs = inputs_of(group);
    Instruction fused{.op = &kElementwise, .inputs = inputs.values, .outputs = outputs_of(group)};
    if (fused.inputs.empty() || fused.outputs.empty() || fused.outputs.size() > kMostOutputs) return;
    StepWriter writer(program_);
    for (const int input : fused.inputs) writer.add_input(input);
    for (const auto& [value, number] : inputs.constants) writer.add_constant(value, number);
    for (const int member : group.members) writer.add(at(member));
    std::vector<int> results;
    for (const int output : fused.outputs) results.push_back(writer.result(output));
    fused.attributes = {{"steps", writer.text()}, {"results", fmt::format("{}", fmt::join(results, " "))}};
    if (has_kernel_(program_, fused)) replace(program_, group.members.back(), group.members, std::move(fused));
  }

  Program& program_;
  const HasKernel& has_kernel_;
  DataFlow flow_;
  Indexed<int> group_of_;  // by instruction
  Indexed<Chain> groups_;  // those that were taken into another one are empty
  int barrier_ = 0;        // the last instruction so far that writes a state
};

// Takes out what computes the same as an instruction before it, so that it is not a step of several chains.
void share_equal(Program& program) {
  std::unordered_map<std::string, const Instruction*> known;
  std::unordered_map<int, int> same;  // values of what is taken out, and what stands for them
  const auto spec = [&](int value) { return program.values[value]; };
  const auto shared = [&](int value) {
    const auto found = same.find(value);
    return found == same.end() ? value : found->second;
  };
  for (Instruction& instruction : program.instructions) {
    for (int& input : instruction.inputs) input = shared(input);
    if (!instruction.op->in_place.empty()) continue;
    const bool is_view = instruction.op == &kReshape || instruction.op == &kBroadcast;
    if (is_view && spec(instruction.inputs[0]) == spec(instruction.outputs[0])) {
      same[instruction.outputs[0]] = instruction.inputs[0];  // the same elements in the same order
      instruction = Instruction{};
      continue;
    }
    const auto [entry, added] = known.try_emplace(instruction_key(instruction), &instruction);
    if (added) continue;
    for (size_t i = 0; i < instruction.outputs.size(); ++i) same[instruction.outputs[i]] = entry->second->outputs[i];
    instruction = Instruction{};
  }
  for (int& result : program.results) result = shared(result);
  erase_removed(program);
}

}  // namespace

void fuse_elementwise(Program& program, const HasKernel& has_kernel) {
  share_equal(program);
  ElementwiseFuser(program, has_kernel).run();
}

}  // namespace gabbro
