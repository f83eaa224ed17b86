// Recurrences over the tokens of sequences, with states that are written in place: the causal convolution, the
// selective state space of Mamba and the gated delta rule. Primitives, since their states are.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// Inputs: x, weight, state, sequence, positions, slots(, bias).
const Op kCausalConv = {
    .name = "causal_conv",
    .infer =
        [](const Args& a) {
          return std::vector<TensorSpec>{TensorSpec{a[0].shape(), DType::f32}, a[2].spec()};
        },
    .in_place = {2},
    .first_in_place = 1,
};

// Inputs: x, dt, a, b, c, state, sequence, positions, slots.
const Op kSelectiveScan = {
    .name = "selective_scan",
    .infer =
        [](const Args& a) {
          return std::vector<TensorSpec>{TensorSpec{a[0].shape(), DType::f32}, a[5].spec()};
        },
    .in_place = {5},
    .first_in_place = 1,
};

// Inputs: q, k, v, decay, beta, state, sequence, positions, slots.
const Op kGatedDeltaRule = {
    .name = "gated_delta_rule",
    .infer =
        [](const Args& a) {
          return std::vector<TensorSpec>{TensorSpec{a[2].shape(), DType::f32}, a[5].spec()};
        },
    .in_place = {5},
    .first_in_place = 1,
};

namespace {

void require_shape(const char* op, const char* what, const Tensor& x, const Shape& shape) {
  require_dtype(op, x, {DType::f32});
  if (!(x.shape() == shape)) {
    throw bad_input("[{}] {} has shape {}, expected {}", op, what, x.shape().to_string(), shape.to_string());
  }
}

void require_slots(const char* op, const TokenPositions& places, int64_t tokens) {
  require_positions(op, places, tokens);
  require_dtype(op, places.slots, {DType::i32});
  if (!(places.slots.shape() == Shape{places.page_table.shape()[0]})) {
    throw bad_input("[{}] slots {} for {} sequences", op, places.slots.shape().to_string(),
                    places.page_table.shape()[0]);
  }
}

Recurrence recurrence_of(std::vector<Tensor> outputs) { return {.y = outputs[0], .state = outputs[1]}; }

}  // namespace

Recurrence causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& state,
                       const TokenPositions& places) {
  constexpr const char* kOp = "causal_conv";
  require_rank(kOp, x, 2);
  require_rank(kOp, weight, 2);
  require_rank(kOp, state, 3);
  const int64_t channels = x.shape()[1], taps = weight.shape()[1];
  require_shape(kOp, "x", x, x.shape());
  require_shape(kOp, "the weight", weight, Shape{channels, taps});
  if (taps < 2) throw bad_input("[causal_conv] a weight {} has no taps before its own", weight.shape().to_string());
  require_shape(kOp, "the state", state, Shape{state.shape()[0], channels, taps - 1});
  require_slots(kOp, places, x.shape()[0]);
  std::vector<Tensor> inputs{x, weight, state, places.sequence, places.positions, places.slots};
  if (bias.defined()) {
    require_shape(kOp, "the bias", bias, Shape{channels});
    inputs.push_back(bias);
  }
  return recurrence_of(record_all(kCausalConv, std::move(inputs)));
}

Recurrence selective_scan(const SelectiveScan& s, const TokenPositions& places) {
  constexpr const char* kOp = "selective_scan";
  require_rank(kOp, s.x, 3);
  require_rank(kOp, s.a, 2);
  require_rank(kOp, s.b, 3);
  require_rank(kOp, s.state, 4);
  const int64_t tokens = s.x.shape()[0], heads = s.x.shape()[1], rows = s.x.shape()[2];
  const int64_t groups = s.b.shape()[1], states = s.b.shape()[2];
  require_shape(kOp, "x", s.x, s.x.shape());
  require_shape(kOp, "dt", s.dt, Shape{tokens, heads});
  require_shape(kOp, "a", s.a, Shape{heads, s.a.shape()[1] == 1 ? 1 : states});
  require_shape(kOp, "b", s.b, Shape{tokens, groups, states});
  require_shape(kOp, "c", s.c, Shape{tokens, groups, states});
  require_shape(kOp, "the state", s.state, Shape{s.state.shape()[0], heads, rows, states});
  if (groups == 0 || heads % groups != 0)
    throw bad_input("[selective_scan] {} groups do not divide the {} heads", groups, heads);
  require_slots(kOp, places, tokens);
  return recurrence_of(
      record_all(kSelectiveScan, {s.x, s.dt, s.a, s.b, s.c, s.state, places.sequence, places.positions, places.slots}));
}

Recurrence gated_delta_rule(const DeltaRule& d, const TokenPositions& places) {
  constexpr const char* kOp = "gated_delta_rule";
  require_rank(kOp, d.k, 3);
  require_rank(kOp, d.v, 3);
  require_rank(kOp, d.state, 4);
  const int64_t tokens = d.v.shape()[0], heads = d.v.shape()[1], rows = d.v.shape()[2];
  const int64_t groups = d.k.shape()[1], states = d.k.shape()[2];
  require_shape(kOp, "v", d.v, d.v.shape());
  require_shape(kOp, "k", d.k, Shape{tokens, groups, states});
  require_shape(kOp, "q", d.q, d.k.shape());
  require_shape(kOp, "the decay", d.decay, Shape{tokens, heads});
  require_shape(kOp, "beta", d.beta, Shape{tokens, heads});
  require_shape(kOp, "the state", d.state, Shape{d.state.shape()[0], heads, rows, states});
  if (groups == 0 || heads % groups != 0)
    throw bad_input("[gated_delta_rule] {} groups do not divide the {} heads", groups, heads);
  require_slots(kOp, places, tokens);
  return recurrence_of(record_all(
      kGatedDeltaRule, {d.q, d.k, d.v, d.decay, d.beta, d.state, places.sequence, places.positions, places.slots}));
}

}  // namespace gabbro
