// add_rms_norm and add_layer_norm: a sum of two tensors of one shape, and the norm that reads it. batch_norm_fused:
// batch_norm and the activation that alone reads it.
#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kAddRmsNorm = {.name = "add_rms_norm"};
const Op kAddLayerNorm = {.name = "add_layer_norm"};
const Op kBatchNormFused = {.name = "batch_norm_fused"};

class NormFuser {
 public:
  NormFuser(Program& program, const HasKernel& has_kernel)
      : program_(program), has_kernel_(has_kernel), flow_(program) {}

  void run() {
    for (int index = 0; index < static_cast<int>(program_.instructions.size()); ++index) {
      const Op* const op = at(index).op;
      if (op == &kRmsNorm) add_before(index, kAddRmsNorm);
      if (op == &kLayerNorm) add_before(index, kAddLayerNorm);
      if (op == &kBatchNorm) activation_behind(index);
    }
  }

 private:
  const Instruction& at(int index) const { return program_.instructions[index]; }
  const TensorSpec& spec(int value) const { return program_.values[value]; }

  // A sum reads a view in place; the norm would have it copied first.
  bool is_view(int value) const {
    const int producer = flow_.producer(value);
    return producer != DataFlow::kNone && at(producer).op != nullptr && at(producer).op->view != nullptr;
  }

  void add_before(int index, const Op& op) {
    const Instruction norm = at(index);
    const int sum = norm.inputs[0], add = flow_.producer(sum);
    if (add == DataFlow::kNone || at(add).op != &kAdd) return;
    for (const int value : at(add).inputs)
      if (!(spec(value) == spec(sum)) || is_view(value)) return;
    // The parameters have to be there when the sum is made, which others may read before the norm.
    for (size_t i = 1; i < norm.inputs.size(); ++i)
      if (flow_.producer(norm.inputs[i]) >= add) return;
    Instruction fused{.op = &op, .inputs = norm.inputs, .outputs = {norm.outputs[0], sum}};
    fused.attributes = norm.attributes;
    fused.inputs[0] = at(add).inputs[0];
    fused.inputs.push_back(at(add).inputs[1]);
    if (!has_kernel_(program_, fused)) return;
    const int removed[] = {add, index};
    replace(program_, add, removed, std::move(fused));
  }

  void activation_behind(int index) {
    for (const auto& [op, number] : kActivations) {
      const int activation = flow_.only_user(at(index).outputs[0], *op);
      if (activation == DataFlow::kNone || !may_follow(*op, spec(at(index).outputs[0]).dtype)) continue;
      Instruction fused = at(index);
      fused.op = &kBatchNormFused;
      fused.outputs = at(activation).outputs;
      fused.attributes.set("activation", number);
      if (!has_kernel_(program_, fused)) return;
      const int removed[] = {index, activation};
      replace(program_, index, removed, std::move(fused));
      return;
    }
  }

  Program& program_;
  const HasKernel& has_kernel_;
  DataFlow flow_;
};

}  // namespace

void fuse_norms(Program& program, const HasKernel& has_kernel) { NormFuser(program, has_kernel).run(); }

}  // namespace gabbro
