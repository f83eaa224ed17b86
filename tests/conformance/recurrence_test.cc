// causal_conv, selective_scan and gated_delta_rule on one device against the same in double precision, token by token:
// several sequences in one step, steps that continue a sequence, and tokens without a sequence.
#include <gtest/gtest.h>

#include <cmath>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

constexpr double kRounding = 0x1p-24;
constexpr int64_t kSlots = 4;
constexpr int32_t kNone = -1;

// Tokens of a step: their sequences and positions.
struct StepTokens {
  std::vector<int32_t> sequence, position;

  int64_t count() const { return std::ssize(sequence); }
};

// Two sequences that begin, one token of none, then a step that goes on with both and begins a third.
const StepTokens kFirst{{0, 0, 0, 0, 0, 1, 1, kNone}, {0, 1, 2, 3, 4, 0, 1, 7}};
const StepTokens kSecond{{1, 0, 0, 2, kNone}, {2, 5, 6, 0, 0}};
const std::vector<int32_t> kSlotOfSequence = {2, 0, 3};

TokenPositions places_of(Maker& m, const StepTokens& step) {
  const auto ints = [&](const std::vector<int32_t>& values) {
    return m.ints(Shape{std::ssize(values)}, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
  };
  return {.positions = ints(step.position),
          .sequence = ints(step.sequence),
          .page_table = m.ints(Shape{3, 1}, [](int64_t) { return 0; }),
          .slots = ints(kSlotOfSequence)};
}

double worst_difference(const std::vector<float>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) worst = std::max(worst, std::fabs(actual[i] - expected[i]));
  return worst;
}

// The inputs of a sequence so far, by channel.
TEST(Recurrence, CausalConvSumsTheLastInputsOfEachSequence) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  for (const auto& [channels, taps, with_bias] :
       {std::tuple(int64_t{37}, int64_t{4}, true), std::tuple(int64_t{130}, int64_t{3}, false),
        std::tuple(int64_t{16}, int64_t{7}, true), std::tuple(int64_t{5}, int64_t{2}, false)}) {
    Maker m(device, 3);
    const Tensor weight = m.normal(Shape{channels, taps}), bias = with_bias ? m.normal(Shape{channels}) : Tensor();
    Tensor state = m.normal(Shape{kSlots, channels, taps - 1});  // of sequences before
    const std::vector<float> w = to_host<float>(weight), b = with_bias ? to_host<float>(bias) : std::vector<float>();
    std::vector<std::vector<std::vector<double>>> seen(3);
    for (const StepTokens* step : {&kFirst, &kSecond}) {
      const Tensor x = m.normal(Shape{step->count(), channels});
      const std::vector<float> in = to_host<float>(x);
      const Recurrence result = causal_conv(x, weight, bias, state, places_of(m, *step));
      const std::vector<float> actual = to_host<float>(result.y);
      std::vector<double> expected;
      for (int64_t t = 0; t < step->count(); ++t) {
        const int32_t s = step->sequence[static_cast<size_t>(t)];
        if (s >= 0) {
          seen[static_cast<size_t>(s)].emplace_back(in.begin() + t * channels, in.begin() + (t + 1) * channels);
        }
        for (int64_t c = 0; c < channels; ++c) {
          double sum = s >= 0 && with_bias ? b[static_cast<size_t>(c)] : 0;
          for (int64_t k = 0; s >= 0 && k < taps; ++k) {
            const auto& all = seen[static_cast<size_t>(s)];
            const int64_t at = std::ssize(all) - taps + k;
            if (at >= 0)
              sum += static_cast<double>(w[static_cast<size_t>(c * taps + k)]) *
                     all[static_cast<size_t>(at)][static_cast<size_t>(c)];
          }
          expected.push_back(sum);
        }
      }
      EXPECT_LE(worst_difference(actual, expected), 64 * static_cast<double>(taps + 1) * kRounding) << channels;
    }
  }
}

struct ScanCase {
  int64_t heads, rows, groups, states;
  bool one_decay;
};

TEST(Recurrence, SelectiveScanUpdatesTheStateOfEachSequence) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  for (const ScanCase& c : {ScanCase{37, 1, 1, 16, false}, ScanCase{6, 8, 2, 24, true}, ScanCase{4, 13, 4, 128, true},
                            ScanCase{9, 1, 3, 5, false}}) {
    Maker m(device, 7);
    const int64_t state_size = c.rows * c.states;
    const Tensor a = neg(exp(m.normal(Shape{c.heads, c.one_decay ? 1 : c.states})));
    const std::vector<float> decay = to_host<float>(a);
    const Tensor state = m.normal(Shape{kSlots, c.heads, c.rows, c.states});
    std::vector<std::vector<double>> held(3, std::vector<double>(static_cast<size_t>(c.heads * state_size), 0.0));
    for (const StepTokens* step : {&kFirst, &kSecond}) {
      const int64_t tokens = step->count();
      const Tensor x = m.normal(Shape{tokens, c.heads, c.rows}), dt = exp(m.normal(Shape{tokens, c.heads}, 0.5f));
      const Tensor b = m.normal(Shape{tokens, c.groups, c.states}), out = m.normal(Shape{tokens, c.groups, c.states});
      const std::vector<float> hx = to_host<float>(x), hdt = to_host<float>(dt), hb = to_host<float>(b),
                               hc = to_host<float>(out);
      const Recurrence result =
          selective_scan({.x = x, .dt = dt, .a = a, .b = b, .c = out, .state = state}, places_of(m, *step));
      const std::vector<float> actual = to_host<float>(result.y);
      std::vector<double> expected;
      double largest = 1;
      for (int64_t t = 0; t < tokens; ++t) {
        const int32_t s = step->sequence[static_cast<size_t>(t)];
        for (int64_t h = 0; h < c.heads; ++h) {
          const int64_t vector = (t * c.groups + h / (c.heads / c.groups)) * c.states;
          for (int64_t p = 0; p < c.rows; ++p) {
            double sum = 0;
            for (int64_t n = 0; s >= 0 && n < c.states; ++n) {
              double& value = held[static_cast<size_t>(s)][static_cast<size_t>((h * c.rows + p) * c.states + n)];
              const double step_size = hdt[static_cast<size_t>(t * c.heads + h)];
              const double rate = decay[static_cast<size_t>(c.one_decay ? h : h * c.states + n)];
              value = value * std::exp(step_size * rate) + step_size *
                                                               hx[static_cast<size_t>((t * c.heads + h) * c.rows + p)] *
                                                               hb[static_cast<size_t>(vector + n)];
              sum += value * hc[static_cast<size_t>(vector + n)];
            }
            largest = std::max(largest, std::fabs(sum));
            expected.push_back(sum);
          }
        }
      }
      // Each state has an error of a few units for each token, and the sum one of N terms.
      const double units = 8.0 * static_cast<double>(tokens) + static_cast<double>(c.states);
      EXPECT_LE(worst_difference(actual, expected), 8 * units * kRounding * largest) << c.heads << " " << c.states;
    }
  }
}

// One row of the state [N] after a token, and its result.
double delta_step(std::span<double> row, std::span<const float> q, std::span<const float> k, double decay, double beta,
                  double v) {
  double predicted = 0, y = 0;
  for (size_t n = 0; n < row.size(); ++n) predicted += (row[n] *= std::exp(decay)) * k[n];
  for (size_t n = 0; n < row.size(); ++n) y += (row[n] += beta * (v - predicted) * k[n]) * q[n];
  return y;
}

TEST(Recurrence, GatedDeltaRuleCorrectsTheStateOfEachSequence) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  for (const ScanCase& c : {ScanCase{6, 8, 2, 24, true}, ScanCase{4, 13, 4, 128, true}, ScanCase{3, 1, 1, 5, true}}) {
    Maker m(device, 13);
    const Tensor state = m.normal(Shape{kSlots, c.heads, c.rows, c.states});
    std::vector<std::vector<double>> held(3, std::vector<double>(static_cast<size_t>(c.heads * c.rows * c.states)));
    for (const StepTokens* step : {&kFirst, &kSecond}) {
      const int64_t tokens = step->count();
      const float unit = 1 / std::sqrt(static_cast<float>(c.states));  // of keys, so that states do not grow
      const Tensor q = m.normal(Shape{tokens, c.groups, c.states}), k = m.normal(q.shape(), unit);
      const Tensor v = m.normal(Shape{tokens, c.heads, c.rows});
      const Tensor decay = neg(exp(m.normal(Shape{tokens, c.heads}))), beta = sigmoid(m.normal(decay.shape()));
      const std::vector<float> hq = to_host<float>(q), hk = to_host<float>(k), hv = to_host<float>(v),
                               hd = to_host<float>(decay), hb = to_host<float>(beta);
      const Recurrence result =
          gated_delta_rule({.q = q, .k = k, .v = v, .decay = decay, .beta = beta, .state = state}, places_of(m, *step));
      const std::vector<float> actual = to_host<float>(result.y);
      std::vector<double> expected;
      const auto n = static_cast<size_t>(c.states);
      double largest = 1;
      for (int64_t t = 0; t < tokens; ++t) {
        const int32_t s = step->sequence[static_cast<size_t>(t)];
        for (int64_t i = 0; i < c.heads * c.rows; ++i) {
          const int64_t head = i / c.rows;
          const auto of_head = static_cast<size_t>(t * c.heads + head);
          const size_t vectors = static_cast<size_t>(t * c.groups + head / (c.heads / c.groups)) * n;
          double y = 0;
          if (s >= 0) {
            std::span<double> row(held[static_cast<size_t>(s)]);
            y = delta_step(row.subspan(static_cast<size_t>(i) * n, n), std::span(hq).subspan(vectors, n),
                           std::span(hk).subspan(vectors, n), hd[of_head], hb[of_head], hv[expected.size()]);
          }
          largest = std::max(largest, std::fabs(y));
          expected.push_back(y);
        }
      }
      // Two sums of N terms for each token, whose errors the next tokens take over.
      const double units = static_cast<double>(tokens) * static_cast<double>(8 + 2 * c.states);
      EXPECT_LE(worst_difference(actual, expected), units * kRounding * largest) << c.heads << " " << c.states;
    }
  }
}

// The results of a sequence do not depend on how its tokens are cut into steps, nor on the others: to the bit.
TEST(Recurrence, StepsOfOneTokenGiveTheBitsOfOneStep) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Maker m(device, 11);
  constexpr int64_t kTokens = 9, kHeads = 3, kRows = 4, kStates = 20;
  const Tensor x = m.normal(Shape{kTokens, kHeads, kRows}), dt = exp(m.normal(Shape{kTokens, kHeads}));
  const Tensor a = neg(exp(m.normal(Shape{kHeads, 1})));
  const Tensor b = m.normal(Shape{kTokens, 1, kStates}), c = m.normal(Shape{kTokens, 1, kStates});
  const auto run = [&](int64_t together) {
    const Tensor state = m.normal(Shape{kSlots, kHeads, kRows, kStates});
    std::vector<float> all;
    for (int64_t first = 0; first < kTokens; first += together) {
      const int64_t count = std::min(together, kTokens - first);
      StepTokens step{std::vector<int32_t>(static_cast<size_t>(count), 1), {}};
      for (int64_t t = 0; t < count; ++t) step.position.push_back(static_cast<int32_t>(first + t));
      const auto part = [&](const Tensor& y) { return slice(y, 0, first, count); };
      const Recurrence result = selective_scan(
          {.x = part(x), .dt = part(dt), .a = a, .b = part(b), .c = part(c), .state = state}, places_of(m, step));
      const std::vector<float> y = to_host<float>(result.y);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  };
  const std::vector<float> whole = run(kTokens);
  EXPECT_EQ(run(1), whole);
  EXPECT_EQ(run(4), whole);
}

}  // namespace
}  // namespace gabbro::conformance
