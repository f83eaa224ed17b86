// A graph written down as a list of instructions over numbered values: what fusion and planning work on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/indexed.h"
#include "src/graph/node.h"

namespace gabbro {

struct Instruction {
  const Op* op = nullptr;
  Attributes attributes;
  std::vector<int> inputs;  // value numbers
  std::vector<int> outputs;
};

struct Program {
  Indexed<TensorSpec> values;             // by value number
  std::vector<int> parameters;            // values that come from outside, in order
  std::vector<Layout> parameter_layouts;  // strides (the offset is left to each run)
  std::vector<int> results;
  Indexed<Instruction> instructions;  // in an order that computes before it uses

  int add_value(const TensorSpec& spec);
};

// A program together with the tensors that are its parameters, and the nodes that became its instructions.
struct Trace {
  Program program;
  std::vector<Tensor> parameters;
  std::vector<std::shared_ptr<Node>> nodes;            // by instruction
  std::unordered_map<const Node*, int> first_outputs;  // value numbers
  std::unordered_map<const TensorState*, int> leaves;  // value numbers of the parameters
  std::vector<Tensor> deferred;  // inputs that are to be computed before, and traced again: see defer()

  int value(const Tensor& tensor) const;
};

std::vector<const Node*> addresses_of(std::span<const std::shared_ptr<Node>> nodes);

// Everything that is still to be computed for `results`, in the order in which the ops were called. Tensors with a
// value become parameters.
Trace trace(std::span<const Tensor> results);

// Equal for two programs exactly when they do the same: ops, attributes, shapes, dtypes, layouts, wiring.
std::string structure_key(const Program& program);

// Trace of a graph for eval (src/plan/eval.h), without a program: a fixed number of allocations instead of several per
// op. None if there are more than some thousand ops or inputs, a result has a value, an input was deferred, or a
// gradient that is still to be taken may read intermediates (retained_values.h). `key` and `nodes` are valid until the
// thread's next trace_inline.
struct InlineTrace {
  std::string_view key;            // equal for two exactly when they do the same; never equal to a structure_key
  std::vector<Tensor> parameters;  // of trace()
  std::vector<Tensor> held;        // intermediates that have other holders, which become results after those asked for
  std::span<const Node* const> nodes;  // in the order of the instructions
};
std::optional<InlineTrace> trace_inline(std::span<const Tensor> results);

// Equal for two instructions exactly when they compute the same: op, attributes and inputs.
std::string instruction_key(const Instruction& instruction);

// The instructions of one op's composition, on values of `program`: appended to `instructions` in place of
// `instruction`, whose output values they compute. False where it has none.
bool expand(Program& program, const Instruction& instruction, const std::shared_ptr<Device>& device,
            std::vector<Instruction>& instructions);

}  // namespace gabbro
