// Attention as one op in f32 against its composition, in f64.
#include <cmath>
#include <limits>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/products.h"
#include "gabbro/ops/shapes.h"
#include "src/ops/ops.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

std::vector<float> waves(size_t count, double frequency, double size) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(
        static_cast<float>(size * std::cos(frequency * static_cast<double>(i) + 0.01 * static_cast<double>(i % 97))));
  return values;
}

struct AttentionCase {
  int64_t batches, heads, groups, queries, keys, dim;
  double size = 1;  // of the numbers
};

// softmax(q·kᵀ / sqrt(D))·v, in f64.
std::vector<float> exact_attention(const AttentionCase& c, const std::vector<float>& q, const std::vector<float>& k,
                                   const std::vector<float>& v) {
  std::vector<float> out;
  for (int64_t head = 0; head < c.batches * c.heads; ++head) {
    const int64_t group = head / c.heads * c.groups + head % c.heads / (c.heads / c.groups);
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<double> scores, sums(static_cast<size_t>(c.dim));
      double highest = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < c.dim; ++d) {
          sum += static_cast<double>(q[static_cast<size_t>((head * c.queries + i) * c.dim + d)]) *
                 static_cast<double>(k[static_cast<size_t>((group * c.keys + j) * c.dim + d)]);
        }
        scores.push_back(sum / std::sqrt(static_cast<double>(c.dim)));
        highest = std::max(highest, scores.back());
      }
      for (int64_t j = 0; j < c.keys; ++j) {
        const double power = std::exp(scores[static_cast<size_t>(j)] - highest);
        total += power;
        for (int64_t d = 0; d < c.dim; ++d) {
          sums[static_cast<size_t>(d)] +=
              power * static_cast<double>(v[static_cast<size_t>((group * c.keys + j) * c.dim + d)]);
        }
      }
      for (const double sum : sums) out.push_back(static_cast<float>(sum / total));
    }
  }
  return out;
}

TEST(DenseAttention, equals_its_formula) {
  for (const AttentionCase& c : std::initializer_list<AttentionCase>{{1, 1, 1, 1, 1, 1},
                                                                     {2, 3, 3, 7, 5, 40},
                                                                     {1, 2, 1, 250, 77, 64},
                                                                     {1, 2, 2, 241, 257, 80},
                                                                     {1, 1, 1, 13, 513, 160},
                                                                     {1, 1, 1, 49, 300, 512},
                                                                     {1, 4, 2, 33, 600, 8, 30}}) {
    const auto count = [&](int64_t heads, int64_t rows) {
      return static_cast<size_t>(c.batches * heads * rows * c.dim);
    };
    const std::vector<float> q = waves(count(c.heads, c.queries), 0.37, c.size),
                             k = waves(count(c.groups, c.keys), 0.91, c.size),
                             v = waves(count(c.groups, c.keys), 0.13, 1);
    const auto upload = [&](const std::vector<float>& values, int64_t heads, int64_t rows) {
      return test_device()->upload(DType::f32, Shape{c.batches, heads, rows, c.dim}, values.data());
    };
    const Tensor tq = upload(q, c.heads, c.queries), tk = upload(k, c.groups, c.keys), tv = upload(v, c.groups, c.keys);
    const std::vector<float> expected = exact_attention(c, q, k, v);
    // A score is wrong by a few roundings of its terms, whose sizes are the products of the numbers.
    const double tolerance = 2e-6 * std::max(1.0, c.size);
    const Tensor y = scaled_dot_product_attention(tq, tk, tv, {.whole = true});
    EXPECT_LE(relative_error(to_host<float>(y), expected), tolerance) << c.queries << " x " << c.keys << " x " << c.dim;
    // Heads that are stored together, and a result of this order, as the products around it have them.
    const auto together = [&](const Tensor& x) {
      Tensor copy = permute(x, {0, 2, 1, 3}) + 0.0;
      eval(std::span(&copy, 1));
      return permute(copy, {0, 2, 1, 3});
    };
    const Tensor rows_first =
        permute(scaled_dot_product_attention(together(tq), together(tk), together(tv), {.whole = true}), {0, 2, 1, 3});
    const Tensor again = permute(reshape(rows_first, rows_first.shape()), {0, 2, 1, 3});
    EXPECT_LE(relative_error(to_host<float>(again), expected), tolerance);
  }
}

}  // namespace
}  // namespace gabbro::pictures
