// softmax_topk, expert_gated and expert_sum: the parts of a mixture of experts.
#include <algorithm>
#include <utility>

#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kSoftmaxTopk = {.name = "softmax_topk"};
const Op kExpertGated = {.name = "expert_gated"};
const Op kExpertSum = {.name = "expert_sum"};

class ExpertFuser {
 public:
  ExpertFuser(Program& program, const HasKernel& has_kernel)
      : program_(program), has_kernel_(has_kernel), flow_(program) {}

  void fuse_parts() {
    for (int index = 0; index < static_cast<int>(program_.instructions.size()); ++index) {
      if (is(index, kSoftmax)) choose(index);
      if (is(index, kExpertLinear)) gate(index);
      if (is(index, kExpertLinear)) add_up(index);
    }
  }

  void take_norms() {
    for (int index = 0; index < static_cast<int>(program_.instructions.size()); ++index) {
      if (is(index, kExpertGated)) add_norm(index);
    }
  }

 private:
  const Instruction& at(int index) const { return program_.instructions[index]; }
  const TensorSpec& spec(int value) const { return program_.values[value]; }
  bool is(int index, const Op& op) const { return index != DataFlow::kNone && at(index).op == &op; }
  // The value that a broadcast is of, or the value itself.
  int before_broadcast(int value) const {
    const int view = flow_.producer(value);
    return is(view, kBroadcast) ? at(view).inputs[0] : value;
  }

  // softmax, topk and the division by the sum of what was chosen.
  void choose(int softmax) {
    const int topk = flow_.only_user(at(softmax).outputs[0], kTopk);
    if (topk == DataFlow::kNone || at(topk).attributes.integer("descending") != 1) return;
    Instruction fused{.op = &kSoftmaxTopk, .inputs = at(softmax).inputs, .outputs = at(topk).outputs};
    std::vector<int> removed = {softmax, topk};
    const int division = division_by_sum(at(topk).outputs[0], removed);
    if (division != DataFlow::kNone) fused.outputs[0] = at(division).outputs[0];
    fused.attributes = {{"k", at(topk).attributes.integer("k")}, {"normalized", int64_t{division != DataFlow::kNone}}};
    if (!has_kernel_(program_, fused)) return;
    replace(program_, topk, removed, std::move(fused));
  }

  // The instruction that divides `values` by their sum over the last axis, if nothing else reads them; it and the sum
  // are added to `removed`.
  int division_by_sum(int values, std::vector<int>& removed) const {
    if (flow_.is_result(values) || flow_.users(values).size() != 2) return DataFlow::kNone;
    for (const int division : flow_.users(values)) {
      if (!is(division, kDiv) || at(division).inputs[0] != values) continue;
      const int divisor = at(division).inputs[1], total = before_broadcast(divisor), sum = flow_.producer(total);
      if (!is(sum, kSum) || at(sum).inputs[0] != values) return DataFlow::kNone;
      if (flow_.is_result(total) || flow_.users(total).size() != 1 || flow_.users(divisor).size() != 1)
        return DataFlow::kNone;
      if (divisor != total) removed.push_back(flow_.producer(divisor));
      removed.push_back(sum);
      removed.push_back(division);
      return division;
    }
    return DataFlow::kNone;
  }

  // silu(x·gateᵀ)·(x·upᵀ) of the same experts.
  void gate(int gate) {
    const int silu = flow_.only_user(at(gate).outputs[0], kSilu);
    if (silu == DataFlow::kNone) return;
    const int mul = flow_.only_user(at(silu).outputs[0], kMul);
    if (mul == DataFlow::kNone) return;
    const std::vector<int>& factors = at(mul).inputs;
    const int other = factors[0] == at(silu).outputs[0] ? factors[1] : factors[0];
    const int up = flow_.only_producer(other, kExpertLinear);
    if (up == DataFlow::kNone || up == gate) return;
    const Instruction &one = at(gate), &two = at(up);
    if (one.inputs[0] != two.inputs[0] || one.inputs[2] != two.inputs[2] || !(one.attributes == two.attributes)) return;
    Instruction fused{.op = &kExpertGated, .outputs = at(mul).outputs};
    fused.inputs = {one.inputs[0], one.inputs[1], two.inputs[1], one.inputs[2]};
    fused.attributes = one.attributes;
    if (!has_kernel_(program_, fused)) return;
    const int removed[] = {gate, up, silu, mul};
    replace(program_, mul, removed, std::move(fused));
  }

  // The norm before, where the others that read its result, such as the router, are products that take it too.
  void add_norm(int gated) {
    const int x = at(gated).inputs[0], norm = flow_.producer(x);
    if (!is(norm, kRmsNorm) || flow_.is_result(x)) return;
    std::vector<std::pair<int, Instruction>> changed;
    for (const int user : flow_.users(x)) {
      Instruction with_norm = at(user);
      if (with_norm.op == nullptr || std::ranges::count(with_norm.inputs, x) != 1 || with_norm.inputs[0] != x) return;
      if (is(user, kLinear)) {
        with_norm.op = &kLinearFused;
        with_norm.attributes = {
            {"n", int64_t{1}}, {"bias", int64_t{with_norm.inputs.size() == 3}}, {"epilogue", int64_t{kNoEpilogue}}};
      } else if (!is(user, kExpertGated)) {
        return;
      }
      with_norm.inputs[0] = at(norm).inputs[0];
      with_norm.inputs.push_back(at(norm).inputs[1]);
      with_norm.attributes.set("norm", int64_t{1});
      with_norm.attributes.set("epsilon", at(norm).attributes.real("epsilon"));
      if (!has_kernel_(program_, with_norm)) return;
      changed.emplace_back(user, std::move(with_norm));
    }
    for (auto& [user, with_norm] : changed) program_.instructions[user] = std::move(with_norm);
    program_.instructions[norm] = Instruction{};
  }

  // The sum over a token's experts of their products times a weight each, and a residual.
  void add_up(int product) {
    const int y = at(product).outputs[0], mul = flow_.only_user(y, kMul);
    if (mul == DataFlow::kNone) return;
    const int factor = at(mul).inputs[at(mul).inputs[0] == y ? 1 : 0], weights = before_broadcast(factor);
    if (weights == factor) return;
    const int permute = flow_.only_user(at(mul).outputs[0], kPermute);
    const int sum = permute == DataFlow::kNone ? permute : flow_.only_user(at(permute).outputs[0], kSum);
    if (sum == DataFlow::kNone) return;
    const Shape &each = spec(y).shape, &transposed = spec(at(permute).outputs[0]).shape;
    if (each.rank() != 3 || transposed != Shape{each[0], each[2], each[1]}) return;
    std::vector<int> removed = {product, mul, permute, sum};
    int last = sum;
    while (spec(at(last).outputs[0]).shape != Shape{each[0], each[2]}) {
      last = flow_.only_user(at(last).outputs[0], kReshape);
      if (last == DataFlow::kNone) return;
      removed.push_back(last);
    }
    Instruction fused{.op = &kExpertSum, .inputs = at(product).inputs, .outputs = at(last).outputs};
    fused.inputs.push_back(weights);
    fused.attributes = at(product).attributes;
    if (const int add = residual_of(fused.outputs[0], fused); add != DataFlow::kNone) {
      fused.outputs = at(add).outputs;
      removed.push_back(add);
      last = add;
    }
    if (has_kernel_(program_, fused)) replace(program_, last, removed, std::move(fused));
  }

  // The sum of `y` and another value of its shape that is not a view, which becomes an input.
  int residual_of(int y, Instruction& fused) const {
    const int add = flow_.only_user(y, kAdd);
    if (add == DataFlow::kNone) return add;
    const int other = at(add).inputs[at(add).inputs[0] == y ? 1 : 0];
    if (other == y || !(spec(other) == spec(y)) || is(flow_.producer(other), kBroadcast)) return DataFlow::kNone;
    fused.inputs.push_back(other);
    return add;
  }

  Program& program_;
  const HasKernel& has_kernel_;
  DataFlow flow_;
};

}  // namespace

void fuse_experts(Program& program, const HasKernel& has_kernel) {
  ExpertFuser(program, has_kernel).fuse_parts();
  ExpertFuser(program, has_kernel).take_norms();
}

}  // namespace gabbro
