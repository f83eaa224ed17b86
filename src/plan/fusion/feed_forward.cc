// feed_forward: gate and up with SiLU·mul, and the product that alone reads the result, become one launch.
#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kFeedForward = {.name = "feed_forward"};

bool is(const Instruction& instruction, const Op& op) { return instruction.op == &op; }

// Whether it is one product of `x` alone, with nothing but a residual.
bool is_down(const Instruction& instruction, int x) {
  if (instruction.inputs.empty() || instruction.inputs[0] != x) return false;
  if (is(instruction, kLinear)) return instruction.inputs.size() == 2;
  if (!is(instruction, kLinearFused)) return false;
  const Attributes& a = instruction.attributes;
  return a.integer("n") == 1 && a.integer("bias") == 0 && a.integer("norm") == 0 &&
         a.integer("epilogue") == kAddResidual && instruction.inputs[2] != x;
}

}  // namespace

void fuse_feed_forward(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    const Instruction gated = program.instructions[index];
    if (!is(gated, kLinearFused) || gated.attributes.integer("epilogue") != kSiluMul ||
        gated.attributes.integer("bias") != 0)
      continue;
    const int x = gated.outputs[0];
    if (flow.users(x).size() != 1 || flow.is_result(x)) continue;
    const int user = flow.users(x)[0];
    const Instruction& down = program.instructions[user];
    if (!is_down(down, x)) continue;
    const bool norm = gated.attributes.integer("norm") != 0, residual = is(down, kLinearFused);
    Instruction fused{.op = &kFeedForward, .outputs = down.outputs};
    fused.inputs = {gated.inputs[0], gated.inputs[1], gated.inputs[2], down.inputs[1]};
    if (norm) fused.inputs.push_back(gated.inputs[3]);
    if (residual) fused.inputs.push_back(down.inputs[2]);
    fused.attributes = {
        {"norm", int64_t{norm}}, {"epsilon", gated.attributes.real("epsilon")}, {"residual", int64_t{residual}}};
    if (!has_kernel(program, fused)) continue;
    const int removed[] = {index, user};
    replace(program, user, removed, std::move(fused));
  }
}

}  // namespace gabbro
