#include "src/plan/program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "gabbro/graph/autocast.h"
#include "src/backend/device.h"
#include "src/base/error.h"

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

// Numbers of nodes and leaves by their addresses: a few are looked for one by one, more in a hash table.
class NumberTable {
 public:
  // -1 where it is new. The reference is valid until the next call.
  int& find_or_add(const void* key) {
    if (!entries_.empty()) return find_or_add_hashed(key);
    for (size_t i = 0; i < count_; ++i) {
      if (few_[i].key == key) return few_[i].number;
    }
    if (count_ < few_.size()) {
      few_[count_] = {key, -1};
      return few_[count_++].number;
    }
    entries_.resize(256);
    for (const Entry& entry : few_) slot(entry.key) = entry;
    return find_or_add_hashed(key);
  }

 private:
  struct Entry {
    const void* key;
    int number;
  };

  int& find_or_add_hashed(const void* key) {
    if (2 * (count_ + 1) > entries_.size()) {
      std::vector<Entry> before(2 * entries_.size());
      std::swap(before, entries_);
      for (const Entry& entry : before) {
        if (entry.key != nullptr) slot(entry.key) = entry;
      }
    }
    Entry& entry = slot(key);
    if (entry.key == nullptr) {
      entry = {key, -1};
      ++count_;
    }
    return entry.number;
  }

  Entry& slot(const void* key) {
    const uint64_t hash = reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15u;
    size_t at = hash >> 32 & (entries_.size() - 1);
    while (entries_[at].key != nullptr && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }

  std::array<Entry, 24> few_;
  std::vector<Entry> entries_;  // a power of two
  size_t count_ = 0;
};

// Bytes are written through a cursor: a key of a small graph takes a hundred numbers, and a microsecond is all there
// is.
class KeyWriter {
 public:
  explicit KeyWriter(size_t bytes = 512) : key_(bytes, '\0') {}  // by default what a few ops take

  template <class T>
  void number(T value) {
    std::memcpy(room(sizeof value), &value, sizeof value);
  }
  void numbers(std::span<const int64_t> values) {
    number(values.size());
    for (const int64_t value : values) number(value);
  }
  void text(std::string_view text) {
    number(text.size());
    std::memcpy(room(text.size()), text.data(), text.size());
  }
  void tensor(const TensorSpec& spec, const Strides& strides) {
    number(spec.dtype);
    number(spec.packed);
    numbers(spec.shape.lengths());
    number(strides);
  }
  void operation(const Op* op, const Attributes& attributes) {
    number(reinterpret_cast<uintptr_t>(op));
    number(attributes.entries().size());
    for (const auto& [name, value] : attributes.entries()) {
      text(name);
      number(value.index());
      if (const auto* integer = std::get_if<int64_t>(&value)) number(*integer);
      if (const auto* real = std::get_if<double>(&value)) number(*real);
      if (const auto* string = std::get_if<std::string>(&value)) text(*string);
    }
  }
  void instruction(const Instruction& instruction) {
    operation(instruction.op, instruction.attributes);
    number(instruction.inputs.size());
    for (const int input : instruction.inputs) number(input);
  }
  std::string take() {
    key_.resize(size_);
    return std::move(key_);
  }

 private:
  char* room(size_t bytes) {
    if (key_.size() - size_ < bytes) key_.resize(2 * (key_.size() + bytes));
    char* const at = key_.data() + size_;
    size_ += bytes;
    return at;
  }

  std::string key_;  // its first size_ bytes
  size_t size_ = 0;
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

std::optional<InlineTrace> trace_inline(const Tensor& result) {
  constexpr size_t kMostNodes = 512, kMostParameters = 256;
  constexpr int kTaken = std::numeric_limits<int>::max();
  if (!result.defined() || result.has_value()) return std::nullopt;
  thread_local std::vector<const Node*> nodes_of_thread;  // whose memory is used again
  std::vector<const Node*>& nodes = nodes_of_thread;      // looked up once
  nodes.assign(1, result.state().node.get());
  NumberTable numbers;
  numbers.find_or_add(nodes[0]) = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->training || (i > 0 && nodes[i]->deferred)) return std::nullopt;
    for (const Tensor& input : nodes[i]->inputs) {
      const Node* const node = input.state().node.get();
      if (node == nullptr) continue;
      int& number = numbers.find_or_add(node);
      if (number >= 0) continue;
      if (nodes.size() == kMostNodes) return std::nullopt;
      number = 0;
      nodes.push_back(node);
    }
  }
  std::ranges::sort(nodes, {}, &Node::sequence);
  for (size_t i = 0; i < nodes.size(); ++i) numbers.find_or_add(nodes[i]) = static_cast<int>(i);

  InlineTrace traced;
  NumberTable uses;  // of pending inputs by these nodes
  for (const Node* const node : nodes) {
    for (const Tensor& input : node->inputs) {
      if (input.has_value()) continue;
      int& count = uses.find_or_add(&input.state());
      count = std::max(count, 0) + 1;
    }
  }
  // A handle besides those of the nodes and of the caller: the value is a result, too.
  const auto add_held = [&](const Tensor& input) {
    int& count = uses.find_or_add(&input.state());
    if (count == kTaken || input.use_count() <= count) return;
    count = kTaken;
    if (&input.state() != &result.state()) traced.held.push_back(input);
  };
  for (const Node* const node : nodes) {
    if (node->made.size() < 2) continue;
    for (const std::weak_ptr<TensorState>& made :
         node->made) {  // an output that no node reads, next to one that is read
      const std::shared_ptr<TensorState> state = made.lock();
      if (state == nullptr || state.get() == &result.state() || uses.find_or_add(state.get()) >= 0) continue;
      uses.find_or_add(state.get()) = kTaken;
      traced.held.emplace_back(state);
    }
  }
  KeyWriter key(std::max<size_t>(512, 64 * nodes.size()));
  key.number(SIZE_MAX);  // no program has as many parameters
  for (const Node* const node : nodes) {
    key.operation(node->op, node->attributes);
    key.number(node->inputs.size());
    for (const Tensor& input : node->inputs) {
      if (!input.has_value()) {
        key.number(numbers.find_or_add(input.state().node.get()));
        key.number(input.state().output);
        add_held(input);
        continue;
      }
      int& number = numbers.find_or_add(&input.state());
      const bool known = number >= 0;
      if (!known) number = static_cast<int>(traced.parameters.size());
      key.number(number);
      key.number(-1);
      if (known) continue;
      if (traced.parameters.size() == kMostParameters) return std::nullopt;
      key.tensor(input.spec(), input.state().layout.strides);
      traced.parameters.push_back(input);
    }
  }
  const auto write_result = [&](const Tensor& tensor) {
    key.number(numbers.find_or_add(tensor.state().node.get()));
    key.number(tensor.state().output);
  };
  write_result(result);
  for (const Tensor& tensor : traced.held) write_result(tensor);
  traced.key = key.take();
  return traced;
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
