// attention_step: rope_kv_write and attention become one launch, of one token or of tokens that are all of separate
// sequences: else the keys that one of them writes would be read by the others in the same launch.
#include "src/plan/fusion/rules.h"

#include <algorithm>

namespace gabbro {
namespace {

const Op kAttentionStep = {.name = "attention_step", .in_place = {5, 6, 9, 10}, .first_in_place = 1};

// Inputs of the attention that belongs to `write`.
std::vector<int> inputs_after(const Instruction& write) {
  std::vector<int> inputs = {write.outputs[0], write.outputs[1], write.outputs[2],
                             write.inputs[7],  write.inputs[8],  write.inputs[3]};
  inputs.insert(inputs.end(), write.outputs.begin() + 3, write.outputs.end());
  return inputs;
}

}  // namespace

void fuse_attention_step(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    const Instruction attention = program.instructions[index];
    if (attention.op != &kAttention) continue;
    const int writer = flow.only_producer(attention.inputs[0], kRopeKvWrite);
    if (writer == DataFlow::kNone) continue;
    const Instruction write = program.instructions[writer];
    if (program.values[write.inputs[0]].shape[0] != 1 && attention.attributes.integer("separate") == 0) continue;
    // Another reader of the cache might run before the attention.
    const auto read_here_alone = [&](int value) { return flow.users(value).size() == 1; };
    if (attention.inputs != inputs_after(write) || !std::ranges::all_of(write.outputs, read_here_alone)) continue;

    Instruction fused{.op = &kAttentionStep, .attributes = write.attributes, .inputs = write.inputs, .outputs = {}};
    for (const auto& [name, value] : attention.attributes.entries()) fused.attributes.set(name, value);
    fused.outputs = write.outputs;
    fused.outputs[0] = attention.outputs[0];
    if (!has_kernel(program, fused)) continue;
    const int removed[] = {writer, index};
    replace(program, index, removed, std::move(fused));
  }
}

}  // namespace gabbro
