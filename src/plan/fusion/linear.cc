// linear_fused: the linears that read one x become one launch, together with the RMSNorm that makes x and with the
// SiLU·mul or the residual add that uses the result.
#include <algorithm>

#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

// A fused launch in the making: what it takes in, and which instructions it replaces.
struct Group {
  std::vector<int> linears;  // instruction indices
  int norm = DataFlow::kNone;
  Epilogue epilogue = kNoEpilogue;
  int residual = DataFlow::kNone;  // value
  std::vector<int> outputs;        // values
  std::vector<int> removed;        // instruction indices
  int at = DataFlow::kNone;
};

class LinearFuser {
 public:
  LinearFuser(Program& program, const HasKernel& has_kernel)
      : program_(program), has_kernel_(has_kernel), flow_(program) {}

  void run() {
    for (int index = 0; index < static_cast<int>(program_.instructions.size()); ++index) {
      const Instruction& instruction = program_.instructions[index];
      if (instruction.op != &kLinear) continue;
      Group group = group_of(index);
      add_norm(group);
      add_epilogue(group);
      if (group.linears.size() == 1 && group.norm == DataFlow::kNone && group.epilogue == kNoEpilogue) continue;
      Instruction fused = build(group);
      if (has_kernel_(program_, fused)) replace(program_, group.at, group.removed, std::move(fused));
    }
  }

 private:
  const Instruction& at(int index) const { return program_.instructions[index]; }

  // The linears with the same x as this one, the first of them. All weights must be there before the first one runs.
  Group group_of(int first) const {
    Group group{.at = first};
    const int x = at(first).inputs[0];
    const size_t inputs = at(first).inputs.size();  // all with a bias, or all without
    for (const int user : flow_.users(x)) {
      const Instruction& instruction = at(user);
      if (user < first || instruction.op != &kLinear || instruction.inputs.size() != inputs ||
          instruction.inputs[0] != x)
        continue;
      const bool ready = std::ranges::all_of(instruction.inputs.begin() + 1, instruction.inputs.end(),
                                             [&](int value) { return flow_.producer(value) < first; });
      if (!ready || std::ranges::find(group.linears, user) != group.linears.end()) continue;
      group.linears.push_back(user);
      group.removed.push_back(user);
      group.outputs.push_back(instruction.outputs[0]);
    }
    return group;
  }

  // The norm that makes x is fused if its result has no other user.
  void add_norm(Group& group) const {
    const int x = at(group.linears[0]).inputs[0];
    const int norm = flow_.producer(x);
    if (norm == DataFlow::kNone || at(norm).op != &kRmsNorm) return;
    if (flow_.is_result(x) || flow_.users(x).size() != group.linears.size()) return;
    group.norm = norm;
    group.removed.push_back(norm);
  }

  void add_epilogue(Group& group) const {
    if (group.linears.size() == 1) add_residual(group);
    if (group.linears.size() == 2) add_silu_mul(group);
  }

  void add_residual(Group& group) const {
    const int y = group.outputs[0];
    const int add = flow_.only_user(y, kAdd);
    if (add == DataFlow::kNone) return;
    const std::vector<int>& inputs = at(add).inputs;
    const int other = inputs[0] == y ? inputs[1] : inputs[0];
    if (other == y || !(program_.values[other] == program_.values[y])) return;
    const int made_by = flow_.producer(other);  // a broadcast view is not a residual
    if (made_by != DataFlow::kNone && at(made_by).op != nullptr && at(made_by).op == &kBroadcast) return;
    group.epilogue = kAddResidual;
    group.residual = other;
    group.outputs = {at(add).outputs[0]};
    group.removed.push_back(add);
    group.at = add;
  }

  void add_silu_mul(Group& group) const {
    for (size_t gate = 0; gate < 2; ++gate) {
      const int silu = flow_.only_user(group.outputs[gate], kSilu);
      if (silu == DataFlow::kNone) continue;
      const int mul = flow_.only_user(at(silu).outputs[0], kMul);
      if (mul == DataFlow::kNone || flow_.only_user(group.outputs[1 - gate], kMul) != mul) continue;
      if (gate == 1) std::swap(group.linears[0], group.linears[1]);
      group.epilogue = kSiluMul;
      group.outputs = {at(mul).outputs[0]};
      group.removed.push_back(silu);
      group.removed.push_back(mul);
      return;
    }
  }

  Instruction build(const Group& group) const {
    const bool bias = at(group.linears[0]).inputs.size() == 3;
    Instruction fused{.op = &kLinearFused, .outputs = group.outputs};
    fused.inputs.push_back(group.norm != DataFlow::kNone ? at(group.norm).inputs[0] : at(group.linears[0]).inputs[0]);
    for (const int linear : group.linears) fused.inputs.push_back(at(linear).inputs[1]);
    for (const int linear : group.linears) {
      if (bias) fused.inputs.push_back(at(linear).inputs[2]);
    }
    if (group.norm != DataFlow::kNone) fused.inputs.push_back(at(group.norm).inputs[1]);
    if (group.residual != DataFlow::kNone) fused.inputs.push_back(group.residual);
    fused.attributes = {{"n", static_cast<int64_t>(group.linears.size())},
                        {"bias", int64_t{bias}},
                        {"norm", int64_t{group.norm != DataFlow::kNone}},
                        {"epsilon", group.norm != DataFlow::kNone ? at(group.norm).attributes.real("epsilon") : 0.0},
                        {"epilogue", int64_t{group.epilogue}}};
    return fused;
  }

  Program& program_;
  const HasKernel& has_kernel_;
  DataFlow flow_;
};

}  // namespace

void fuse_linears(Program& program, const HasKernel& has_kernel) { LinearFuser(program, has_kernel).run(); }

}  // namespace gabbro
