#include "backends/common/recurrence_request.h"

namespace gabbro::abi {
namespace {

// sequence [T], positions [T] and slots [B], from input `first` on.
bool has_slots(const KernelRequest& request, int first, int64_t tokens) {
  const TensorView* in = request.inputs + first;
  return has_shape(in[0], DType::i32, {tokens}) && has_shape(in[1], DType::i32, {tokens}) && in[2].rank == 1 &&
         has_shape(in[2], DType::i32, {in[2].shape[0]});
}

}  // namespace

std::optional<CausalConvRequest> read_causal_conv(const KernelRequest& request) {
  using In = CausalConvInput;
  const bool bias = request.input_count > In::kCount;
  if (!has_operands(request, In::kCount + (bias ? 1 : 0), 2) || !has_aliases(request, 1, {In::kState})) return {};
  const TensorView* in = request.inputs;
  if (in[In::kX].rank != 2 || in[In::kWeight].rank != 2 || in[In::kState].rank != 3) return {};
  const CausalConvRequest r{.tokens = in[In::kX].shape[0],
                            .channels = in[In::kX].shape[1],
                            .taps = in[In::kWeight].shape[1],
                            .slots = in[In::kState].shape[0],
                            .bias = bias};
  const bool fits = r.taps >= 2 && has_shape(in[In::kX], DType::f32, {r.tokens, r.channels}) &&
                    has_shape(in[In::kWeight], DType::f32, {r.channels, r.taps}) &&
                    has_shape(in[In::kState], DType::f32, {r.slots, r.channels, r.taps - 1}) &&
                    has_shape(request.outputs[0], DType::f32, {r.tokens, r.channels}) &&
                    has_slots(request, In::kSequence, r.tokens) &&
                    (!bias || has_shape(in[In::kBias], DType::f32, {r.channels}));
  return fits ? std::optional(r) : std::nullopt;
}

std::optional<SelectiveScanRequest> read_selective_scan(const KernelRequest& request) {
  using In = SelectiveScanInput;
  if (!has_operands(request, In::kCount, 2) || !has_aliases(request, 1, {In::kState})) return {};
  const TensorView* in = request.inputs;
  if (in[In::kX].rank != 3 || in[In::kA].rank != 2 || in[In::kB].rank != 3 || in[In::kState].rank != 4) return {};
  const SelectiveScanRequest r{.tokens = in[In::kX].shape[0],
                               .heads = in[In::kX].shape[1],
                               .rows = in[In::kX].shape[2],
                               .groups = in[In::kB].shape[1],
                               .states = in[In::kB].shape[2],
                               .slots = in[In::kState].shape[0],
                               .one_decay = in[In::kA].shape[1] == 1};
  const bool fits = r.groups > 0 && r.heads % r.groups == 0 && r.rows > 0 && r.states > 0 &&
                    has_shape(in[In::kX], DType::f32, {r.tokens, r.heads, r.rows}) &&
                    has_shape(in[In::kDt], DType::f32, {r.tokens, r.heads}) &&
                    has_shape(in[In::kA], DType::f32, {r.heads, r.one_decay ? 1 : r.states}) &&
                    has_shape(in[In::kB], DType::f32, {r.tokens, r.groups, r.states}) &&
                    has_shape(in[In::kC], DType::f32, {r.tokens, r.groups, r.states}) &&
                    has_shape(in[In::kState], DType::f32, {r.slots, r.heads, r.rows, r.states}) &&
                    has_shape(request.outputs[0], DType::f32, {r.tokens, r.heads, r.rows}) &&
                    has_slots(request, In::kSequence, r.tokens);
  return fits ? std::optional(r) : std::nullopt;
}

std::optional<DeltaRuleRequest> read_gated_delta_rule(const KernelRequest& request) {
  using In = DeltaRuleInput;
  if (!has_operands(request, In::kCount, 2) || !has_aliases(request, 1, {In::kState})) return {};
  const TensorView* in = request.inputs;
  if (in[In::kK].rank != 3 || in[In::kV].rank != 3 || in[In::kState].rank != 4) return {};
  const DeltaRuleRequest r{.tokens = in[In::kV].shape[0],
                           .heads = in[In::kV].shape[1],
                           .rows = in[In::kV].shape[2],
                           .groups = in[In::kK].shape[1],
                           .states = in[In::kK].shape[2],
                           .slots = in[In::kState].shape[0]};
  const bool fits = r.groups > 0 && r.heads % r.groups == 0 && r.rows > 0 && r.states > 0 &&
                    has_shape(in[In::kQ], DType::f32, {r.tokens, r.groups, r.states}) &&
                    has_shape(in[In::kK], DType::f32, {r.tokens, r.groups, r.states}) &&
                    has_shape(in[In::kV], DType::f32, {r.tokens, r.heads, r.rows}) &&
                    has_shape(in[In::kDecay], DType::f32, {r.tokens, r.heads}) &&
                    has_shape(in[In::kBeta], DType::f32, {r.tokens, r.heads}) &&
                    has_shape(in[In::kState], DType::f32, {r.slots, r.heads, r.rows, r.states}) &&
                    has_shape(request.outputs[0], DType::f32, {r.tokens, r.heads, r.rows}) &&
                    has_slots(request, In::kSequence, r.tokens);
  return fits ? std::optional(r) : std::nullopt;
}

}  // namespace gabbro::abi
