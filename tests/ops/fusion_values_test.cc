// A decoder layer planned as a whole, with everything fused, gives what it gives op by op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/backend/registry.h"
#include "src/formats/quant/quant.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"
#include "tests/rounding.h"

namespace gabbro {
namespace {

using conformance::Maker;

constexpr int64_t kC = 64, kH = 4, kG = 2, kD = 32, kF = 96, kP = 64, kPages = 2;

struct Settings {
  DType weights;
  bool bias;
  bool quantized_cache;
  int64_t tokens;
};

class FusedLayer : public testing::TestWithParam<Settings> {
 protected:
  static const std::shared_ptr<Device>& device() {
    static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
    return opened;
  }

  // `done` sees every intermediate: it may compute it at once, or leave it to be part of a larger plan.
  static std::vector<Tensor> layer(const std::function<Tensor(const Tensor&)>& done) {
    const Settings& s = GetParam();
    const int64_t t = s.tokens;
    Maker m(device(), 3);
    const auto product = [&](const Tensor& x, int64_t n, int64_t k) {
      const Tensor weight = m.weights(s.weights, n, k);
      return done(linear(x, weight, s.bias ? m.normal(Shape{n}) : Tensor()));
    };
    const auto heads = [&](const Tensor& y) { return done(reshape(y, Shape{t, y.shape()[1] / kD, kD})); };
    const TokenPositions places{
        .positions = m.ints(Shape{t}, [](int64_t i) { return static_cast<int32_t>(i); }),
        .sequence = m.ints(Shape{t}, [](int64_t) { return 0; }),
        .page_table = m.ints(Shape{1, kPages}, [](int64_t i) { return static_cast<int32_t>(1 - i); })};
    const auto zeros = [&](DType dtype, const Shape& shape) {
      const std::vector<uint16_t> bytes(static_cast<size_t>(shape.elements()), 0);
      return device()->upload(dtype, shape, bytes.data());
    };
    const DType stored = s.quantized_cache ? DType::i8 : DType::f16;
    KvLayer cache{.keys = zeros(stored, Shape{kPages, kG, kD, kP}), .values = zeros(stored, Shape{kPages, kG, kP, kD})};
    if (s.quantized_cache) {
      cache.key_scales = zeros(DType::f16, Shape{kPages, kG, kD / 32, kP});
      cache.value_scales = zeros(DType::f16, Shape{kPages, kG, kP, kD / 32});
    }
    const Tensor frequencies = m.normal(Shape{kD / 2}, 0.3f);
    const Tensor x = m.normal(Shape{t, kC});
    Tensor h = done(rms_norm(x, m.normal(Shape{kC}), 1e-5f));
    const Tensor q = done(rope(heads(product(h, kH * kD, kC)), places.positions, frequencies, {.interleaved = true}));
    const Tensor k = done(rope(heads(product(h, kG * kD, kC)), places.positions, frequencies, {.interleaved = true}));
    const Tensor v = heads(product(h, kG * kD, kC));
    cache = kv_write(cache, k, v, places);
    done(cache.keys);
    done(cache.values);
    const Tensor mixed = done(attention(q, cache, places, {.scale = 1 / std::sqrt(static_cast<float>(kD))}));
    const Tensor y = done(x + product(reshape(mixed, Shape{t, kH * kD}), kC, kH * kD));
    h = done(rms_norm(y, m.normal(Shape{kC}), 1e-5f));
    const Tensor gate = done(silu(product(h, kF, kC)));
    const Tensor up = product(h, kF, kC);
    return {y, done(y + product(done(gate * up), kC, kF))};
  }
};

TEST_P(FusedLayer, GivesWhatItsOpsGive) {
  const std::vector<Tensor> fused = layer([](const Tensor& x) { return x; });
  const std::vector<Tensor> single = layer([](const Tensor& x) {
    eval(std::span(&x, 1));
    return x;
  });
  // Sums of kC to kF products in another order. With codes (activations that meet blocks, a cache in i8) each of the
  // five products in sequence may get a code's neighbor.
  const bool has_codes = is_quantized(GetParam().weights) || GetParam().quantized_cache;
  const double tolerance =
      has_codes ? test::kGrowth * test::rounding_deviation(test::products_of(1), test::step_of_codes(test::kGpuLevels))
                : test::rounding_bound(test::products_of(1) * kF);
  eval(fused);
  for (size_t i = 0; i < fused.size(); ++i) {
    const std::vector<float> actual = to_host<float>(fused[i]);
    const std::vector<float> expected = to_host<float>(single[i]);
    double largest = 0;
    double error = 0;
    for (size_t j = 0; j < expected.size(); ++j) {
      largest = std::max(largest, std::fabs(static_cast<double>(expected[j])));
      const double difference = std::fabs(static_cast<double>(expected[j]) - static_cast<double>(actual[j]));
      error = std::isnan(difference) ? INFINITY : std::max(error, difference);
    }
    EXPECT_GT(largest, 0.1);
    EXPECT_LE(error, tolerance * largest);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, FusedLayer,
                         testing::Values(Settings{DType::f32, false, false, 3}, Settings{DType::f32, true, false, 1},
                                         Settings{DType::f16, false, true, 70}, Settings{DType::q8_0, true, false, 1},
                                         Settings{DType::q4_0, false, false, 7},
                                         Settings{DType::q8_0, false, true, 2}));

}  // namespace
}  // namespace gabbro
