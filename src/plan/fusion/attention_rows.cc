// attention_rows_first: scaled_dot_product_attention whose result is only read with the heads of a query together, as
// the product after it wants them.
#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kAttentionRowsFirst = {.name = "attention_rows_first"};

bool swaps_heads_and_rows(const Instruction& permute) {
  const Attributes& axes = permute.attributes;
  return axes.integer("rank") == 4 && axes.integer("0") == 0 && axes.integer("1") == 2 && axes.integer("2") == 1;
}

}  // namespace

void fuse_attention_rows(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    const Instruction attention = program.instructions[index];
    if (attention.op != &kDotProductAttention) continue;
    const int permute = flow.only_user(attention.outputs[0], kPermute);
    if (permute == DataFlow::kNone || !swaps_heads_and_rows(program.instructions[permute])) continue;
    Instruction fused = attention;
    fused.op = &kAttentionRowsFirst;
    fused.outputs = program.instructions[permute].outputs;
    if (!has_kernel(program, fused)) continue;
    const int removed[] = {index, permute};
    replace(program, index, removed, std::move(fused));
  }
}

}  // namespace gabbro
