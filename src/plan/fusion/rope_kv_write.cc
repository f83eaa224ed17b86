// rope_kv_write: before each attention, the rotations of q and of k and the writes of k and v become one launch.
#include "src/plan/fusion/rules.h"

#include <algorithm>

namespace gabbro {
namespace {

// The parts that meet in one attention; instruction indices.
struct Parts {
  int q_rope = DataFlow::kNone;
  int k_rope = DataFlow::kNone;
  int k_write = DataFlow::kNone;
  int v_write = DataFlow::kNone;
};

bool same_rotation(const Instruction& a, const Instruction& b) {
  return a.inputs[1] == b.inputs[1] && a.inputs[2] == b.inputs[2] && a.attributes == b.attributes;
}

// The kv_write that makes this cache input of the attention, if only this attention reads it.
int writer(const Program& program, const DataFlow& flow, int cache, bool keys) {
  const int write = flow.only_producer(cache, kKvWrite);
  if (write == DataFlow::kNone) return DataFlow::kNone;
  return program.instructions[write].attributes.integer("keys") == int64_t{keys} ? write : DataFlow::kNone;
}

// The scales of a quantized cache, too, are read by this attention alone: others might read them before the fused
// write.
bool scales_fit(const DataFlow& flow, const Instruction& attention, const Instruction& k_write,
                const Instruction& v_write) {
  if (k_write.outputs.size() != v_write.outputs.size()) return false;
  const size_t sinks = attention.attributes.integer("sinks") != 0 ? 1 : 0;
  if (k_write.outputs.size() == 1) return attention.inputs.size() == 6 + sinks;
  return attention.inputs.size() == 8 + sinks && attention.inputs[6] == k_write.outputs[1] &&
         attention.inputs[7] == v_write.outputs[1] &&
         flow.only_producer(attention.inputs[6], kKvWrite) != DataFlow::kNone &&
         flow.only_producer(attention.inputs[7], kKvWrite) != DataFlow::kNone;
}

}  // namespace

void fuse_rope_kv_write(Program& program, const HasKernel& has_kernel) {
  const DataFlow flow(program);
  const auto at = [&](int index) -> const Instruction& { return program.instructions[index]; };
  for (int index = 0; index < static_cast<int>(program.instructions.size()); ++index) {
    if (at(index).op != &kAttention) continue;
    Instruction attention = at(index);
    Parts parts;
    parts.q_rope = flow.only_producer(attention.inputs[0], kRope);
    parts.k_write = writer(program, flow, attention.inputs[1], true);
    parts.v_write = writer(program, flow, attention.inputs[2], false);
    if (parts.q_rope == DataFlow::kNone || parts.k_write == DataFlow::kNone || parts.v_write == DataFlow::kNone)
      continue;
    const Instruction& k_write = at(parts.k_write);
    const Instruction& v_write = at(parts.v_write);
    parts.k_rope = flow.only_producer(k_write.inputs[1], kRope);
    if (parts.k_rope == DataFlow::kNone || !same_rotation(at(parts.q_rope), at(parts.k_rope))) continue;
    const Instruction& q_rope = at(parts.q_rope);
    const bool same_places = k_write.inputs[2] == v_write.inputs[2] && k_write.inputs[3] == v_write.inputs[3] &&
                             k_write.inputs[4] == v_write.inputs[4] && k_write.inputs[4] == q_rope.inputs[1];
    if (!same_places || !scales_fit(flow, attention, k_write, v_write)) continue;

    Instruction fused{.op = &kRopeKvWrite, .attributes = q_rope.attributes};
    fused.inputs = {q_rope.inputs[0],  at(parts.k_rope).inputs[0], v_write.inputs[1],
                    q_rope.inputs[1],  q_rope.inputs[2],           k_write.inputs[0],
                    v_write.inputs[0], k_write.inputs[2],          k_write.inputs[3]};
    fused.outputs = {q_rope.outputs[0], k_write.outputs[0], v_write.outputs[0]};
    if (k_write.outputs.size() == 2) {
      fused.inputs.push_back(k_write.inputs[5]);
      fused.inputs.push_back(v_write.inputs[5]);
      fused.outputs.push_back(k_write.outputs[1]);
      fused.outputs.push_back(v_write.outputs[1]);
    }
    if (!has_kernel(program, fused)) continue;
    // The last of the four stands after all inputs and before the attention.
    const int last = std::max({parts.q_rope, parts.k_rope, parts.k_write, parts.v_write});
    const int removed[] = {parts.q_rope, parts.k_rope, parts.k_write, parts.v_write};
    replace(program, last, removed, std::move(fused));
  }
}

}  // namespace gabbro
