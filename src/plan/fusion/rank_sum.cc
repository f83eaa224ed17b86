// rank_sum_add: the sum over devices, and the tensor of the same shape that is added to it.
#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kRankSumAdd = {.name = "rank_sum_add"};

}  // namespace

void fuse_rank_sums(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    const Instruction& sum = program.instructions[index];
    if (sum.op != &kRankSum) continue;
    const int y = sum.outputs[0], add = flow.only_user(y, kAdd);
    if (add == DataFlow::kNone) continue;
    const std::vector<int>& inputs = program.instructions[add].inputs;
    const int other = inputs[0] == y ? inputs[1] : inputs[0];
    // The ranks enqueue their sums in one order, so the sum stays at its place: the addend has to be there.
    if (other == y || !(program.values[other] == program.values[y]) || flow.producer(other) >= index) continue;
    if (flow.producer(other) != DataFlow::kNone && program.instructions[flow.producer(other)].op == &kBroadcast)
      continue;
    Instruction fused = sum;
    fused.op = &kRankSumAdd;
    fused.inputs.push_back(other);
    fused.outputs = program.instructions[add].outputs;
    if (!has_kernel(program, fused)) continue;
    const int removed[] = {index, add};
    replace(program, index, removed, std::move(fused));
  }
}

}  // namespace gabbro
