// Keys and values in each type of a cache: how far what is stored may be from what was written, by kernels and by the
// compositions, and attention over heads that no kernel takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/backend/registry.h"
#include "src/ops/kv_type.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"
#include "tests/rounding.h"

namespace gabbro::conformance {
namespace {

class KvTypes : public testing::TestWithParam<DType> {
 protected:
  static const std::shared_ptr<Device>& device() {
    static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
    return opened;
  }
};

// The most that a number may be away from x, which shares a scale with numbers up to `largest`: half a unit in the last
// place, half of a step of 1/127, or a whole step of 1/8, since the largest has the code 0 and one of its size and the
// other sign the code 15, one step short. Scales are rounded to f16.
double bound(DType type, double x, double largest) {
  if (type == DType::f32) return 0;
  if (type == DType::bf16) return std::abs(x) * 0x1p-8;
  if (type == DType::f16) return std::abs(x) * 0x1p-11 + 0x1p-25;
  return largest * ((type == DType::q8_0 ? 0.5 / 127 : 1.0 / 8) + 0x1p-11);
}

// Both [rows, D].
void expect_within_bound(DType type, const std::vector<float>& stored, const std::vector<float>& written,
                         int64_t dimension) {
  ASSERT_EQ(stored.size(), written.size());
  const auto dim = static_cast<size_t>(dimension), block = static_cast<size_t>(kKvBlock);
  for (size_t row = 0; row < written.size(); row += dim) {
    for (size_t first = 0; first < dim; first += block) {
      const size_t begin = row + first, end = row + std::min(dim, first + block);
      double largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(double{written[i]}));
      for (size_t i = begin; i < end; ++i) {
        const double error = std::abs(double{stored[i]} - written[i]);
        ASSERT_LE(error, bound(type, written[i], largest) * (1 + 1e-6))
            << "element " << i << ": " << stored[i] << ", written " << written[i];
      }
    }
  }
}

int64_t dimension_for(DType type) { return is_quantized(type) ? 96 : 42; }

TEST_P(KvTypes, CompositionsStayWithinTheBound) {
  const DType type = GetParam();
  const int64_t dim = dimension_for(type);
  Maker m(device(), 3);
  Tensor x = m.normal(Shape{7, 3, dim});
  x = x * cast(m.ints(Shape{7, 1, 1}, [](int64_t i) { return static_cast<int32_t>(i); }), DType::f32);  // zeros too
  const KvNumbers numbers = kv_encode(x, type);
  EXPECT_EQ(numbers.elements.dtype(), kv_elements(type));
  EXPECT_EQ(numbers.elements.shape()[2], stored_length(kv_elements(type), dim));
  EXPECT_EQ(numbers.scales.defined(), is_quantized(type));
  expect_within_bound(type, to_host<float>(kv_decode(numbers, 2)), to_host<float>(x), dim);
}

struct Written {
  KvLayer cache;
  Tensor k, v;  // [T, G, D]
  TokenPositions places;
};

// `tokens` of one sequence, in pages in reverse order.
Written written(const std::shared_ptr<Device>& device, DType type, int64_t tokens, int64_t heads, int64_t dim) {
  constexpr int64_t kPage = 32;
  const DType elements = kv_elements(type);
  const int64_t pages = (tokens + kPage - 1) / kPage, stored = stored_length(elements, dim);
  Maker m(device, 4);
  KvLayer cache{.keys = m.cached(elements, Shape{pages, heads, stored, kPage}),
                .values = m.cached(elements, Shape{pages, heads, kPage, stored})};
  if (has_kv_scales(elements)) {
    cache.key_scales = m.f16(Shape{pages, heads, dim / kKvBlock, kPage}, 1);
    cache.value_scales = m.f16(Shape{pages, heads, kPage, dim / kKvBlock}, 1);
  }
  Written w{.k = m.normal(Shape{tokens, heads, dim}), .v = m.normal(Shape{tokens, heads, dim}), .places = {}};
  w.places = {.positions = m.ints(Shape{tokens}, [](int64_t i) { return static_cast<int32_t>(i); }),
              .sequence = m.ints(Shape{tokens}, [](int64_t) { return 0; }),
              .page_table = m.ints(Shape{1, pages}, [=](int64_t i) { return static_cast<int32_t>(pages - 1 - i); }),
              .slots = {}};
  w.cache = kv_write(cache, w.k, w.v, w.places);
  return w;
}

// The first `tokens` of pages [pages, G, A, B], whose `axis` is D -> [T, G, D].
std::vector<float> numbers_of(const KvNumbers& numbers, int axis, int64_t tokens) {
  Tensor pages = kv_decode(numbers, axis);
  pages = permute(axis == 2 ? permute(pages, {0, 1, 3, 2}) : pages, {0, 2, 1, 3});  // [pages, P, G, D]
  const Shape s = pages.shape();
  std::vector<float> all;
  for (int64_t page = s[0] - 1; page >= 0; --page) {
    const std::vector<float> one = to_host<float>(reshape(slice(pages, 0, page, 1), Shape{s[1], s[2], s[3]}));
    all.insert(all.end(), one.begin(), one.end());
  }
  all.resize(static_cast<size_t>(tokens * s[2] * s[3]));
  return all;
}

TEST_P(KvTypes, WritesStayWithinTheBound) {
  const DType type = GetParam();
  for (const int64_t tokens : {3, 75}) {
    SCOPED_TRACE(tokens);
    const int64_t dim = dimension_for(type);
    const Written w = written(device(), type, tokens, 2, dim);
    const KvNumbers keys{.elements = w.cache.keys, .scales = w.cache.key_scales};
    const KvNumbers values{.elements = w.cache.values, .scales = w.cache.value_scales};
    expect_within_bound(type, numbers_of(keys, 2, tokens), to_host<float>(w.k), dim);
    expect_within_bound(type, numbers_of(values, 3, tokens), to_host<float>(w.v), dim);
  }
}

// Softmax(q·k) · v in double precision, of what the cache holds.
TEST_P(KvTypes, AttentionIsThatOfTheNumbersInTheCache) {
  const DType type = GetParam();
  const int64_t tokens = 70, heads = 2;
  std::vector<int64_t> dims = {dimension_for(type)};
  if (!is_quantized(type)) dims.push_back(7);  // a GPU has no kernel for it
  for (const int64_t dim : dims) {
    SCOPED_TRACE(dim);
    const Written w = written(device(), type, tokens, heads, dim);
    Maker m(device(), 9);
    const Tensor q = m.normal(Shape{tokens, heads, dim});
    const float scale = 1 / std::sqrt(static_cast<float>(dim));
    const std::vector<float> actual = to_host<float>(attention(q, w.cache, w.places, {.scale = scale}));
    const std::vector<float> queries = to_host<float>(q),
                             keys = numbers_of({w.cache.keys, w.cache.key_scales}, 2, tokens),
                             values = numbers_of({w.cache.values, w.cache.value_scales}, 3, tokens);
    const auto row = [&](const std::vector<float>& of, int64_t t, int64_t h) { return &of[(t * heads + h) * dim]; };
    // Sums of `dim` and `tokens` products. Kernels for many tokens round queries and probabilities of these types to
    // f16: both roundings, relative to values of up to 4 deviations.
    const bool is_rounded = type == DType::f16 || type == DType::q8_0;
    const double tolerance =
        4 * (is_rounded ? 4 * test::rounding_bound(2, DType::f16) : test::rounding_bound(dim + tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<double> weights;
        for (int64_t s = 0; s <= t; ++s)
          weights.push_back(
              std::exp(scale * std::inner_product(row(queries, t, h), row(queries, t, h) + dim, row(keys, s, h), 0.0)));
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (int64_t d = 0; d < dim; ++d) {
          double expected = 0;
          for (int64_t s = 0; s <= t; ++s) expected += weights[s] / sum * row(values, s, h)[d];
          ASSERT_NEAR(row(actual, t, h)[d], expected, tolerance) << "token " << t << " head " << h << " d " << d;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, KvTypes, testing::ValuesIn(kKvTypes),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

}  // namespace
}  // namespace gabbro::conformance
