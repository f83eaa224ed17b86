// Attention and the KV cache, against the definition in double precision over the cache's own contents.
#include <gtest/gtest.h>

#include "backends/cpu/kernels/attention/kv_test_util.h"

namespace gabbro::cpu::test {
namespace {

struct Case {
  int64_t heads;                                // H
  int64_t kv_heads;                             // G
  int64_t dim;                                  // D
  int64_t page;                                 // P
  std::vector<std::vector<int32_t>> positions;  // of each sequence, in the order of the step
  int64_t window = 0;
  double softcap = 0;
  DType type = DType::f16;
  bool shuffled = false;  // tokens of the sequences alternate
};

std::vector<int32_t> run_of(int32_t first, int32_t count) {
  std::vector<int32_t> positions(count);
  for (int32_t i = 0; i < count; ++i) positions[i] = first + i;
  return positions;
}

// A cache with random contents behind a page table in random order; slots that no token has are NaN.
class Cache {
 public:
  Cache(const Case& c, std::mt19937& generator)
      : page_(c.page),
        columns_((longest(c) + c.page - 1) / c.page + 1),
        sequences_(static_cast<int64_t>(c.positions.size())),
        pages_(sequences_ * columns_ + 3),
        k(c.type, true, pages_, c.kv_heads, c.dim, c.page),
        v(c.type, false, pages_, c.kv_heads, c.dim, c.page),
        table(DType::i32, {sequences_, columns_}) {
    std::vector<int32_t> order(pages_);
    for (int64_t i = 0; i < pages_; ++i) order[i] = static_cast<int32_t>(i);
    std::shuffle(order.begin(), order.end(), generator);
    for (int64_t i = 0; i < sequences_ * columns_; ++i) table.data<int32_t>()[i] = order[i];
    std::normal_distribution<float> normal;
    for (KvSideUnderTest* side : {&k, &v}) side->fill_with_nan(generator);
    for (int64_t s = 0; s < sequences_; ++s) {
      const auto& positions = c.positions[s];
      const int64_t last = positions.empty() ? -1 : *std::max_element(positions.begin(), positions.end());
      for (int64_t t = 0; t <= last; ++t) {
        for (int64_t g = 0; g < c.kv_heads; ++g) {
          for (int64_t d = 0; d < c.dim; ++d) {
            for (KvSideUnderTest* side : {&k, &v}) side->set(place(s, g, d, t), normal(generator));
          }
        }
      }
    }
  }

  static int64_t longest(const Case& c) {
    int64_t most = 0;
    for (const auto& positions : c.positions) {
      for (const int32_t position : positions) most = std::max<int64_t>(most, position + 1);
    }
    return most;
  }

  KvSideUnderTest::Place place(int64_t s, int64_t g, int64_t d, int64_t t) {
    return {.page = table.data<int32_t>()[s * columns_ + t / page_], .head = g, .slot = t % page_, .d = d};
  }
  double key(int64_t s, int64_t g, int64_t d, int64_t t) { return k.at(place(s, g, d, t)); }
  double value(int64_t s, int64_t g, int64_t d, int64_t t) { return v.at(place(s, g, d, t)); }

 private:
  int64_t page_;
  int64_t columns_;
  int64_t sequences_;
  int64_t pages_;

 public:
  KvSideUnderTest k;
  KvSideUnderTest v;
  Tensor table;
};

// The tokens of a step: (sequence, position).
std::vector<std::pair<int32_t, int32_t>> tokens_of(const Case& c) {
  std::vector<std::pair<int32_t, int32_t>> tokens;
  if (!c.shuffled) {
    for (size_t s = 0; s < c.positions.size(); ++s) {
      for (const int32_t position : c.positions[s]) tokens.emplace_back(s, position);
    }
    return tokens;
  }
  for (size_t i = 0;; ++i) {
    const size_t before = tokens.size();
    for (size_t s = 0; s < c.positions.size(); ++s) {
      if (i < c.positions[s].size()) tokens.emplace_back(s, c.positions[s][i]);
    }
    if (tokens.size() == before) return tokens;
  }
}

// The definition; `slack` gets, per output element, what the tolerance is a multiple of.
std::vector<double> reference(const Case& c, Cache& cache, Tensor& q, double scale, std::vector<double>& slack) {
  const auto tokens = tokens_of(c);
  std::vector<double> all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [s, position] = tokens[i];
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      const int64_t first = c.window > 0 ? std::max<int64_t>(0, position - c.window + 1) : 0;
      std::vector<double> scores;
      double size = 0;
      for (int64_t t = first; t <= position; ++t) {
        double score = 0;
        double magnitude = 0;
        for (int64_t d = 0; d < c.dim; ++d) {
          const double product =
              double{q.at<float>((static_cast<int64_t>(i) * c.heads + h) * c.dim + d)} * cache.key(s, g, d, t) * scale;
          score += product;
          magnitude += std::abs(product);
        }
        size = std::max(size, magnitude);
        scores.push_back(c.softcap > 0 ? c.softcap * std::tanh(score / c.softcap) : score);
      }
      const double highest = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - highest);
      for (int64_t d = 0; d < c.dim; ++d) {
        double out = 0;
        double largest = 0;
        for (size_t t = 0; t < scores.size(); ++t) {
          const double value = cache.value(s, g, d, first + static_cast<int64_t>(t));
          out += scores[t] / sum * value;
          largest = std::max(largest, std::abs(value));
        }
        all.push_back(out);
        // A score is off by D roundings of its terms, a weight by that and its exp; the sum adds one per key.
        slack.push_back(
            kEpsilon * largest *
            (size * 2 * std::sqrt(static_cast<double>(c.dim)) + 8 + std::sqrt(static_cast<double>(scores.size()))));
      }
    }
  }
  return all;
}

void check(const Case& c) {
  std::mt19937 generator(7);
  Cache cache(c, generator);
  const auto tokens = tokens_of(c);
  const auto count = static_cast<int64_t>(tokens.size());
  // q is a view into a wider row, as of a fused projection.
  const int64_t width = c.heads * c.dim + 5;
  Tensor q(DType::f32, {count, c.heads, c.dim}, {width, c.dim, 1}, 3, count * width + 3);
  q.random(generator);
  Tensor sequence(DType::i32, {count});
  Tensor positions(DType::i32, {count});
  for (int64_t i = 0; i < count; ++i) {
    sequence.data<int32_t>()[i] = tokens[i].first;
    positions.data<int32_t>()[i] = tokens[i].second;
  }
  const double scale = 1 / std::sqrt(static_cast<double>(c.dim));
  std::vector<double> slack;
  const std::vector<double> expected = reference(c, cache, q, scale, slack);
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    Tensor out(DType::f32, {count, c.heads, c.dim});
    Call call{.op = "attention",
              .inputs = {&q, &cache.k.cache, &cache.v.cache, &cache.table, &sequence, &positions},
              .outputs = {&out},
              .attributes = {real("scale", scale), integer("window", c.window), real("softcap", c.softcap)}};
    if (cache.k.scaled()) call.inputs.insert(call.inputs.end(), {&cache.k.scale, &cache.v.scale});
    run(isa, call, pool);
    expect_close(out.values<float>(), expected, [&](size_t i) { return slack[i]; });
  });
}

TEST(Attention, OneTokenAtOddLengths) {
  for (const int32_t position : {0, 1, 14, 15, 16, 17, 63, 64, 65, 127, 1008}) {
    SCOPED_TRACE(position);
    check({.heads = 9, .kv_heads = 3, .dim = 64, .page = 16, .positions = {{position}}});
  }
}

TEST(Attention, LongContextsAreSplitAndMerged) {
  check({.heads = 2, .kv_heads = 1, .dim = 64, .page = 64, .positions = {{2500}}});
  check({.heads = 3, .kv_heads = 3, .dim = 32, .page = 32, .positions = {run_of(1500, 3)}, .window = 1100});
  check({.heads = 2, .kv_heads = 1, .dim = 48, .page = 16, .positions = {{5}, {1300}}});
}

TEST(Attention, Prompts) {
  check({.heads = 9, .kv_heads = 3, .dim = 64, .page = 16, .positions = {run_of(0, 67)}});
  check({.heads = 9, .kv_heads = 3, .dim = 64, .page = 64, .positions = {run_of(100, 65)}});
  check({.heads = 4, .kv_heads = 4, .dim = 128, .page = 256, .positions = {run_of(31, 33)}});
  check({.heads = 14, .kv_heads = 2, .dim = 32, .page = 32, .positions = {run_of(3, 17)}});
  check({.heads = 70, .kv_heads = 1, .dim = 16, .page = 16, .positions = {run_of(0, 5)}});
}

TEST(Attention, HeadSizesThatAreNotWholeVectors) {
  for (const int64_t dim : {1, 7, 17, 80, 100}) {
    SCOPED_TRACE(dim);
    check({.heads = 2, .kv_heads = 1, .dim = dim, .page = 16, .positions = {run_of(20, 13)}});
    check({.heads = 2, .kv_heads = 2, .dim = dim, .page = 16, .positions = {{37}}});
  }
}

TEST(Attention, WindowAndSoftcap) {
  for (const int64_t window : {1, 5, 16, 50}) {
    SCOPED_TRACE(window);
    check({.heads = 4, .kv_heads = 2, .dim = 32, .page = 16, .positions = {run_of(0, 90)}, .window = window});
    check({.heads = 4, .kv_heads = 2, .dim = 32, .page = 16, .positions = {{201}}, .window = window});
  }
  check({.heads = 4, .kv_heads = 2, .dim = 32, .page = 16, .positions = {run_of(9, 30)}, .softcap = 1.5});
}

TEST(Attention, CachesOfEachType) {
  for (const DType type : kCacheTypes) {
    SCOPED_TRACE(dtype_name(type));
    check({.heads = 9, .kv_heads = 3, .dim = 64, .page = 16, .positions = {{77}}, .type = type});
    check({.heads = 4, .kv_heads = 2, .dim = 96, .page = 64, .positions = {run_of(33, 40)}, .type = type});
    check({.heads = 2, .kv_heads = 1, .dim = 32, .page = 64, .positions = {{2500}}, .window = 1100, .type = type});
  }
  for (const DType type : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(dtype_name(type));
    check({.heads = 2, .kv_heads = 1, .dim = 17, .page = 16, .positions = {run_of(20, 13)}, .type = type});
    check({.heads = 2, .kv_heads = 2, .dim = 7, .page = 16, .positions = {{37}}, .type = type});
  }
}

TEST(Attention, SequencesMixedInOneStep) {
  const std::vector<std::vector<int32_t>> positions = {{40}, run_of(0, 20), {7, 3, 3, 9}, {}, {130}};
  check({.heads = 6, .kv_heads = 2, .dim = 64, .page = 32, .positions = positions});
  check({.heads = 6, .kv_heads = 2, .dim = 64, .page = 32, .positions = positions, .shuffled = true});
}

// Tokens that belong to no sequence, as padding does, give zeros; page numbers outside do no harm.
TEST(Attention, PaddingAndBadPages) {
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    Tensor q(DType::f32, {4, 2, 16});
    Tensor k(DType::f16, {2, 1, 16, 16});
    Tensor v(DType::f16, {2, 1, 16, 16});
    Tensor table(DType::i32, {1, 1});
    Tensor sequence(DType::i32, {4});
    Tensor positions(DType::i32, {4});
    Tensor out(DType::f32, {4, 2, 16});
    q.fill<float>([] { return 1.0f; });
    out.fill<float>([] { return 5.0f; });
    v.fill<uint16_t>([] { return float_to_half_bits(2); });
    table.data<int32_t>()[0] = 1000000;
    const int32_t sequences[] = {0, -1, 9, 0};
    const int32_t places[] = {3, 3, 3, 99};
    std::copy_n(sequences, 4, sequence.data<int32_t>());
    std::copy_n(places, 4, positions.data<int32_t>());
    run(isa, {"attention", {&q, &k, &v, &table, &sequence, &positions}, {&out}, {}}, pool);
    for (int64_t i = 0; i < out.count(); ++i) EXPECT_EQ(out.at<float>(i), i < 32 ? 2.0f : 0.0f) << i;
  });
}

// No keys, no queries: an empty step is nothing to do.
TEST(Attention, EmptyStep) { check({.heads = 2, .kv_heads = 1, .dim = 64, .page = 16, .positions = {{}}}); }

TEST(Attention, RefusesWhatItCannotDo) {
  const IsaTable& isa = *isa_tables().back();
  const auto made = [&](Shape q_shape, Shape k_shape, Shape v_shape, DType cache = DType::f16) {
    Tensor q(DType::f32, q_shape);
    Tensor k(cache, k_shape);
    Tensor v(cache, v_shape);
    Tensor table(DType::i32, {1, 1});
    Tensor ids(DType::i32, {q_shape[0]});
    Tensor out(DType::f32, q_shape);
    return make(isa, {"attention", {&q, &k, &v, &table, &ids, &ids}, {&out}, {}}, 1) != nullptr;
  };
  EXPECT_TRUE(made({1, 4, 32}, {2, 2, 32, 16}, {2, 2, 16, 32}));
  EXPECT_FALSE(made({1, 3, 32}, {2, 2, 32, 16}, {2, 2, 16, 32})) << "heads do not divide";
  EXPECT_FALSE(made({1, 4, 16}, {2, 2, 32, 16}, {2, 2, 16, 32})) << "head sizes differ";
  EXPECT_FALSE(made({1, 4, 32}, {2, 2, 32, 24}, {2, 2, 24, 32})) << "page is not a power of two";
  EXPECT_FALSE(made({1, 4, 32}, {2, 2, 32, 8}, {2, 2, 8, 32})) << "page is too small";
  EXPECT_FALSE(made({1, 4, 32}, {2, 2, 32, 16}, {3, 2, 16, 32})) << "keys and values differ";
  EXPECT_FALSE(made({1, 4, 32}, {2, 2, 32, 16}, {2, 2, 16, 32}, DType::i8)) << "i8 without scales";
  EXPECT_FALSE(made({1, 4, 32}, {2, 2, 32, 16}, {2, 2, 16, 32}, DType::f64)) << "cache of f64";
}

}  // namespace
}  // namespace gabbro::cpu::test
