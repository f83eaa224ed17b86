#include "src/plan/program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "gabbro/graph/autocast.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/graph/history.h"

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

// Numbers by the addresses of nodes and tensors: a few are looked for one by one, more in a hash table.
class NumberTable {
 public:
  // -1 where it is new. The reference is valid until the next call.
  int& find_or_add(const void* key) {
    if (is_hashed_) return find_or_add_hashed(key);
    for (size_t i = 0; i < count_; ++i) {
      if (few_[i].key == key) return few_[i].number;
    }
    if (count_ < few_.size()) {
      few_[count_] = {key, -1};
      return few_[count_++].number;
    }
    is_hashed_ = true;
    if (entries_.empty()) entries_.resize(256);
    for (const Entry& entry : few_) slot(entry.key) = entry;
    return find_or_add_hashed(key);
  }

  // Keeps the memory of the hash table, unless a large graph took much of it.
  void clear() {
    constexpr size_t kMostCleared = 2048;
    if (is_hashed_ && entries_.size() <= kMostCleared) {
      std::ranges::fill(entries_, Entry{});
    } else if (is_hashed_) {
      entries_ = {};
    }
    is_hashed_ = false;
    count_ = 0;
  }

 private:
  struct Entry {
    const void* key = nullptr;
    int number = 0;
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
  bool is_hashed_ = false;
  size_t count_ = 0;
};

// Bytes are written through a cursor: a key of a small graph takes a hundred numbers, and a microsecond is all there
// is.
class KeyWriter {
 public:
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
  std::string_view view() const { return {key_.data(), size_}; }
  // Starts another key in the same memory, unless a large graph took much of it.
  void restart() {
    constexpr size_t kMostKept = 65536;
    size_ = 0;
    if (key_.size() > kMostKept) key_ = {};
  }

 private:
  char* room(size_t bytes) {
    if (key_.size() - size_ < bytes) key_.resize(std::max<size_t>(512, 2 * (key_.size() + bytes)));  // 512: some ops
    char* const at = key_.data() + size_;
    size_ += bytes;
    return at;
  }

  std::string key_;  // its first size_ bytes
  size_t size_ = 0;
};

// trace_inline: its tables and lists keep their memory from graph to graph of a thread.
class InlineTracer {
 public:
  std::optional<InlineTrace> run(std::span<const Tensor> results) {
    scratch_.nodes.clear();
    scratch_.numbers.clear();
    scratch_.uses.clear();
    scratch_.key.restart();
    if (!find_nodes(results)) return std::nullopt;
    std::ranges::sort(scratch_.nodes, {}, &Node::sequence);
    for (size_t i = 0; i < scratch_.nodes.size(); ++i) number_of(scratch_.nodes[i]) = static_cast<int>(i);
    add_unread();
    constexpr size_t kUsualParameters = 8;
    traced_.parameters.reserve(kUsualParameters);
    scratch_.key.number(SIZE_MAX);  // no program has as many parameters
    scratch_.key.number(scratch_.nodes.size());
    if (!write_nodes()) return std::nullopt;
    for (const Tensor& result : results) write_result(result);
    for (const Tensor& held : traced_.held) write_result(held);
    traced_.key = scratch_.key.view();
    traced_.nodes = scratch_.nodes;
    return std::move(traced_);
  }

 private:
  static constexpr size_t kMostNodes = 4096, kMostParameters = 4096;
  static constexpr int kTaken = std::numeric_limits<int>::max();  // uses of what is a result already

  struct Scratch {
    std::vector<const Node*> nodes;
    NumberTable numbers;  // of nodes and of tensors that are parameters
    NumberTable uses;     // of pending tensors by these nodes
    KeyWriter key;
  };

  int& number_of(const void* key) { return scratch_.numbers.find_or_add(key); }
  int& uses_of(const TensorState& state) { return scratch_.uses.find_or_add(&state); }

  // Whether no other than the one node that reads it holds it.
  static bool is_passed_on(const Tensor& input) { return input.sole_owner() && input.state().node->made.empty(); }

  // Whether its gradient is still to be taken, which may read values that nothing else holds.
  static bool waits_for_gradient(const Tensor& made) {
    if (!needs_gradient(made)) return false;
    const std::shared_ptr<Node>& node = made.state().history->node;
    return node != nullptr && !node->differentiated;
  }

  bool add_node(const Node* node) {
    int& number = number_of(node);
    if (number >= 0) return true;
    number = 0;
    scratch_.nodes.push_back(node);
    is_training_ |= node->training;
    return scratch_.nodes.size() <= kMostNodes;
  }

  bool find_nodes(std::span<const Tensor> results) {
    std::vector<const Node*>& nodes = scratch_.nodes;
    bool waits = false;
    for (const Tensor& result : results) {
      if (!result.defined() || result.has_value() || !add_node(result.state().node.get())) return false;
      uses_of(result.state()) = kTaken;
      waits |= waits_for_gradient(result);
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Tensor& input : nodes[i]->inputs) {
        if (input.has_value()) continue;
        if (input.state().node->deferred || !add_node(input.state().node.get())) return false;
        waits |= waits_for_gradient(input);
        if (is_passed_on(input)) continue;
        int& count = uses_of(input.state());
        if (count != kTaken) count = std::max(count, 0) + 1;
      }
    }
    return !(waits && is_training_);
  }

  // Outputs that none of the nodes reads, next to one that is read.
  void add_unread() {
    for (const Node* const node : scratch_.nodes) {
      for (const std::weak_ptr<TensorState>& made : node->made) {
        const std::shared_ptr<TensorState> state = made.lock();
        if (state == nullptr || uses_of(*state) >= 0) continue;
        uses_of(*state) = kTaken;
        traced_.held.emplace_back(state);
      }
    }
  }

  // A tensor that others than the nodes hold is a result, too.
  void add_held(const Tensor& input) {
    if (is_passed_on(input)) return;
    int& count = uses_of(input.state());
    if (count == kTaken || input.use_count() <= count) return;
    count = kTaken;
    traced_.held.push_back(input);
  }

  bool write_nodes() {
    for (const Node* const node : scratch_.nodes) {
      scratch_.key.operation(node->op, node->attributes);
      scratch_.key.number(node->inputs.size());
      for (const Tensor& input : node->inputs) {
        if (!input.has_value()) {
          write_result(input);
          add_held(input);
        } else if (!write_parameter(input)) {
          return false;
        }
      }
    }
    return true;
  }

  bool write_parameter(const Tensor& input) {
    int& number = number_of(&input.state());
    const bool is_known = number >= 0;
    if (!is_known) number = static_cast<int>(traced_.parameters.size());
    scratch_.key.number(number);
    scratch_.key.number(-1);
    if (is_known) return true;
    scratch_.key.tensor(input.spec(), input.state().layout.strides);
    traced_.parameters.push_back(input);
    return traced_.parameters.size() <= kMostParameters;
  }

  void write_result(const Tensor& tensor) {
    scratch_.key.number(number_of(tensor.state().node.get()));
    scratch_.key.number(tensor.state().output);
  }

  static Scratch& scratch() {
    thread_local Scratch of_thread;
    return of_thread;
  }

  Scratch& scratch_ = scratch();
  InlineTrace traced_;
  bool is_training_ = false;
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

std::optional<InlineTrace> trace_inline(std::span<const Tensor> results) { return InlineTracer().run(results); }

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
