#include "src/graph/program.h"

#include <cstring>
#include <utility>

#include "src/backend/device.h"
#include "src/base/error.h"

namespace gabbro {
namespace {

// Builds a Trace by depth-first search without recursion: graphs can be much deeper than the stack.
class Tracer {
 public:
  Trace run(std::span<const Tensor> results) {
    for (const Tensor& result : results) visit(result);
    for (const Tensor& result : results) trace_.program.results.push_back(value(result));
    return std::move(trace_);
  }

 private:
  void visit(const Tensor& root) {
    std::vector<std::pair<Tensor, size_t>> stack;  // a tensor, and how many of its node's inputs were visited
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [tensor, next] = stack.back();
      const Node* node = tensor.state().node.get();
      if (node == nullptr || emitted_.contains(node)) {
        if (node == nullptr) add_parameter(tensor);
        stack.pop_back();
      } else if (next < node->inputs.size()) {
        const Tensor input = node->inputs[next++];
        stack.emplace_back(input, 0);
      } else {
        emit(*node);
        stack.pop_back();
      }
    }
  }

  void add_parameter(const Tensor& tensor) {
    const auto [entry, added] = leaves_.try_emplace(&tensor.state(), static_cast<int>(trace_.program.values.size()));
    if (!added) return;
    trace_.program.add_value(tensor.spec());
    trace_.program.parameters.push_back(entry->second);
    trace_.program.parameter_layouts.push_back(tensor.state().layout);
    trace_.parameters.push_back(tensor);
  }

  void emit(const Node& node) {
    Instruction instruction{.op = node.op, .attributes = node.attributes};
    for (const Tensor& input : node.inputs) instruction.inputs.push_back(value(input));
    emitted_[&node] = static_cast<int>(trace_.program.values.size());
    for (const TensorSpec& output : node.outputs) instruction.outputs.push_back(trace_.program.add_value(output));
    trace_.program.instructions.push_back(std::move(instruction));
  }

  int value(const Tensor& tensor) const {
    const TensorState& state = tensor.state();
    return state.node == nullptr ? leaves_.at(&state) : emitted_.at(state.node.get()) + state.output;
  }

  Trace trace_;
  std::unordered_map<const TensorState*, int> leaves_;
  std::unordered_map<const Node*, int> emitted_;  // the value number of its first output
};

class KeyWriter {
 public:
  template <class T>
  void number(T value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void numbers(std::span<const int64_t> values) {
    number(values.size());
    for (const int64_t value : values) number(value);
  }
  void text(std::string_view text) {
    number(text.size());
    key_ += text;
  }
  std::string take() { return std::move(key_); }

 private:
  std::string key_;
};

}  // namespace

int Program::add_value(const TensorSpec& spec) {
  values.push_back(spec);
  return static_cast<int>(values.size()) - 1;
}

Trace trace(std::span<const Tensor> results) { return Tracer().run(results); }

std::string structure_key(const Program& program) {
  KeyWriter key;
  key.number(program.parameters.size());
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const TensorSpec& spec = program.values[static_cast<size_t>(program.parameters[i])];
    key.number(program.parameters[i]);
    key.number(spec.dtype);
    key.number(spec.packed);
    key.numbers(spec.shape.lengths());
    key.number(program.parameter_layouts[i].strides);
  }
  for (const Instruction& instruction : program.instructions) {
    key.number(reinterpret_cast<uintptr_t>(instruction.op));
    key.number(instruction.attributes.entries().size());
    for (const auto& [name, value] : instruction.attributes.entries()) {
      key.text(name);
      key.number(value.index());
      if (const auto* integer = std::get_if<int64_t>(&value)) key.number(*integer);
      if (const auto* real = std::get_if<double>(&value)) key.number(*real);
      if (const auto* text = std::get_if<std::string>(&value)) key.text(*text);
    }
    key.number(instruction.inputs.size());
    for (const int input : instruction.inputs) key.number(input);
    key.number(instruction.outputs.size());
    for (const int output : instruction.outputs) {
      key.number(output);
      key.number(program.values[static_cast<size_t>(output)].dtype);
      key.numbers(program.values[static_cast<size_t>(output)].shape.lengths());
    }
  }
  key.number(program.results.size());
  for (const int result : program.results) key.number(result);
  return key.take();
}

void expand(Program& program, const Instruction& instruction, const std::shared_ptr<Device>& device,
            std::vector<Instruction>& instructions) {
  std::vector<Tensor> placeholders;
  std::unordered_map<const TensorState*, int> values;
  for (const int input : instruction.inputs) {
    auto state = std::make_shared<TensorState>();
    state->spec = program.values[static_cast<size_t>(input)];
    state->device = device;
    state->layout = Layout::contiguous(state->spec.shape);
    values[state.get()] = input;
    placeholders.emplace_back(std::move(state));
  }
  const std::vector<Tensor> results = instruction.op->compose(Args{placeholders, instruction.attributes});
  Trace part = trace(results);
  std::vector<int> renamed(part.program.values.size(), -1);
  for (size_t i = 0; i < part.parameters.size(); ++i) {
    const auto known = values.find(&part.parameters[i].state());
    if (known == values.end()) throw failed("internal: the composition of {} captures a tensor", instruction.op->name);
    renamed[static_cast<size_t>(part.program.parameters[i])] = known->second;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    int& name = renamed[static_cast<size_t>(part.program.results[i])];
    if (name >= 0) throw failed("internal: the composition of {} gives back its input", instruction.op->name);
    name = instruction.outputs[i];
    if (program.values[static_cast<size_t>(name)] != results[i].spec()) {
      throw failed("internal: the composition of {} gives another shape or dtype than its rule", instruction.op->name);
    }
  }
  for (Instruction& inner : part.program.instructions) {
    const auto rename = [&](int& value) {
      int& name = renamed[static_cast<size_t>(value)];
      if (name < 0) name = program.add_value(part.program.values[static_cast<size_t>(value)]);
      value = name;
    };
    for (int& input : inner.inputs) rename(input);
    for (int& output : inner.outputs) rename(output);
    instructions.push_back(std::move(inner));
  }
}

}  // namespace gabbro
