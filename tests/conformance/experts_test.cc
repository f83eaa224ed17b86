// A mixture of experts in one plan, with all that is fused in it, against the same ops evaluated one by one on the same
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "gabbro/ops/experts.h"
#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"
#include "tests/rounding.h"

namespace gabbro::conformance {
namespace {

struct MixtureCase {
  DType dtype;
  int64_t tokens, experts, used;
  bool normalized = true, residual = true;
};

class MixtureOfOps {
 public:
  MixtureOfOps(const std::shared_ptr<Device>& device, const MixtureCase& c) : case_(c) {
    Maker m(device, 7);
    const int64_t block = dtype_info(c.dtype).block_elements,
                  width = block == 32   ? 160
                          : block == 64 ? 128
                                        : 256,
                  feed = block > 32 ? block : 96;
    x_ = m.normal(Shape{c.tokens, width}, 3);
    norm_ = m.normal(Shape{width});
    router_ = m.normal(Shape{c.experts, width}, 0.1f);
    gate_ = m.weights(c.dtype, c.experts * feed, width);
    up_ = m.weights(c.dtype, c.experts * feed, width);
    down_ = m.weights(c.dtype, c.experts * width, feed);
  }

  enum class Mode { kTogether, kByOp, kExact };  // see fusion_test.cc

  Tensor build(Mode mode) const {
    const auto done = [&](Tensor t) {
      if (mode != Mode::kTogether) eval(std::span(&t, 1));
      return t;
    };
    const auto product = [&](const Tensor& x, const Tensor& weight, const Tensor& ids) {
      const bool exact = mode == Mode::kExact && is_quantized(case_.dtype);
      return done(expert_linear(x, exact ? done(dequantize(weight)) : weight, ids, case_.experts));
    };
    const Tensor h = done(rms_norm(x_, norm_, 1e-5f));
    const TopK best = topk(done(softmax(done(linear(h, router_)))), case_.used);
    const Tensor ids = done(best.indices), values = done(best.values);
    const Tensor shares = case_.normalized ? done(values / done(sum(values, -1, true))) : values;
    const Tensor gated = done(done(silu(product(h, gate_, ids))) * product(h, up_, ids));
    const Tensor each = done(product(gated, down_, ids) * reshape(shares, Shape{case_.tokens, case_.used, 1}));
    const Tensor y = done(sum(each, 1));
    return case_.residual ? done(y + x_) : y;
  }

 private:
  MixtureCase case_;
  Tensor x_, norm_, router_, gate_, up_, down_;
};

TEST(Experts, AMixtureGivesWhatItsOpsGive) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  std::vector<MixtureCase> cases;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i)
    cases.push_back({.dtype = static_cast<DType>(i), .tokens = 1, .experts = 2, .used = 1});
  for (const DType dtype : {DType::f32, DType::bf16, DType::q4_0, DType::q6_k}) {
    cases.push_back({.dtype = dtype, .tokens = 2, .experts = 5, .used = 2, .normalized = false});
    cases.push_back({.dtype = dtype, .tokens = 4, .experts = 3, .used = 2, .residual = false});   // tiles of 16
    cases.push_back({.dtype = dtype, .tokens = 20, .experts = 2, .used = 2, .residual = false});  // tiles of 64
  }
  cases.push_back({.dtype = DType::q8_0, .tokens = 3, .experts = 12, .used = 4});
  for (const MixtureCase& c : cases) {
    SCOPED_TRACE(fmt::format("{} T={} {} of {}", dtype_name(c.dtype), c.tokens, c.used, c.experts));
    const MixtureOfOps mixture(device, c);
    using Mode = MixtureOfOps::Mode;
    const auto run = [&](Mode mode) { return to_host<float>(mixture.build(mode)); };
    const std::vector<float> by_op = run(Mode::kByOp), together = run(Mode::kTogether), exact = run(Mode::kExact);
    ASSERT_EQ(together.size(), by_op.size());
    for (const float value : together) ASSERT_TRUE(std::isfinite(value));
    // Each rounds activations, and in other places: the errors of both are of one size.
    EXPECT_LE(rms(together, &exact), 1.25 * rms(by_op, &exact) + 1e-4 * rms(exact));
    const bool decodes = !std::string_view(device->facts().id).starts_with("cpu") && c.tokens * c.used <= c.experts &&
                         (c.dtype == DType::q4_0 || c.dtype == DType::q6_k || c.dtype == DType::q8_0);
    if (!decodes) continue;
    // The norm and the router's product, its choice, gate and up, and the sum.
    const Compiled compiled([&] { return std::vector{mixture.build(Mode::kTogether)}; });
    EXPECT_EQ(compiled.plan().steps().size(), 4U) << compiled.plan().explain();
  }
}

TEST(Experts, TheLargestOfASoftmaxAreThoseOfItsOps) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t columns : {3, 32, 100, 128, 200, 512}) {
    Maker m(device, 3);
    std::vector<float> values = to_host<float>(m.normal(Shape{6, columns}, 3));
    for (int64_t i = 0; i < columns; ++i) {
      values[columns + i] = static_cast<float>(i % 2);  // many equal ones
      values[2 * columns + i] = 0;
      values[3 * columns + i] = -kInfinity;
      values[4 * columns + i] = i == columns / 2 ? 400.f : -400.f;  // all others become 0
    }
    values[5 * columns + 1] = kNan;
    const Tensor x = tensor(device, values, Shape{6, columns});
    for (const bool normalized : {false, true}) {
      SCOPED_TRACE(fmt::format("{} columns, normalized: {}", columns, normalized));
      Tensor probabilities = softmax(x);
      eval(std::span(&probabilities, 1));
      TopK best = topk(probabilities, 3);
      Tensor parts[] = {best.values, best.indices};
      eval(parts);
      const Tensor expected = normalized ? parts[0] / sum(parts[0], -1, true) : parts[0];
      const TopK fused = topk(softmax(x), 3);
      Tensor both[] = {normalized ? fused.values / sum(fused.values, -1, true) : fused.values, fused.indices};
      eval(both);
      EXPECT_EQ(to_host<int32_t>(both[1]), to_host<int32_t>(parts[1]));
      const std::vector<float> a = to_host<float>(both[0]), e = to_host<float>(expected);
      for (size_t i = 0; i < e.size(); ++i) {
        if (std::isnan(e[i])) {
          EXPECT_TRUE(std::isnan(a[i])) << i;
        } else {
          EXPECT_NEAR(a[i], e[i], test::rounding_bound(columns + 8) * e[i]) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace gabbro::conformance
