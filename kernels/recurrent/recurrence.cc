// `causal_conv`, `selective_scan` and `gated_delta_rule`: states are in registers while the tokens of a sequence pass.
#include "kernels/recurrent/recurrence.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

// -1: of no sequence.
GPU_FUNCTION inline i32 slot_of(const TokenSlots& p, i32 token) {
  const i32 sequence = p.sequence[token];
  if (sequence < 0 || sequence >= p.sequences || p.positions[token] < 0) return -1;
  const i32 slot = p.slots[sequence];
  return slot >= 0 && slot < p.count ? slot : -1;
}

// Whether the token is of the same sequence as the one before it, whose block has it too.
GPU_FUNCTION inline bool follows(const TokenSlots& p, i32 token) {
  return token > 0 && p.sequence[token] == p.sequence[token - 1] && p.positions[token] > 0;
}

// `kTaps`: as many as K or more; those in front have weights of 0.
template <int kTaps>
GPU_FUNCTION inline void causal_conv(const CausalConvArgs& a) {
  const i32 channel = static_cast<i32>(block_index().x * kConvThreads + thread_index());
  const i32 first = static_cast<i32>(block_index().y), slot = slot_of(a.places, first);
  if (channel >= a.channels) return;
  if (slot < 0) {
    a.y[static_cast<i64>(first) * a.channels + channel] = 0;
    return;
  }
  if (follows(a.places, first)) return;
  const i32 missing = kTaps - a.taps;
  float* const state = a.state + (static_cast<i64>(slot) * a.channels + channel) * (a.taps - 1);
  const bool begins = a.places.positions[first] == 0;
  float weight[kTaps], inputs[kTaps];
#pragma unroll
  for (int k = 0; k < kTaps; ++k) {
    weight[k] = k >= missing ? a.weight[static_cast<i64>(channel) * a.taps + k - missing] : 0;
    inputs[k] = k >= missing && k + 1 < kTaps && !begins ? state[k - missing] : 0;
  }
  const float start = a.bias != nullptr ? a.bias[channel] : 0;
  for (i32 t = first; t == first || (t < a.places.tokens && follows(a.places, t)); ++t) {
    const i64 at = static_cast<i64>(t) * a.channels + channel;
    inputs[kTaps - 1] = a.x[at];
    float sum = start;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) sum = fma(inputs[k], weight[k], sum);
    a.y[at] = sum;
#pragma unroll
    for (int k = 0; k + 1 < kTaps; ++k) inputs[k] = inputs[k + 1];
  }
#pragma unroll
  for (int k = 0; k + 1 < kTaps; ++k) {
    if (k >= missing) state[k - missing] = inputs[k];
  }
}

GPU_FUNCTION inline float sum_of_lanes(float sum, i32 lanes) {
  for (i32 step = 1; step < lanes; step *= 2) sum += shuffle_xor(sum, static_cast<u32>(step));
  return sum;
}

// A row of a state [H, P, N]: some lanes have it together, each every lanes'th of its elements.
struct StateRow {
  i32 part, all_rows, first;  // part: the lane of the row; first: token
  bool exists;
  i32 row, head, group;  // row: of all heads', 0 if there is none
  float* state;
  bool begins;  // the sequence begins with this step
};

// False: the thread computes nothing. Rows of tokens that are of no sequence are zero.
template <class Args>
GPU_INLINE inline bool begin_row(const Args& a, StateRow& at) {
  const i32 thread = static_cast<i32>(thread_index());
  at.part = thread % a.lanes;
  const i32 block_rows = static_cast<i32>(kScanBlockThreads) / a.lanes;
  at.all_rows = a.heads * a.rows;
  const i32 row = static_cast<i32>(block_index().x) * block_rows + thread / a.lanes;
  at.first = static_cast<i32>(block_index().y);
  const i32 slot = slot_of(a.places, at.first);
  at.exists = row < at.all_rows;
  if (slot < 0) {
    if (at.exists && at.part == 0) a.y[static_cast<i64>(at.first) * at.all_rows + row] = 0;
    return false;
  }
  if (follows(a.places, at.first)) return false;
  at.row = at.exists ? row : 0;
  at.head = at.row / a.rows;
  at.group = at.head / (a.heads / a.groups);
  at.state = a.state + (static_cast<i64>(slot) * at.all_rows + at.row) * a.states;
  at.begins = a.places.positions[at.first] == 0;
  return true;
}

template <class Args>
GPU_INLINE inline void store_states(const Args& a, const StateRow& at, const float (&held)[kLaneStates]) {
#pragma unroll
  for (int i = 0; i < kLaneStates; ++i) {
    const i32 n = i * a.lanes + at.part;
    if (at.exists && n < a.states) at.state[n] = held[i];
  }
}

GPU_FUNCTION inline void selective_scan(const SelectiveScanArgs& a) {
  StateRow at;
  if (!begin_row(a, at)) return;
  float held[kLaneStates], decay[kLaneStates];
#pragma unroll
  for (int i = 0; i < kLaneStates; ++i) {
    const i32 n = i * a.lanes + at.part;
    held[i] = n < a.states && !at.begins ? at.state[n] : 0;
    decay[i] = n < a.states ? a.a[a.one_decay != 0 ? at.head : at.head * a.states + n] : 0;
  }
  for (i32 t = at.first; t == at.first || (t < a.places.tokens && follows(a.places, t)); ++t) {
    const i64 place = static_cast<i64>(t) * at.all_rows + at.row;
    const i64 vectors = (static_cast<i64>(t) * a.groups + at.group) * a.states;
    const float dt = a.dt[static_cast<i64>(t) * a.heads + at.head], in = dt * a.x[place];
    const float same = exp(dt * decay[0]);  // of a row with one decay
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneStates; ++i) {
      const i32 n = i * a.lanes + at.part;
      if (n >= a.states) continue;
      held[i] = fma(held[i], a.one_decay != 0 ? same : exp(dt * decay[i]), in * a.b[vectors + n]);
      sum = fma(held[i], a.c[vectors + n], sum);
    }
    sum = sum_of_lanes(sum, a.lanes);
    if (at.exists && at.part == 0) a.y[place] = sum;
  }
  store_states(a, at, held);
}

GPU_FUNCTION inline void gated_delta_rule(const DeltaRuleArgs& a) {
  StateRow at;
  if (!begin_row(a, at)) return;
  float held[kLaneStates];
#pragma unroll
  for (int i = 0; i < kLaneStates; ++i) {
    const i32 n = i * a.lanes + at.part;
    held[i] = n < a.states && !at.begins ? at.state[n] : 0;
  }
  for (i32 t = at.first; t == at.first || (t < a.places.tokens && follows(a.places, t)); ++t) {
    const i64 place = static_cast<i64>(t) * at.all_rows + at.row, of_head = static_cast<i64>(t) * a.heads + at.head;
    const i64 vectors = (static_cast<i64>(t) * a.groups + at.group) * a.states;
    const float decay = exp(a.decay[of_head]);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneStates; ++i) {
      const i32 n = i * a.lanes + at.part;
      if (n >= a.states) continue;
      held[i] *= decay;
      sum = fma(held[i], a.k[vectors + n], sum);
    }
    const float delta = a.beta[of_head] * (a.v[place] - sum_of_lanes(sum, a.lanes));
    sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneStates; ++i) {
      const i32 n = i * a.lanes + at.part;
      if (n >= a.states) continue;
      held[i] = fma(delta, a.k[vectors + n], held[i]);
      sum = fma(held[i], a.q[vectors + n], sum);
    }
    sum = sum_of_lanes(sum, a.lanes);
    if (at.exists && at.part == 0) a.y[place] = sum;
  }
  store_states(a, at, held);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_CAUSAL_CONV(taps) \
  GPU_KERNEL(causal_conv_##taps, gabbro::gpu::kConvThreads, gabbro::gpu::CausalConvArgs, causal_conv<taps>)

GABBRO_CAUSAL_CONV(3)
GABBRO_CAUSAL_CONV(4)
GABBRO_CAUSAL_CONV(8)
GPU_KERNEL(selective_scan, gabbro::gpu::kScanBlockThreads, gabbro::gpu::SelectiveScanArgs, selective_scan)
GPU_KERNEL(gated_delta_rule, gabbro::gpu::kScanBlockThreads, gabbro::gpu::DeltaRuleArgs, gated_delta_rule)
