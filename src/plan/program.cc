#include "src/plan/program.h"

#include <algorithm>
#include <utility>

#include "gabbro/graph/autocast.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/plan/key_writer.h"

namespace gabbro {
namespace {

// Finds the nodes by depth-first search without recursion: graphs can be much deeper than the stack.
class Tracer {
 public:
  Trace run(std::span<const Tensor> results) {
    for (const Tensor& result : results) visit(result);
    std::ranges::sort(trace_.nodes, {}, &Node::sequence);
    for (const std::shared_ptr<Node>& node : trace_.nodes) emit(*node);
    for (const Tensor& result : results) {
      if (result.has_value()) add_parameter(result);
      trace_.program.results.push_back(trace_.value(result));
    }
    return std::move(trace_);
  }

 private:
  void visit(const Tensor& root) {
    std::vector<const Tensor*> stack{&root};
    while (!stack.empty()) {
      const std::shared_ptr<Node>& node = stack.back()->state().node;
      stack.pop_back();
      if (node == nullptr || !trace_.first_outputs.try_emplace(node.get(), 0).second) continue;
      trace_.nodes.push_back(node);
      for (const Tensor& input : node->inputs) {
        stack.push_back(&input);
        if (input.state().node != nullptr && input.state().node->deferred) trace_.deferred.push_back(input);
      }
    }
  }

  void add_parameter(const Tensor& tensor) {
    const auto [entry, added] =
        trace_.leaves.try_emplace(&tensor.state(), static_cast<int>(trace_.program.values.size()));
    if (!added) return;
    trace_.program.add_value(tensor.spec());
    trace_.program.parameters.push_back(entry->second);
    trace_.program.parameter_layouts.push_back(tensor.state().layout);
    trace_.parameters.push_back(tensor);
  }

  void emit(const Node& node) {
    Instruction instruction{.op = node.op, .attributes = node.attributes};
    for (const Tensor& input : node.inputs) {
      if (input.has_value()) add_parameter(input);
      instruction.inputs.push_back(trace_.value(input));
    }
    trace_.first_outputs[&node] = static_cast<int>(trace_.program.values.size());
    for (const TensorSpec& output : node.outputs) instruction.outputs.push_back(trace_.program.add_value(output));
    trace_.program.instructions.push_back(std::move(instruction));
  }

  Trace trace_;
};

}  // namespace

int Trace::value(const Tensor& tensor) const {
  const TensorState& state = tensor.state();
  return state.node == nullptr ? leaves.at(&state) : first_outputs.at(state.node.get()) + state.output;
}

int Program::add_value(const TensorSpec& spec) {
  values.push_back(spec);
  return static_cast<int>(values.size()) - 1;
}

std::vector<const Node*> addresses_of(std::span<const std::shared_ptr<Node>> nodes) {
  std::vector<const Node*> addresses;
  addresses.reserve(nodes.size());
  for (const std::shared_ptr<Node>& node : nodes) addresses.push_back(node.get());
  return addresses;
}

Trace trace(std::span<const Tensor> results) { return Tracer().run(results); }

std::string structure_key(const Program& program) {
  KeyWriter key;
  key.number(program.parameters.size());
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const TensorSpec& spec = program.values[program.parameters[i]];
    key.number(program.parameters[i]);
    key.tensor(spec, program.parameter_layouts[i].strides);
  }
  for (const Instruction& instruction : program.instructions) {
    key.instruction(instruction);
    key.number(instruction.outputs.size());
    for (const int output : instruction.outputs) {
      key.number(output);
      key.number(program.values[output].dtype);
      key.numbers(program.values[output].shape.lengths());
    }
  }
  key.number(program.results.size());
  for (const int result : program.results) key.number(result);
  return key.take();
}

std::string instruction_key(const Instruction& instruction) {
  KeyWriter key;
  key.instruction(instruction);
  return key.take();
}

bool expand(Program& program, const Instruction& instruction, const std::shared_ptr<Device>& device,
            std::vector<Instruction>& instructions) {
  if (instruction.op->compose == nullptr) return false;
  std::vector<Tensor> placeholders;
  std::unordered_map<const TensorState*, int> values;
  for (const int input : instruction.inputs) {
    auto state = std::make_shared<TensorState>();
    state->spec = program.values[input];
    state->device = device;
    state->layout = Layout::contiguous(state->spec.shape);
    values[state.get()] = input;
    placeholders.emplace_back(std::move(state));
  }
  const NoAutocast as_recorded;
  const std::vector<Tensor> results = instruction.op->compose(Args{placeholders, instruction.attributes});
  if (results.empty()) return false;
  Trace part = trace(results);
  std::vector<int> renamed(part.program.values.size(), -1);
  for (size_t i = 0; i < part.parameters.size(); ++i) {
    const auto known = values.find(&part.parameters[i].state());
    if (known == values.end()) throw failed("internal: the composition of {} captures a tensor", instruction.op->name);
    renamed[static_cast<size_t>(part.program.parameters[i])] = known->second;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    int& name = renamed[static_cast<size_t>(part.program.results[i])];
    if (name >= 0) throw failed("internal: the composition of {} returns its input", instruction.op->name);
    name = instruction.outputs[i];
    if (program.values[name] != results[i].spec()) {
      throw failed("internal: the composition of {} gives another shape or dtype than its rule", instruction.op->name);
    }
  }
  for (Instruction& inner : part.program.instructions) {
    const auto rename = [&](int& value) {
      int& name = renamed[static_cast<size_t>(value)];
      if (name < 0) name = program.add_value(part.program.values[value]);
      value = name;
    };
    for (int& input : inner.inputs) rename(input);
    for (int& output : inner.outputs) rename(output);
    instructions.push_back(std::move(inner));
  }
  return true;
}

}  // namespace gabbro
