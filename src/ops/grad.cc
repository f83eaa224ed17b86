#include "src/ops/grad.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gabbro/graph/autocast.h"
#include "src/base/error.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro {
namespace {

thread_local int functions_being_differentiated = 0;

std::string described(const Tensor& x) { return fmt::format("{} {}", dtype_name(x.dtype()), x.shape().to_string()); }

History* history_of(const Tensor& x) { return x.state().history.get(); }

// A separate tensor with the same values: with a history that leads to x, or as a leaf.
Tensor linked(const Tensor& x, std::vector<Tensor> after = {}) {
  after.insert(after.begin(), x);
  return record(kIdentity, std::move(after));
}
Tensor as_leaf(const Tensor& x, std::vector<Tensor> after = {}) {
  const NoGrad no_grad;
  const Tensor leaf = linked(x, std::move(after));
  require_gradient(leaf);
  return leaf;
}

// The nodes younger than `since` in the histories of the outputs, in the order in which they were recorded.
std::vector<std::shared_ptr<Node>> nodes_behind(std::span<const Tensor> outputs, uint64_t since) {
  std::vector<std::shared_ptr<Node>> nodes;
  std::unordered_set<const Node*> known;
  std::vector<const Tensor*> stack;
  for (const Tensor& output : outputs) stack.push_back(&output);
  while (!stack.empty()) {
    const Tensor& tensor = *stack.back();
    stack.pop_back();
    if (!needs_gradient(tensor)) continue;
    const History& history = *history_of(tensor);
    if (history.freed) {
      throw bad_input("[gradients] the history of {} was freed by backward(): ask it to keep the history",
                      described(tensor));
    }
    if (history.node == nullptr || history.node->sequence <= since || !known.insert(history.node.get()).second)
      continue;
    nodes.push_back(history.node);
    for (const Tensor& input : history.node->inputs) stack.push_back(&input);
  }
  std::ranges::sort(nodes, {}, &Node::sequence);
  return nodes;
}

// Calls the gradient rules of `nodes`, the youngest first, and sums up what comes to each tensor.
class Backwards {
 public:
  explicit Backwards(std::span<const Tensor> targets) {
    for (const Tensor& target : targets) targets_.insert(history_of(target));
  }

  void add(const Tensor& tensor, const Tensor& gradient) {
    Tensor& sum = sums_[history_of(tensor)];
    sum = sum.defined() ? sum + gradient : gradient;
  }

  void run(std::span<const std::shared_ptr<Node>> nodes) {
    const NoAutocast as_recorded;
    for (const std::shared_ptr<Node>& node : nodes)
      if (std::ranges::any_of(node->inputs, [&](const Tensor& input) { return leads(input); }))
        leading_.insert(node.get());
    for (size_t i = nodes.size(); i-- > 0;)
      if (leading_.contains(nodes[i].get())) pass(nodes[i]);
  }

  Tensor sum(const Tensor& target) const {  // undefined: nothing came
    const auto found = sums_.find(history_of(target));
    return found == sums_.end() ? Tensor() : found->second;
  }

 private:
  // Whether it is a target, or was computed from one.
  bool leads(const Tensor& input) const {
    const History* history = history_of(input);
    return history != nullptr && (targets_.contains(history) || leading_.contains(history->node.get()));
  }

  void pass(const std::shared_ptr<Node>& node) {
    std::vector<Tensor> gradients, outputs;
    for (const std::weak_ptr<TensorState>& made : node->made) {
      const std::shared_ptr<TensorState> state = made.lock();
      const bool tracked = state != nullptr && state->history != nullptr;
      const auto found = tracked ? sums_.find(state->history.get()) : sums_.end();
      gradients.push_back(found == sums_.end() ? Tensor() : found->second);
      // The sum is complete: a gradient function that evaluates must not find it held.
      if (found != sums_.end() && !targets_.contains(found->first)) sums_.erase(found);
    }
    if (std::ranges::none_of(gradients, &Tensor::defined)) return;
    for (int i = 0; i < std::ssize(node->outputs); ++i) outputs.push_back(output_of(node, i));
    node->differentiated = true;
    const Gradients results = apply(
        *node, {.inputs = node->inputs, .outputs = outputs, .attributes = node->attributes, .gradients = gradients});
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (!results[i].defined() || !leads(node->inputs[i])) continue;
      if (results[i].spec() != node->inputs[i].spec()) {
        throw failed("internal: the gradient of {} for its input {} is {}", node->op->name, described(node->inputs[i]),
                     described(results[i]));
      }
      add(node->inputs[i], results[i]);
    }
  }

  static Gradients apply(const Node& node, const GradientArgs& args);

  std::unordered_set<const History*> targets_;
  std::unordered_set<const Node*> leading_;
  std::unordered_map<const History*, Tensor> sums_;
};

// f once more, from `inputs`, with histories; and the gradients of those inputs that need one, and of `captured`,
// from the gradients of the outputs.
Gradients differentiated(const Functions& f, std::span<const Tensor> inputs, std::span<const Tensor> captured,
                         std::span<const Tensor> output_gradients, const std::vector<Tensor>& after) {
  const bool differentiable = gradients_enabled();
  const uint64_t since = nodes_recorded();
  std::vector<Tensor> copies, targets;
  for (const Tensor& input : inputs) {
    const bool wanted = needs_gradient(input);
    copies.push_back(!wanted ? input : differentiable ? linked(input, after) : as_leaf(input, after));
    if (wanted) targets.push_back(copies.back());
  }
  targets.insert(targets.end(), captured.begin(), captured.end());
  std::vector<Tensor> outputs;
  {
    const GradientMode record_history(true);
    outputs = f(copies);
  }
  Backwards backwards(targets);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (output_gradients[i].defined() && needs_gradient(outputs[i])) backwards.add(outputs[i], output_gradients[i]);
  backwards.run(nodes_behind(outputs, since));
  Gradients gradients;
  for (const Tensor& copy : copies) gradients.push_back(needs_gradient(copy) ? backwards.sum(copy) : Tensor());
  for (const Tensor& tensor : captured) gradients.push_back(backwards.sum(tensor));
  return gradients;
}

Gradients Backwards::apply(const Node& node, const GradientArgs& args) {
  if (node.gradient != nullptr) return node.gradient(args);
  if (node.op->gradient != nullptr) return node.op->gradient(args);
  if (node.op->compose == nullptr) throw bad_input("[{}] has no gradient", node.op->name);
  return gradient_of_composition(*node.op, args);
}

Tensor seed_of(const char* op, const Tensor& output, const Tensor& seed) {
  if (!output.defined()) throw bad_input("[{}] the output is undefined", op);
  if (!needs_gradient(output)) throw bad_input("[{}] the output {} does not require a gradient", op, described(output));
  if (!seed.defined() && output.shape().elements() != 1)
    throw bad_input("[{}] the output {} is not one number, so it needs a seed", op, described(output));
  if (seed.defined() && seed.spec() != output.spec())
    throw bad_input("[{}] the seed {} does not fit the output {}", op, described(seed), described(output));
  return seed.defined() ? seed : filled_like(output, output.shape(), 1);
}

}  // namespace

Gradients gradient_of_composition(const Op& op, const GradientArgs& args) {
  const auto composition = [&](std::span<const Tensor> inputs) { return op.compose(Args{inputs, args.attributes}); };
  return differentiated(composition, args.inputs, {}, args.gradients, {});
}

std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs, const GradientOptions& options) {
  const GradientMode mode(options.differentiable);
  const TrainingNodes training;
  const Tensor seed = seed_of("gradients", output, options.seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) throw bad_input("[gradients] input {} is undefined", i);
    if (!needs_gradient(inputs[i]))
      throw bad_input("[gradients] input {}, {}, does not require a gradient", i, described(inputs[i]));
  }
  Backwards backwards(inputs);
  backwards.add(output, seed);
  backwards.run(nodes_behind(std::span(&output, 1), 0));
  std::vector<Tensor> results;
  for (const Tensor& input : inputs) {
    const Tensor sum = backwards.sum(input);
    results.push_back(sum.defined() ? sum : filled_like(input, input.shape(), 0));
  }
  return results;
}

void backward(const Tensor& output, const BackwardOptions& options) {
  const NoGrad no_grad;
  const TrainingNodes training;
  const Tensor seed = seed_of("backward", output, options.seed);
  const std::vector<std::shared_ptr<Node>> nodes = nodes_behind(std::span(&output, 1), 0);
  std::vector<Tensor> leaves;
  std::unordered_set<const History*> known;
  const auto add_leaf = [&](const Tensor& tensor) {
    if (needs_gradient(tensor) && is_leaf(tensor) && known.insert(history_of(tensor)).second) leaves.push_back(tensor);
  };
  add_leaf(output);
  for (const std::shared_ptr<Node>& node : nodes) std::ranges::for_each(node->inputs, add_leaf);
  Backwards backwards(leaves);
  backwards.add(output, seed);
  backwards.run(nodes);
  for (const Tensor& leaf : leaves) {
    const Tensor more = backwards.sum(leaf);
    if (!more.defined()) continue;
    std::shared_ptr<Tensor>& sum = history_of(leaf)->gradient;
    if (sum == nullptr) {
      sum = std::make_shared<Tensor>(more);
    } else {
      *sum = *sum + more;
    }
  }
  if (!options.keep_history) free_history(nodes);
}

std::shared_ptr<Tensor> gradient_object(const Tensor& leaf) {
  return needs_gradient(leaf) ? history_of(leaf)->gradient : nullptr;
}

void take_gradient(const Tensor& leaf, std::shared_ptr<Tensor> gradient) {
  if (gradient != nullptr && needs_gradient(leaf) && is_leaf(leaf)) history_of(leaf)->gradient = std::move(gradient);
}

void zero_gradient(const Tensor& leaf) {
  const std::shared_ptr<Tensor> gradient = gradient_object(leaf);
  if (gradient != nullptr) *gradient = filled_like(leaf, leaf.shape(), 0);
}

Tensor gradient_of(const Tensor& leaf) {
  const std::shared_ptr<Tensor> gradient = gradient_object(leaf);
  return gradient != nullptr ? *gradient : Tensor();
}

void set_gradient(const Tensor& leaf, const Tensor& gradient) {
  if (!leaf.defined() || !needs_gradient(leaf) || !is_leaf(leaf))
    throw bad_input("[gradient] the tensor is not a leaf");
  if (!gradient.defined() || gradient.spec() != leaf.spec() || gradient.device() != leaf.device()) {
    throw bad_input("[gradient] {} does not fit {}", gradient.defined() ? described(gradient) : "no tensor",
                    described(leaf));
  }
  std::shared_ptr<Tensor>& place = history_of(leaf)->gradient;
  if (place == nullptr) {
    place = std::make_shared<Tensor>(gradient);
  } else {
    *place = gradient;
  }
}

void clear_gradient(const Tensor& leaf) {
  if (needs_gradient(leaf)) history_of(leaf)->gradient.reset();
}

namespace {

// Whether the value depends on another tensor that requires a gradient than on the copies, which are the last tensors
// before node `since`.
bool reads_from_outside(const Tensor& value, std::span<const Tensor> copies, uint64_t since) {
  std::unordered_set<const History*> own;
  for (const Tensor& copy : copies) own.insert(history_of(copy));
  for (const std::shared_ptr<Node>& node : nodes_behind({&value, 1}, since)) {
    for (const Tensor& input : node->inputs) {
      const History* history = history_of(input);
      if (history == nullptr || own.contains(history)) continue;
      if (history->node == nullptr || history->node->sequence <= since) return true;
    }
  }
  return false;
}

}  // namespace

ValueAndGradients value_and_grad(const Function& f, std::span<const Tensor> inputs) {
  const bool nested = functions_being_differentiated > 0;
  const bool is_recording = gradients_enabled();
  const GradientMode record_history(true);
  std::vector<Tensor> copies;
  for (const Tensor& input : inputs) copies.push_back(nested && needs_gradient(input) ? linked(input) : as_leaf(input));
  const uint64_t since = nodes_recorded();
  struct Depth {
    Depth() { ++functions_being_differentiated; }
    ~Depth() { --functions_being_differentiated; }
  };
  const Tensor value = [&] {
    const Depth depth;
    return f(copies);
  }();
  if (!value.defined() || value.shape().elements() != 1) {
    throw bad_input("[value_and_grad] the function gave {}, not one number",
                    value.defined() ? described(value) : "no tensor");
  }
  if (needs_gradient(value)) {
    // Tensors that the function captures have gradients of the gradients too.
    const bool differentiable = nested || (is_recording && reads_from_outside(value, copies, since));
    const std::vector<Tensor> results = gradients(value, copies, {.differentiable = differentiable});
    return {.value = differentiable ? value : detach(value), .gradients = results};
  }
  std::vector<Tensor> zeros;
  for (const Tensor& copy : copies) zeros.push_back(filled_like(copy, copy.shape(), 0));
  return {.value = value, .gradients = zeros};
}

std::vector<Tensor> checkpoint(const Functions& f, std::span<const Tensor> inputs) {
  static const Op kCheckpoint = {.name = "checkpoint"};
  if (!gradients_enabled()) return f(inputs);
  const uint64_t since = nodes_recorded();
  std::vector<Tensor> copies;
  std::unordered_set<const Node*> links;
  for (const Tensor& input : inputs) {
    copies.push_back(needs_gradient(input) ? linked(input) : input);
    if (needs_gradient(input)) links.insert(history_of(copies.back())->node.get());
  }
  const std::vector<Tensor> results = f(copies);
  const std::vector<std::shared_ptr<Node>> nodes = nodes_behind(results, since);
  std::vector<Tensor> captured;
  std::unordered_set<const History*> known;
  for (const std::shared_ptr<Node>& node : nodes) {
    for (const Tensor& input : node->inputs) {
      const History* history = history_of(input);
      const bool from_outside = history != nullptr && (history->node == nullptr || history->node->sequence <= since);
      if (from_outside && !links.contains(node.get()) && known.insert(history).second) captured.push_back(input);
    }
  }
  if (nodes.empty()) return results;

  auto node = std::make_shared<Node>();
  node->op = &kCheckpoint;
  node->sequence = nodes_recorded();
  node->inputs.assign(inputs.begin(), inputs.end());
  node->inputs.insert(node->inputs.end(), captured.begin(), captured.end());
  node->device = results.front().device();
  node->gradient = [f, count = inputs.size(), autocast = autocast_dtype()](const GradientArgs& args) {
    const Autocast as_before(autocast);
    std::vector<Tensor> arrived;  // computed once more when these are there, and not before
    for (const Tensor& gradient : args.gradients)
      if (gradient.defined()) arrived.push_back(gradient);
    return differentiated(f, args.inputs.first(count), args.inputs.subspan(count), args.gradients, arrived);
  };
  std::vector<Tensor> outputs;
  for (const Tensor& result : results) {
    const int index = static_cast<int>(outputs.size());
    outputs.push_back(detach(result));
    node->outputs.push_back(result.spec());
    node->made.push_back(outputs.back().shared_state());
    if (is_differentiable(result.dtype()) && needs_gradient(result))
      outputs.back().state().history = std::make_shared<History>(History{.node = node, .output = index});
  }
  free_history(nodes);
  return outputs;
}

Tensor detach(const Tensor& x) {
  const NoGrad no_grad;
  return linked(x);
}

}  // namespace gabbro
