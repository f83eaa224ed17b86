// `causal_conv`, `selective_scan` and `gated_delta_rule`: recurrences over the tokens of sequences, whose states are
// written in place. The workers divide channels or heads among them; each walks over the tokens in their order, so that
// a sequence's results do not depend on the others of a step.
#include <cmath>

#include "backends/common/recurrence_request.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/recurrence_kernels.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int kMaxTaps = 16;

// The sequences of the tokens of a launch.
struct TokenSlots {
  const int32_t *sequence, *positions, *slots;
  int64_t sequences;  // B
  int64_t count;      // of slots of the states

  TokenSlots(const abi::Launch& launch, int first, int64_t states)
      : sequence(static_cast<const int32_t*>(launch.inputs[first].data)),
        positions(static_cast<const int32_t*>(launch.inputs[first + 1].data)),
        slots(static_cast<const int32_t*>(launch.inputs[first + 2].data)),
        sequences(launch.inputs[first + 2].shape[0]),
        count(states) {}

  // -1: of no sequence.
  int64_t slot(int64_t token) const {
    const int32_t s = sequence[token];
    if (s < 0 || s >= sequences || positions[token] < 0) return -1;
    return slots[s] >= 0 && slots[s] < count ? slots[s] : -1;
  }

  // Calls run(slot, first, end) for tokens of a sequence that follow each other, or for one of none (slot -1).
  template <class Run>
  void for_each_run(int64_t tokens, const Run& run) const {
    for (int64_t first = 0, end = 0; first < tokens; first = end) {
      const int64_t s = slot(first);
      for (end = first + 1; s >= 0 && end < tokens && sequence[end] == sequence[first] && positions[end] > 0;) ++end;
      run(s, first, end);
    }
  }
};

class CausalConv : public Kernel {
 public:
  explicit CausalConv(const abi::CausalConvRequest& request) : r_(request) {
    implementation = "causal_conv f32";
    flops = 2.0 * static_cast<double>(r_.tokens * r_.channels * r_.taps);
    bytes = 8.0 * static_cast<double>(r_.tokens * r_.channels + r_.channels * r_.taps);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const int64_t blocks = (r_.channels + kLanes - 1) / kLanes;
    worker.parallel_for(blocks, 4, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) run_block(launch, block * kLanes);
    });
  }

 private:
  void run_block(const abi::Launch& launch, int64_t channel) const {
    using In = abi::CausalConvInput;
    const int count = static_cast<int>(std::min<int64_t>(kLanes, r_.channels - channel)),
              taps = static_cast<int>(r_.taps);
    const auto* weight = static_cast<const float*>(launch.inputs[In::kWeight].data) + channel * taps;
    const float* bias = r_.bias ? static_cast<const float*>(launch.inputs[In::kBias].data) + channel : nullptr;
    alignas(64) float transposed[kMaxTaps][kLanes] = {}, before[kMaxTaps][kLanes] = {};
    for (int j = 0; j < count; ++j) {
      for (int k = 0; k < taps; ++k) transposed[k][j] = weight[j * taps + k];
    }
    F32 w[kMaxTaps], inputs[kMaxTaps];
    for (int k = 0; k < taps; ++k) w[k] = load(transposed[k]);
    const F32 start = bias != nullptr ? load_some(bias, count) : zero_f32();
    const auto* x = static_cast<const float*>(launch.inputs[In::kX].data) + channel;
    auto* y = static_cast<float*>(launch.outputs[0].data) + channel;
    auto* states = static_cast<float*>(launch.outputs[1].data);
    const TokenSlots slots(launch, In::kSequence, r_.slots);
    slots.for_each_run(r_.tokens, [&](int64_t slot, int64_t first, int64_t end) {
      if (slot < 0) return store_some(y + first * r_.channels, zero_f32(), count);
      float* state = states + (slot * r_.channels + channel) * (taps - 1);
      for (int j = 0; j < count; ++j) {
        for (int k = 0; k + 1 < taps; ++k)
          before[k][j] = slots.positions[first] == 0 ? 0.0f : state[j * (taps - 1) + k];
      }
      for (int k = 0; k + 1 < taps; ++k) inputs[k] = load(before[k]);
      for (int64_t t = first; t < end; ++t) {
        inputs[taps - 1] = load_some(x + t * r_.channels, count);
        F32 sum = start;
        for (int k = 0; k < taps; ++k) sum = fma(inputs[k], w[k], sum);
        store_some(y + t * r_.channels, sum, count);
        for (int k = 0; k + 1 < taps; ++k) inputs[k] = inputs[k + 1];
      }
      for (int k = 0; k + 1 < taps; ++k) store(before[k], inputs[k]);
      for (int j = 0; j < count; ++j) {
        for (int k = 0; k + 1 < taps; ++k) state[j * (taps - 1) + k] = before[k][j];
      }
    });
  }

  abi::CausalConvRequest r_;
};

// A recurrence with a state [heads, rows, states] for each slot: a worker has some rows of a head. Own's
// token(launch, t, rows, y) computes the outputs y of these rows for token t.
template <class Own, class Request, class Input>
class StateKernel : public Kernel {
 public:
  void run(const abi::Launch& launch, Worker& worker) const override {
    const int64_t blocks = (r_.rows + kRows - 1) / kRows;
    const int64_t grain = std::max<int64_t>(1, 2048 / (std::min(r_.rows, kRows) * r_.states * r_.tokens));
    worker.parallel_for(r_.heads * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_rows(launch, i / blocks, i % blocks * kRows);
    });
  }

 protected:
  static constexpr int64_t kRows = 8;  // whose states stay in the L1 cache while tokens pass

  // Rows of a head, of one slot.
  struct StateRows {
    int64_t head;
    int64_t row, count;  // first row, and their number: up to kRows
    float* state;        // [count][states]
  };

  StateKernel(const Request& request, const char* name, double flops_each) : r_(request) {
    implementation = name;
    const auto elements = static_cast<double>(r_.heads * r_.rows * r_.states);
    flops = flops_each * static_cast<double>(r_.tokens) * elements;
    bytes = 8.0 * elements + 8.0 * static_cast<double>(r_.tokens * (r_.heads * r_.rows + r_.groups * r_.states));
  }

  static const float* in(const abi::Launch& launch, int index) {
    return static_cast<const float*>(launch.inputs[index].data);
  }
  // Offset of the vectors that the heads of a group share.
  int64_t vectors(int64_t t, int64_t head) const { return (t * r_.groups + head / (r_.heads / r_.groups)) * r_.states; }

  Request r_;

 private:
  void run_rows(const abi::Launch& launch, int64_t head, int64_t row) const {
    const int64_t count = std::min(kRows, r_.rows - row);
    const TokenSlots slots(launch, Input::kSequence, r_.slots);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    auto* states = static_cast<float*>(launch.outputs[1].data);
    slots.for_each_run(r_.tokens, [&](int64_t slot, int64_t first, int64_t end) {
      if (slot < 0) return static_cast<void>(std::fill_n(y + (first * r_.heads + head) * r_.rows + row, count, 0.0f));
      const StateRows rows = {.head = head,
                              .row = row,
                              .count = count,
                              .state = states + ((slot * r_.heads + head) * r_.rows + row) * r_.states};
      if (slots.positions[first] == 0) std::fill_n(rows.state, count * r_.states, 0.0f);
      for (int64_t t = first; t < end; ++t) own().token(launch, t, rows, y + (t * r_.heads + head) * r_.rows + row);
    });
  }
  const Own& own() const { return static_cast<const Own&>(*this); }
};

class SelectiveScanKernel
    : public StateKernel<SelectiveScanKernel, abi::SelectiveScanRequest, abi::SelectiveScanInput> {
 public:
  explicit SelectiveScanKernel(const abi::SelectiveScanRequest& request)
      : StateKernel(request, "selective_scan f32", 5.0) {}

  void token(const abi::Launch& launch, int64_t t, const StateRows& rows, float* y) const {
    using In = abi::SelectiveScanInput;
    const auto [head, row, count, state] = rows;
    const int64_t at = t * r_.heads + head, shared = vectors(t, head);
    const float* a = in(launch, In::kA) + head * (r_.one_decay ? 1 : r_.states);
    const float dt = in(launch, In::kDt)[at];
    const float* x = in(launch, In::kX) + at * r_.rows + row;
    const float* b = in(launch, In::kB) + shared;
    const float* c = in(launch, In::kC) + shared;
    F32 sums[kRows];
    for (int64_t i = 0; i < count; ++i) sums[i] = zero_f32();
    const F32 step = splat(dt);
    for (int64_t n = 0; n < r_.states; n += kLanes) {
      const int lanes = static_cast<int>(std::min<int64_t>(kLanes, r_.states - n));
      const F32 decay = exp(step * (r_.one_decay ? splat(a[0]) : load_some(a + n, lanes)));
      const F32 in = load_some(b + n, lanes), out = load_some(c + n, lanes);
      for (int64_t i = 0; i < count; ++i) {
        const F32 next = fma(load_some(state + i * r_.states + n, lanes), decay, splat(dt * x[i]) * in);
        store_some(state + i * r_.states + n, next, lanes);
        sums[i] = fma(next, out, sums[i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) y[i] = reduce_sum(sums[i]);
  }
};

class GatedDeltaRule : public StateKernel<GatedDeltaRule, abi::DeltaRuleRequest, abi::DeltaRuleInput> {
 public:
  explicit GatedDeltaRule(const abi::DeltaRuleRequest& request) : StateKernel(request, "gated_delta_rule f32", 7.0) {}

  void token(const abi::Launch& launch, int64_t t, const StateRows& rows, float* y) const {
    using In = abi::DeltaRuleInput;
    const auto [head, row, count, state] = rows;
    const int64_t at = t * r_.heads + head, shared = vectors(t, head);
    const F32 decay = splat(std::exp(in(launch, In::kDecay)[at]));
    const float beta = in(launch, In::kBeta)[at];
    const float* q = in(launch, In::kQ) + shared;
    const float* k = in(launch, In::kK) + shared;
    const float* v = in(launch, In::kV) + at * r_.rows + row;
    for (int64_t i = 0; i < count; ++i) {
      float* const own = state + i * r_.states;
      F32 sum = zero_f32();
      for_each_vector([&](int64_t n, int lanes) {
        const F32 decayed = load_some(own + n, lanes) * decay;
        store_some(own + n, decayed, lanes);
        sum = fma(decayed, load_some(k + n, lanes), sum);
      });
      const F32 delta = splat(beta * (v[i] - reduce_sum(sum)));
      sum = zero_f32();
      for_each_vector([&](int64_t n, int lanes) {
        const F32 next = fma(delta, load_some(k + n, lanes), load_some(own + n, lanes));
        store_some(own + n, next, lanes);
        sum = fma(next, load_some(q + n, lanes), sum);
      });
      y[i] = reduce_sum(sum);
    }
  }

 private:
  template <class Visit>
  void for_each_vector(const Visit& visit) const {
    for (int64_t n = 0; n < r_.states; n += kLanes)
      visit(n, static_cast<int>(std::min<int64_t>(kLanes, r_.states - n)));
  }
};

}  // namespace

KernelPointer make_causal_conv(const abi::KernelRequest& request, const MakeContext&) {
  const auto read = abi::read_causal_conv(request);
  return read && read->taps <= kMaxTaps ? std::make_unique<CausalConv>(*read) : nullptr;
}

KernelPointer make_selective_scan(const abi::KernelRequest& request, const MakeContext&) {
  const auto read = abi::read_selective_scan(request);
  return read ? std::make_unique<SelectiveScanKernel>(*read) : nullptr;
}

KernelPointer make_gated_delta_rule(const abi::KernelRequest& request, const MakeContext&) {
  const auto read = abi::read_gated_delta_rule(request);
  return read ? std::make_unique<GatedDeltaRule>(*read) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
