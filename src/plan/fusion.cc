#include "src/plan/fusion.h"

#include <algorithm>

#include "src/plan/fusion/rules.h"

namespace gabbro {

std::span<const FusionRule> fusion_rules() {
  static constexpr FusionRule kRules[] = {
      {"linears of one input, with RMSNorm before and SiLU·mul or a residual after", fuse_linears},
      {"gate and up with SiLU·mul, and the product that reads it", fuse_feed_forward},
      {"the router of a mixture of experts, gate and up with SiLU·mul, and the weighted sum", fuse_experts},
      {"RoPE of queries and keys, and the writes into the KV cache", fuse_rope_kv_write},
      {"these and the attention, for one token", fuse_attention_step},
      {"a sum over devices, and the residual that is added to it", fuse_rank_sums},
      {"products of matrices, with a bias and an activation", fuse_matmuls},
      {"attention and the permutation that brings the heads of a query together", fuse_attention_rows},
      {"elementwise ops of one shape that use each other's results", fuse_elementwise},
      {"a residual sum and the norm that reads it, and batch_norm with an activation", fuse_norms},
  };
  return kRules;
}

namespace {

// Removes instructions without users.
void drop_unused(Program& program) {
  Indexed<bool> used(program.values.size(), false);
  for (const int result : program.results) used[result] = true;
  for (size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    const bool wanted = std::ranges::any_of(instruction.outputs, [&](int o) { return used[o]; });
    if (wanted || !instruction.op->in_place.empty()) {
      for (const int input : instruction.inputs) used[input] = true;
    } else {
      instruction = Instruction{};
    }
  }
  erase_removed(program);
}

}  // namespace

void fuse(Program& program, const HasKernel& has_kernel) {
  for (const FusionRule& rule : fusion_rules()) {
    rule.apply(program, has_kernel);
    erase_removed(program);
  }
  drop_unused(program);
}

DataFlow::DataFlow(const Program& program)
    : program_(program),
      producers_(program.values.size(), kNone),
      users_(program.values.size()),
      is_result_(program.values.size(), false) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int output : instruction.outputs) producers_[output] = static_cast<int>(i);
    for (const int input : instruction.inputs) users_[input].push_back(static_cast<int>(i));
  }
  for (const int result : program.results) is_result_[result] = true;
}

int DataFlow::only_user(int value, const Op& op) const {
  const std::span<const int> all = users(value);
  if (all.size() != 1 || is_result(value)) return kNone;
  return program_.instructions[all[0]].op == &op ? all[0] : kNone;
}

int DataFlow::only_producer(int value, const Op& op) const {
  const int made_by = producer(value);
  if (made_by == kNone || users(value).size() != 1 || is_result(value)) return kNone;
  return program_.instructions[made_by].op == &op ? made_by : kNone;
}

void replace(Program& program, int at, std::span<const int> removed, Instruction fused) {
  for (const int index : removed) program.instructions[index] = Instruction{};
  program.instructions[at] = std::move(fused);
}

void erase_removed(Program& program) {
  std::erase_if(program.instructions, [](const Instruction& instruction) { return instruction.op == nullptr; });
}

}  // namespace gabbro
