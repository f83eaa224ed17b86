// attention_step: rope_kv_write and attention become one launch, of one token or of tokens that are all of separate
// sequences: else the keys that one of them writes would be read by the others in the same launch.
#include "src/plan/fusion/rules.h"

#include <algorithm>

namespace gabbro {
namespace {

// Operands of rope_kv_write, attention_step and attention (docs/design/fused_ops.md).
struct RopeKvIn {
  enum : int { kQ, kK, kV, kPositions, kFrequencies, kKeys, kValues, kPageTable, kSequence, kKeyScale, kValueScale };
};
struct RopeKvOut {
  enum : int { kQ, kKeys, kValues, kScales };
};
struct AttentionIn {
  enum : int { kQ };
};

const Op kAttentionStep = {.name = "attention_step",
                           .in_place = {RopeKvIn::kKeys, RopeKvIn::kValues, RopeKvIn::kKeyScale, RopeKvIn::kValueScale},
                           .first_in_place = RopeKvOut::kKeys};

// Inputs of the attention that belongs to `write`.
std::vector<int> inputs_after(const Instruction& write) {
  using In = RopeKvIn;
  using Out = RopeKvOut;
  std::vector<int> inputs = {write.outputs[Out::kQ],       write.outputs[Out::kKeys],   write.outputs[Out::kValues],
                             write.inputs[In::kPageTable], write.inputs[In::kSequence], write.inputs[In::kPositions]};
  inputs.insert(inputs.end(), write.outputs.begin() + Out::kScales, write.outputs.end());
  return inputs;
}

}  // namespace

void fuse_attention_step(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    const Instruction attention = program.instructions[index];
    if (attention.op != &kAttention) continue;
    const int writer = flow.only_producer(attention.inputs[AttentionIn::kQ], kRopeKvWrite);
    if (writer == DataFlow::kNone) continue;
    const Instruction write = program.instructions[writer];
    if (program.values[write.inputs[RopeKvIn::kQ]].shape[0] != 1 && attention.attributes.integer("separate") == 0)
      continue;
    // Another reader of the cache might run before the attention.
    const auto read_here_alone = [&](int value) { return flow.users(value).size() == 1; };
    if (attention.inputs != inputs_after(write) || !std::ranges::all_of(write.outputs, read_here_alone)) continue;

    Instruction fused{.op = &kAttentionStep, .attributes = write.attributes, .inputs = write.inputs, .outputs = {}};
    for (const auto& [name, value] : attention.attributes.entries()) fused.attributes.set(name, value);
    fused.outputs = write.outputs;
    fused.outputs[RopeKvOut::kQ] = attention.outputs[0];
    if (!has_kernel(program, fused)) continue;
    const int removed[] = {writer, index};
    replace(program, index, removed, std::move(fused));
  }
}

}  // namespace gabbro
