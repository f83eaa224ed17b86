// A decoder layer in one plan, with all that is fused in it, against the same layer evaluated op by op on the same
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gabbro/ops/products.h"
#include "src/backend/registry.h"
#include "src/ops/kv_type.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"
#include "tests/rounding.h"

namespace gabbro::conformance {
namespace {

struct LayerCase {
  DType dtype;
  int64_t tokens, start;  // the positions of the tokens begin at `start`
  int64_t heads, kv_heads, dim;
  int64_t window = 0;
  float softcap = 0;
  DType cache = DType::f16;  // its elements
  bool interleaved = false;
  bool separate = false;  // each token of another sequence
};

class Layer {
 public:
  static constexpr int64_t kPage = 32;

  Layer(const std::shared_ptr<Device>& device, const LayerCase& c) : case_(c) {
    Maker m(device, 5);
    const int64_t width = c.heads * c.dim, kv_width = c.kv_heads * c.dim,
                  feed = width + dtype_info(c.dtype).block_elements;
    x_ = m.normal(Shape{c.tokens, width});
    for (Tensor* norm : {&norms_[0], &norms_[1]}) *norm = m.normal(Shape{width});
    q_ = m.weights(c.dtype, width, width);
    k_ = m.weights(c.dtype, kv_width, width);
    v_ = m.weights(c.dtype, kv_width, width);
    out_ = m.weights(c.dtype, width, width);
    gate_ = m.weights(c.dtype, feed, width);
    up_ = m.weights(c.dtype, feed, width);
    down_ = m.weights(c.dtype, width, feed);
    frequencies_ = m.normal(Shape{c.dim / 2}, 0.1f);
    const int64_t row_pages = (c.start + c.tokens + kPage - 1) / kPage, rows = c.separate ? c.tokens : 1,
                  pages = row_pages * rows;
    const int64_t stored = stored_length(c.cache, c.dim);
    cache_.keys = m.cached(c.cache, Shape{pages, c.kv_heads, stored, kPage});
    cache_.values = m.cached(c.cache, Shape{pages, c.kv_heads, kPage, stored});
    if (has_kv_scales(c.cache)) {
      cache_.key_scales = m.f16(Shape{pages, c.kv_heads, c.dim / 32, kPage}, 0.01f);
      cache_.value_scales = m.f16(Shape{pages, c.kv_heads, kPage, c.dim / 32}, 0.01f);
    }
    places_ = {
        .positions = m.ints(Shape{c.tokens}, [&](int64_t i) { return static_cast<int32_t>(c.start + i); }),
        .sequence = m.ints(Shape{c.tokens}, [&](int64_t i) { return c.separate ? static_cast<int32_t>(i) : 0; }),
        .page_table = m.ints(Shape{rows, row_pages}, [=](int64_t i) { return static_cast<int32_t>(pages - 1 - i); }),
        .slots = {},
        .separate = c.separate};
  }

  enum class Mode {
    kTogether,  // one plan
    kByOp,      // each op evaluated before the next
    kExact,     // likewise, with weights converted to f32 and activations that nothing rounds
  };

  // The layer's output.
  std::vector<float> run(Mode mode) const {
    const bool together = mode == Mode::kTogether;
    const auto done = [&](Tensor t) {
      if (!together) eval(std::span(&t, 1));
      return t;
    };
    const auto linear = [&](const Tensor& x, const Tensor& weight) {
      if (mode != Mode::kExact) return gabbro::linear(x, weight);
      return gabbro::linear(x, done(is_quantized(case_.dtype) ? dequantize(weight) : cast(weight, DType::f32)));
    };
    const auto heads = [&](const Tensor& y) {
      return reshape(y, Shape{case_.tokens, y.shape()[1] / case_.dim, case_.dim});
    };
    const RopeOptions turn{.interleaved = case_.interleaved, .magnitude = 1.1f};
    Tensor h = done(rms_norm(x_, norms_[0], 1e-5f));
    const Tensor q = done(linear(h, q_)), k = done(linear(h, k_)), v = done(linear(h, v_));
    const Tensor rotated_q = done(rope(heads(q), places_.positions, frequencies_, turn));
    const Tensor rotated_k = done(rope(heads(k), places_.positions, frequencies_, turn));
    KvLayer cache = kv_write(cache_, rotated_k, heads(v), places_);
    if (!together) {
      for (Tensor* t : {&cache.keys, &cache.values}) *t = done(*t);
    }
    const AttentionOptions options{
        .scale = 1 / std::sqrt(static_cast<float>(case_.dim)), .window = case_.window, .softcap = case_.softcap};
    const Tensor mixed = done(attention(rotated_q, cache, places_, options));
    const int64_t width = case_.heads * case_.dim;
    const Tensor middle = done(x_ + done(linear(reshape(mixed, Shape{case_.tokens, width}), out_)));
    h = done(rms_norm(middle, norms_[1], 1e-5f));
    const Tensor gate = done(silu(done(linear(h, gate_)))), up = done(linear(h, up_));
    const Tensor result = middle + done(linear(done(gate * up), down_));
    return to_host<float>(result);
  }

 private:
  LayerCase case_;
  Tensor x_, norms_[2], q_, k_, v_, out_, gate_, up_, down_, frequencies_;
  KvLayer cache_;
  TokenPositions places_;
};

TEST(Fusion, ALayerGivesWhatItsOpsGive) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  std::vector<LayerCase> cases;
  std::vector<DType> weights = {DType::f32, DType::f16, DType::bf16};
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) weights.push_back(static_cast<DType>(i));
  for (const DType dtype : weights) {
    cases.push_back({.dtype = dtype, .tokens = 1, .start = 40, .heads = 4, .kv_heads = 2, .dim = 64});
  }
  cases.push_back({.dtype = DType::f16, .tokens = 1, .start = 0, .heads = 4, .kv_heads = 4, .dim = 16});
  cases.push_back(
      {.dtype = DType::f16, .tokens = 1, .start = 1300, .heads = 3, .kv_heads = 1, .dim = 24, .interleaved = true});
  cases.push_back({.dtype = DType::f16,
                   .tokens = 1,
                   .start = 77,
                   .heads = 2,
                   .kv_heads = 2,
                   .dim = 128,
                   .window = 30,
                   .softcap = 20});
  cases.push_back(
      {.dtype = DType::f16, .tokens = 1, .start = 63, .heads = 4, .kv_heads = 2, .dim = 64, .cache = DType::i8});
  cases.push_back(
      {.dtype = DType::f16, .tokens = 1, .start = 1100, .heads = 4, .kv_heads = 2, .dim = 96, .cache = DType::i8});
  for (const DType cache : {DType::f16, DType::i8, DType::f32, DType::bf16, DType::u8}) {
    cases.push_back({.dtype = DType::f32,
                     .tokens = 5,
                     .start = 61,  // on both sides of a page's end
                     .heads = 6,
                     .kv_heads = 2,
                     .dim = 64,
                     .cache = cache,
                     .separate = true});
  }
  cases.push_back({.dtype = DType::q8_0,
                   .tokens = 9,
                   .start = 300,
                   .heads = 4,
                   .kv_heads = 4,
                   .dim = 96,
                   .window = 130,
                   .separate = true});
  // More tokens and heads than blocks that run at a time. The simulation, which has one kernel for all of them, takes
  // half a minute.
  if (!std::string_view(device->facts().id).starts_with("sim")) {
    cases.push_back(
        {.dtype = DType::f16, .tokens = 70, .start = 90, .heads = 4, .kv_heads = 4, .dim = 128, .separate = true});
    cases.push_back({.dtype = DType::f16,
                     .tokens = 140,
                     .start = 20,
                     .heads = 4,
                     .kv_heads = 2,
                     .dim = 80,
                     .window = 41,
                     .softcap = 20,
                     .separate = true});
  }
  // Many tokens: products of f16, too, round activations, either by a BLAS library or for matrix cores.
  constexpr int64_t kPrefillTokens = 21;
  for (const DType dtype : {DType::f16, DType::q8_0})
    cases.push_back({.dtype = dtype, .tokens = kPrefillTokens, .start = 5, .heads = 4, .kv_heads = 2, .dim = 32});
  cases.push_back({.dtype = DType::q4_0, .tokens = 3, .start = 30, .heads = 4, .kv_heads = 2, .dim = 32});
  // Few tokens, whose norm is part of the products; blocks split K.
  for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0, DType::q4_k})
    cases.push_back({.dtype = dtype, .tokens = 7, .start = 5, .heads = 8, .kv_heads = 2, .dim = 64});
  for (const LayerCase& c : cases) {
    SCOPED_TRACE(
        fmt::format("{} T={} start={} D={} {}", dtype_name(c.dtype), c.tokens, c.start, c.dim, dtype_name(c.cache)));
    const Layer layer(device, c);
    const std::vector<float> by_op = layer.run(Layer::Mode::kByOp), together = layer.run(Layer::Mode::kTogether);
    ASSERT_EQ(together.size(), by_op.size());
    for (const float value : together) ASSERT_TRUE(std::isfinite(value));
    if (is_quantized(c.dtype) || (c.tokens > 4 && c.dtype != DType::f32)) {
      // Each rounds activations, to 8 bits or to f16; the sums before are rounded differently, so that values near the
      // middle between two codes take either. The errors of both are of one size.
      const std::vector<float> exact = layer.run(Layer::Mode::kExact);
      EXPECT_LE(rms(together, &exact), 1.25 * rms(by_op, &exact) + 1e-4 * rms(exact));
      continue;
    }
    double worst = 0;
    for (size_t i = 0; i < by_op.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(together[i]) - by_op[i]));
    EXPECT_LE(worst, 1e-4 * rms(by_op));
  }
}

// The error of a sum of `terms` in f32 and of up to three ops on it in `dtype`.
double rounding_of(DType dtype, int64_t terms) {
  return test::rounding_bound(terms) + (dtype == DType::f32 ? 0 : test::rounding_bound(4, dtype));
}

// A product of plain matrices with a bias and an activation, in one launch where a library takes it, against its parts.
TEST(Fusion, ProductsTakeABiasAndAnActivation) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Maker m(device, 5);
  // A library that is there takes a product of more tokens than this.
  const bool library =
      std::getenv("GABBRO_SIM_PRODUCTS") != nullptr || std::string_view(device->facts().id).starts_with("cuda");
  const auto same = [](const Tensor& x) { return x; };
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> activations[] = {
      {"none", same}, {"relu", relu}, {"gelu_tanh", [](const Tensor& t) { return gelu(t, true); }}, {"silu", silu}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const double rounding = rounding_of(dtype, 24);  // products
    const auto make = [&](const Shape& shape) {
      Tensor made = cast(m.normal(shape), dtype);
      eval(std::span(&made, 1));
      return made;
    };
    const Tensor x = make(Shape{3, 5, 24}), weight = make(Shape{16, 24}), bias = make(Shape{16}),
                 transposed = permute(weight, {1, 0});
    for (const auto& [name, activation] : activations) {
      const auto expect_one = [&](const char* what, bool is_sum, const std::function<Tensor(const Tensor&)>& product) {
        SCOPED_TRACE(fmt::format("{} {} {}", what, dtype_name(dtype), name));
        Tensor alone = product(x);
        eval(std::span(&alone, 1));
        const std::vector<float> expected = to_host<float>(cast(activation(alone), DType::f32)),
                                 actual = to_host<float>(cast(activation(product(x)), DType::f32));
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < actual.size(); ++i)
          ASSERT_NEAR(actual[i], expected[i], rounding * (std::fabs(expected[i]) + 5)) << "element " << i;
        if (!library || (std::string_view(device->facts().id).starts_with("cuda") && std::string_view(name) == "silu"))
          return;
        // f16 and bf16 are rounded between two ops, which these keep to.
        const bool is_exact = std::string_view(name) == "none" || std::string_view(name) == "relu";
        const bool is_rounded = dtype != DType::f32 && (is_sum || !is_exact);
        const size_t steps = Compiled([&] { return std::vector{activation(product(x))}; }).plan().steps().size();
        EXPECT_TRUE(is_rounded ? steps > 1 : steps == 1) << steps;
      };
      expect_one("linear", false, [&](const Tensor& t) { return linear(t, weight, bias); });
      expect_one("linear without a bias", false, [&](const Tensor& t) { return linear(t, weight); });
      expect_one("matmul and a bias", true, [&](const Tensor& t) { return matmul(t, transposed) + bias; });
    }
  }
}

// Attention whose heads are put together for a product, in one launch where a GPU's kernel takes it, against its parts.
TEST(Fusion, AttentionStoresTheHeadsOfAQueryTogether) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Maker m(device, 5);
  const auto done = [](Tensor x) {
    eval(std::span(&x, 1));
    return x;
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [queries, keys] :
         {std::pair<int64_t, int64_t>{37, 70}, {130, 5}, {3, 2100}}) {  // the last in splits
      SCOPED_TRACE(fmt::format("{} {} x {}", dtype_name(dtype), queries, keys));
      constexpr int64_t kHeads = 3, kDim = 40;
      // q, k and v as parts of longer rows.
      const Tensor x = done(cast(m.normal(Shape{2, queries, kHeads * kDim}), dtype)),
                   kv = done(cast(m.normal(Shape{2, keys, 2 * kHeads * kDim}), dtype));
      const auto heads = [&](const Tensor& t, int64_t part) {
        const Tensor own = slice(t, 2, part * kHeads * kDim, kHeads * kDim);
        return permute(reshape(own, Shape{2, own.shape()[1], kHeads, kDim}), {0, 2, 1, 3});
      };
      const auto mixed = [&] { return scaled_dot_product_attention(heads(x, 0), heads(kv, 0), heads(kv, 1)); };
      const auto together = [&] { return std::vector{reshape(permute(mixed(), {0, 2, 1, 3}), x.shape())}; };
      const Tensor apart = permute(done(mixed()), {0, 2, 1, 3});
      const std::vector<float> expected = to_host<float>(cast(apart, DType::f32)),
                               actual = to_host<float>(cast(together()[0], DType::f32));
      EXPECT_EQ(actual, expected);
      if (std::string_view(device->facts().id).starts_with("cpu")) continue;
      EXPECT_EQ(Compiled(together).plan().steps().size(), 1U);
    }
  }
}

// Fusions with norms, against their parts.
TEST(Fusion, NormsTakeTheSumBeforeAndTheActivationBehind) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  const bool fuses = !std::string_view(device->facts().id).starts_with("cpu");
  Maker m(device, 5);
  using Outputs = std::vector<Tensor>;
  const auto expect = [&](const char* what, DType dtype, size_t launches, const Outputs& expected,
                          const std::function<Outputs()>& fused) {
    SCOPED_TRACE(fmt::format("{} {}", what, dtype_name(dtype)));
    const double rounding = rounding_of(dtype, 24);  // sums of squares are off by less, relative to the norm
    Outputs actual = fused();
    eval(actual);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t t = 0; t < actual.size(); ++t) {
      const std::vector<float> a = to_host<float>(cast(actual[t], DType::f32)),
                               e = to_host<float>(cast(expected[t], DType::f32));
      ASSERT_EQ(a.size(), e.size());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], rounding * (std::fabs(e[i]) + 5)) << t << ": " << i;
    }
    if (fuses) {
      EXPECT_EQ(Compiled(fused).plan().steps().size(), launches);
    }
  };
  const auto done = [](Tensor x) {
    eval(std::span(&x, 1));
    return x;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto make = [&](const Shape& shape) { return done(cast(m.normal(shape), dtype)); };
    for (const int64_t columns : {24, 37, 1032}) {  // whole packs, and not
      const Tensor x = make(Shape{3, 5, columns}), residual = make(Shape{3, 5, columns}), weight = make(Shape{columns}),
                   bias = make(Shape{columns});
      const Tensor sum = done(x + residual);
      expect("add, rms_norm", dtype, 1, {sum, done(rms_norm(sum, weight, 1e-5f))}, [&] {
        const Tensor s = x + residual;
        return Outputs{s, rms_norm(s, weight, 1e-5f)};
      });
      expect("add, layer_norm", dtype, 1, {done(layer_norm(sum, weight, bias, 1e-5f))},
             [&] { return Outputs{layer_norm(x + residual, weight, bias, 1e-5f)}; });
      // An input that only the sum uses is fused with it into one launch, and no copy is made for the sum.
      expect("mul, add, rms_norm", dtype, 2, {done(rms_norm(done(done(x * residual) + residual), weight, 1e-5f))},
             [&] { return Outputs{rms_norm(x * residual + residual, weight, 1e-5f)}; });
      expect("broadcast add, rms_norm", dtype, 2, {done(rms_norm(done(x + bias), weight, 1e-5f))},
             [&] { return Outputs{rms_norm(x + bias, weight, 1e-5f)}; });
    }
    const Tensor image = make(Shape{2, 3, 8, 8}), kernel = make(Shape{4, 3, 3, 3});
    const auto statistic = [&](double at) {
      Tensor s = m.normal(Shape{4}, 0.1f);
      return done(s + full(s.device(), Shape{}, at, DType::f32));
    };
    const Tensor mean = statistic(0), variance = statistic(1), scale = statistic(1), shift = statistic(0);
    const auto norm = [&](const Tensor& y) {
      return batch_norm(y, {.mean = mean, .variance = variance, .weight = scale, .bias = shift});
    };
    const Tensor y = done(conv2d(image, kernel)), normal = done(norm(y));
    expect("conv, batch_norm, relu", dtype, 2, {done(relu(normal))},
           [&] { return Outputs{relu(norm(conv2d(image, kernel)))}; });
    const size_t launches = dtype == DType::f32 ? 1 : 2;  // f16 and bf16 are rounded before
    expect("batch_norm, silu", dtype, launches, {done(silu(normal))}, [&] { return Outputs{silu(norm(y))}; });
    expect("batch_norm, gelu_tanh", dtype, launches, {done(gelu(normal, true))},
           [&] { return Outputs{gelu(norm(y), true)}; });
  }
}

// Keys of many tokens are written to an f16 cache by another kernel: the same cache as from few tokens at a time.
TEST(KvWrite, ManyTokensGiveWhatFewDo) {
  constexpr int64_t kTokens = 75, kHeads = 3, kDim = 24, kFew = 5, kPage = 16, kPages = 8, kSequences = 2;
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Maker m(device, 5);
  const Tensor k = m.normal(Shape{kTokens, kHeads, kDim}), v = m.normal(Shape{kTokens, kHeads, kDim});
  // Sequences in turn; one token is of none, and the last positions are behind the table.
  const auto sequence = [](int64_t i) { return i == 20 ? 7 : static_cast<int32_t>(i % kSequences); };
  const auto position = [](int64_t i) { return static_cast<int32_t>(i / kSequences + (i < 70 ? 3 : 60)); };
  const auto page = [](int64_t i) { return static_cast<int32_t>((i * 3 + 1) % kPages); };
  const auto write = [&](int64_t step) {
    Maker same(device, 6);
    KvLayer cache{.keys = same.f16(Shape{kPages, kHeads, kDim, kPage}, 1),
                  .values = same.f16(Shape{kPages, kHeads, kPage, kDim}, 1)};
    for (int64_t first = 0; first < kTokens; first += step) {
      const TokenPositions places{.positions = m.ints(Shape{step}, [&](int64_t i) { return position(first + i); }),
                                  .sequence = m.ints(Shape{step}, [&](int64_t i) { return sequence(first + i); }),
                                  .page_table = m.ints(Shape{kSequences, kPages / kSequences}, page)};
      cache = kv_write(cache, slice(k, 0, first, step), slice(v, 0, first, step), places);
    }
    std::vector<float> written = to_host<float>(cast(cache.keys, DType::f32));
    const std::vector<float> values = to_host<float>(cast(cache.values, DType::f32));
    written.insert(written.end(), values.begin(), values.end());
    return written;
  };
  const std::vector<float> many = write(kTokens), few = write(kFew);
  ASSERT_EQ(many.size(), few.size());
  for (size_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i], few[i]) << "element " << i;
}

}  // namespace
}  // namespace gabbro::conformance
