// The lazy graph: ops as data plus rules, and the nodes that record their use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/tensor/tensor.h"

namespace gabbro {

// The named numbers of an op ("axis", "epsilon"). Names are string literals.
class Attributes {
 public:
  using Value = std::variant<int64_t, double, std::string>;

  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const char*, Value>> entries) : entries_(entries) {}

  void set(const char* name, Value value);
  int64_t integer(std::string_view name) const;  // asserts that it is there: rules read what their op function set
  double real(std::string_view name) const;
  const std::vector<std::pair<const char*, Value>>& entries() const { return entries_; }
  bool operator==(const Attributes& other) const;

 private:
  const Value& at(std::string_view name) const;
  std::vector<std::pair<const char*, Value>> entries_;
};

// Arguments of an op's rules. In `infer` and `view` the inputs' specs are known; `compose` may build on them.
struct Args {
  std::span<const Tensor> inputs;
  const Attributes& attributes;

  const Tensor& operator[](size_t i) const { return inputs[i]; }
  size_t size() const { return inputs.size(); }
};

// Arguments of an op's gradient rule. `gradients` belong to the outputs: undefined if not needed.
struct GradientArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  const Attributes& attributes;
  std::span<const Tensor> gradients;

  const Tensor& operator[](size_t i) const { return inputs[i]; }
  size_t size() const { return inputs.size(); }
};

// The gradients of the inputs, in their shapes and dtypes, built of ops; undefined if there is none, or if it is zero
// everywhere. Unused gradients are never computed.
using Gradients = std::vector<Tensor>;

// An op is data plus rules. Primitive ops have no composition: every backend has a kernel for them, or they are views.
struct Op {
  const char* name;

  // Checks the arguments and tells what comes out. Throws bad_input("[name] ...").
  std::vector<TensorSpec> (*infer)(const Args& args) = nullptr;

  // The reference composition: the same result from simpler ops. Null: primitive; nothing: primitive for these inputs.
  std::vector<Tensor> (*compose)(const Args& args) = nullptr;

  // For an op that only looks at its input's storage in another way: the layout of the result, or none where this
  // input's layout makes that impossible (the planner then makes a contiguous copy first). Null: not a view.
  std::optional<Layout> (*view)(const Layout& input, const Shape& result, const Attributes& attributes) = nullptr;

  // Null: the gradient of the composition; without a composition there is none.
  Gradients (*gradient)(const GradientArgs& args) = nullptr;

  // Whether it is a function of the elements at one place: inputs of the result's shape, one result, and no attribute
  // but cast's `dtype` that its values depend on. Such ops become one launch (fusion/elementwise.cc).
  bool elementwise = false;

  // The inputs that are written in place, one for each output, from output `first_in_place` on; empty for a pure op.
  // E.g. kv_write: output 0 is input 0. The layout of such an input is never copied or changed.
  std::vector<int> in_place = {};
  int first_in_place = 0;
};

struct Node {
  const Op* op = nullptr;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<TensorSpec> outputs;
  std::shared_ptr<Device> device;
  uint64_t sequence = 0;  // nodes count upwards, so a node's inputs were made by smaller ones
  bool deferred = false;  // computed before a graph that reads it, as a separate graph: see defer()

  std::vector<std::weak_ptr<TensorState>> made;  // the outputs: if there are several, or they need a gradient

  // A node whose outputs need a gradient (src/graph/history.h).
  bool training = false;                     // or made for a gradient: see eval()
  bool differentiated = false;               // its gradient was taken, so others hold what that reads
  std::vector<std::pair<int, Tensor>> kept;  // values of outputs that the gradient reads and no one else holds
  std::function<Gradients(const GradientArgs&)> gradient;  // instead of the op's rule

  ~Node();  // frees long chains without recursion
};

// Records the use of an op: infers, checks that all inputs are on one device, and returns its pending outputs.
// `device` is needed only for ops without inputs.
std::vector<Tensor> record_all(const Op& op, std::vector<Tensor> inputs, Attributes attributes = {},
                               std::shared_ptr<Device> device = nullptr);
Tensor record(const Op& op, std::vector<Tensor> inputs, Attributes attributes = {},
              std::shared_ptr<Device> device = nullptr);

// How many nodes were recorded so far: the sequence number of the last one.
uint64_t nodes_recorded();

}  // namespace gabbro
