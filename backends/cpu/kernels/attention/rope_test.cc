// rope, kv_write and rope_kv_write against their definitions in double precision.
#include <gtest/gtest.h>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {
namespace {

struct Rotated {
  const std::vector<int32_t>& positions;
  const std::vector<float>& frequencies;
  bool interleaved;
  double magnitude;
};

// x [T, H, D]. The angle is rounded to f32, as in models; all else is exact.
std::vector<double> rotated(Tensor& x, int64_t heads, int64_t dim, const Rotated& by) {
  const auto& [positions, frequencies, interleaved, magnitude] = by;
  std::vector<double> y;
  const auto pairs = static_cast<int64_t>(frequencies.size());
  for (int64_t row = 0; row < static_cast<int64_t>(positions.size()) * heads; ++row) {
    std::vector<double> head(dim);
    for (int64_t d = 0; d < dim; ++d) head[d] = x.at<float>(row * dim + d);
    const std::vector<double> from = head;
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<float>(positions[row / heads]) * frequencies[i];
      const int64_t a = interleaved ? 2 * i : i;
      const int64_t b = interleaved ? 2 * i + 1 : i + pairs;
      head[a] = magnitude * (from[a] * std::cos(angle) - from[b] * std::sin(angle));
      head[b] = magnitude * (from[b] * std::cos(angle) + from[a] * std::sin(angle));
    }
    y.insert(y.end(), head.begin(), head.end());
  }
  return y;
}

std::vector<float> frequencies_of(int64_t pairs) {
  std::vector<float> all(pairs);
  for (int64_t i = 0; i < pairs; ++i) {
    all[i] = static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs)));
  }
  return all;
}

Tensor vector_of(const std::vector<float>& values) {
  Tensor t(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

Tensor ids_of(const std::vector<int32_t>& values) {
  Tensor t(DType::i32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data<int32_t>());
  return t;
}

// Sine and cosine are within 2 ulp of 1, the products and their sum add two roundings; inputs are below 2.
constexpr double kRopeTolerance = 2 * 2 * 4 * kEpsilon;

TEST(Rope, all_positions_and_shapes) {
  std::mt19937 generator(5);
  const std::vector<int32_t> positions = {0, 1, 2, 511, 8191, 131071, 999999, 5000000, 17, 3, 1000000007};
  struct Form {
    int64_t heads, dim, pairs;
  };
  for (const Form& c : {Form{9, 64, 32}, Form{1, 2, 1}, Form{3, 80, 40}, Form{2, 100, 32}, Form{2, 37, 17},
                        Form{1, 8, 0}, Form{1, 256, 64}}) {
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE("D " + std::to_string(c.dim) + ", pairs " + std::to_string(c.pairs));
      const auto tokens = static_cast<int64_t>(positions.size());
      const std::vector<float> frequencies = frequencies_of(c.pairs);
      Tensor x(DType::f32, {tokens, c.heads, c.dim}, {c.heads * c.dim + 3, c.dim, 1}, 1,
               tokens * (c.heads * c.dim + 3) + 1);
      x.random(generator);
      Tensor ids = ids_of(positions);
      Tensor inverse = vector_of(frequencies);
      const auto expected =
          rotated(x, c.heads, c.dim,
                  {.positions = positions, .frequencies = frequencies, .interleaved = interleaved, .magnitude = 1.25});
      for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
        Tensor y(DType::f32, {tokens, c.heads, c.dim});
        run(isa, {"rope", {&x, &ids, &inverse}, {&y}, {integer("interleaved", interleaved), real("magnitude", 1.25)}},
            pool);
        expect_close(y.values<float>(), expected, [](size_t) { return 1.25 * kRopeTolerance; });
      });
    }
  }
}

struct CacheCase {
  bool bytes;
  int64_t heads, dim, page;
};

// Writing, then reading back through the page table: the rounded value where the token is, nothing anywhere else.
TEST(KvWrite, puts_each_token_in_its_place) {
  std::mt19937 generator(6);
  for (const CacheCase& c : {CacheCase{false, 3, 64, 16}, CacheCase{false, 1, 37, 32}, CacheCase{true, 2, 64, 16},
                             CacheCase{true, 1, 32, 64}}) {
    for (const bool keys : {true, false}) {
      SCOPED_TRACE(std::string(c.bytes ? "i8" : "f16") + (keys ? " keys" : " values"));
      const std::vector<int32_t> sequences = {0, 0, 1, 1, 0, -1, 7, 1, 0};
      const std::vector<int32_t> positions = {0, 17, 3, 15, 31, 2, 2, -1, 4000};
      const std::vector<int32_t> pages = {4, 1, 2, 99};  // two sequences of two pages; one is out of range
      const auto tokens = static_cast<int64_t>(positions.size());
      const Shape shape = keys ? Shape{5, c.heads, c.dim, c.page} : Shape{5, c.heads, c.page, c.dim};
      const Shape scale_shape = keys ? Shape{5, c.heads, c.dim / 32, c.page} : Shape{5, c.heads, c.page, c.dim / 32};
      Tensor x(DType::f32, {tokens, c.heads, c.dim});
      x.random(generator);
      std::fill_n(x.data<float>(), 32, 0.0f);  // a group without a largest element
      Tensor table(DType::i32, {2, 2});
      std::copy(pages.begin(), pages.end(), table.data<int32_t>());
      Tensor sequence = ids_of(sequences);
      Tensor ids = ids_of(positions);
      for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
        Tensor cache(c.bytes ? DType::i8 : DType::f16, shape);
        Tensor scale(DType::f16, scale_shape);
        Call call{"kv_write", {&cache, &x, &table, &sequence, &ids}, {&cache}, {integer("keys", keys)}};
        if (c.bytes) {
          call.inputs.push_back(&scale);
          call.outputs.push_back(&scale);
        }
        run(isa, call, pool);
        std::vector<double> expected(cache.count(), 0.0);
        std::vector<double> tolerance(cache.count(), 0.0);
        for (int64_t t = 0; t < tokens; ++t) {
          if (sequences[t] < 0 || sequences[t] > 1 || positions[t] < 0 || positions[t] >= 2 * c.page) continue;
          const int64_t page = pages[sequences[t] * 2 + positions[t] / c.page];
          if (page > 4) continue;
          for (int64_t h = 0; h < c.heads; ++h) {
            for (int64_t d = 0; d < c.dim; ++d) {
              const int64_t slot = positions[t] % c.page;
              const int64_t at = keys ? ((page * c.heads + h) * c.dim + d) * c.page + slot
                                      : ((page * c.heads + h) * c.page + slot) * c.dim + d;
              expected[at] = x.at<float>((t * c.heads + h) * c.dim + d);
              double largest = 0;
              for (int64_t i = d / 32 * 32; i < std::min(c.dim, d / 32 * 32 + 32); ++i) {
                largest = std::max<double>(largest, std::abs(x.at<float>((t * c.heads + h) * c.dim + i)));
              }
              // Half of a step of f16 (2⁻¹¹), or of a scale, which is itself rounded to f16.
              tolerance[at] = c.bytes ? largest / 127 * 0.5 + largest * 0x1p-11 : std::abs(expected[at]) * 0x1p-11;
            }
          }
        }
        std::vector<float> actual;
        for (int64_t i = 0; i < cache.count(); ++i) {
          if (!c.bytes) {
            actual.push_back(half_bits_to_float(cache.data<uint16_t>()[i]));
            continue;
          }
          const int64_t groups = keys ? i / c.page / 32 * c.page + i % c.page : i / 32;
          actual.push_back(cache.data<int8_t>()[i] * half_bits_to_float(scale.data<uint16_t>()[groups]));
        }
        expect_close(actual, expected, [&](size_t i) { return tolerance[i] + 1e-7; });
      });
    }
  }
}

// The fused op does what its three parts do.
TEST(RopeKvWrite, equals_rope_and_two_writes) {
  std::mt19937 generator(8);
  for (const bool bytes : {false, true}) {
    constexpr int64_t kTokens = 21;
    constexpr int64_t kDim = 64;
    Tensor q(DType::f32, {kTokens, 6, kDim});
    Tensor k(DType::f32, {kTokens, 2, kDim});
    Tensor v(DType::f32, {kTokens, 2, kDim});
    for (Tensor* t : {&q, &k, &v}) t->random(generator);
    std::vector<int32_t> places;
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < kTokens; ++i) places.push_back(i == 5 ? -1 : i == 6 ? 900 : 3 + i);
    for (int32_t i = 0; i < kTokens; ++i) rows.push_back(i == 7 ? 1 : i == 8 ? -2 : 0);
    Tensor positions = ids_of(places);
    Tensor sequence = ids_of(rows);
    Tensor frequencies = vector_of(frequencies_of(32));
    Tensor table(DType::i32, {1, 2});
    table.data<int32_t>()[0] = 2;
    const DType type = bytes ? DType::i8 : DType::f16;
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      Tensor rotated_q(DType::f32, {kTokens, 6, kDim});
      Tensor rotated_k(DType::f32, {kTokens, 2, kDim});
      Tensor fused_q(DType::f32, {kTokens, 6, kDim});
      Tensor keys[] = {Tensor(type, {3, 2, kDim, 16}), Tensor(type, {3, 2, kDim, 16})};
      Tensor values[] = {Tensor(type, {3, 2, 16, kDim}), Tensor(type, {3, 2, 16, kDim})};
      Tensor key_scale[] = {Tensor(DType::f16, {3, 2, 2, 16}), Tensor(DType::f16, {3, 2, 2, 16})};
      Tensor value_scale[] = {Tensor(DType::f16, {3, 2, 16, 2}), Tensor(DType::f16, {3, 2, 16, 2})};
      Call fused{"rope_kv_write",
                 {&q, &k, &v, &positions, &frequencies, &keys[0], &values[0], &table, &sequence},
                 {&fused_q, &keys[0], &values[0]},
                 {integer("interleaved", 1)}};
      Call write_k{"kv_write", {&keys[1], &rotated_k, &table, &sequence, &positions}, {&keys[1]}, {integer("keys", 1)}};
      Call write_v{"kv_write", {&values[1], &v, &table, &sequence, &positions}, {&values[1]}, {integer("keys", 0)}};
      if (bytes) {
        fused.inputs.insert(fused.inputs.end(), {&key_scale[0], &value_scale[0]});
        fused.outputs.insert(fused.outputs.end(), {&key_scale[0], &value_scale[0]});
        write_k.inputs.push_back(&key_scale[1]);
        write_k.outputs.push_back(&key_scale[1]);
        write_v.inputs.push_back(&value_scale[1]);
        write_v.outputs.push_back(&value_scale[1]);
      }
      run(isa, fused, pool);
      run(isa, {"rope", {&q, &positions, &frequencies}, {&rotated_q}, {integer("interleaved", 1)}}, pool);
      run(isa, {"rope", {&k, &positions, &frequencies}, {&rotated_k}, {integer("interleaved", 1)}}, pool);
      run(isa, write_k, pool);
      run(isa, write_v, pool);
      EXPECT_EQ(fused_q.values<float>(), rotated_q.values<float>());
      const size_t bytes_of_cache = dtype_bytes(type, static_cast<size_t>(keys[0].count()));
      EXPECT_EQ(std::memcmp(keys[0].data<char>(), keys[1].data<char>(), bytes_of_cache), 0);
      EXPECT_EQ(std::memcmp(values[0].data<char>(), values[1].data<char>(), bytes_of_cache), 0);
      EXPECT_EQ(key_scale[0].values<uint16_t>(), key_scale[1].values<uint16_t>());
      EXPECT_EQ(value_scale[0].values<uint16_t>(), value_scale[1].values<uint16_t>());
    });
  }
}

TEST(KvWrite, of_nan_and_infinity) {
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    Tensor x(DType::f32, {1, 1, 32});
    x.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    x.data<float>()[4] = std::numeric_limits<float>::infinity();
    Tensor zero = ids_of({0});
    Tensor table(DType::i32, {1, 1});
    Tensor cache(DType::i8, {1, 1, 16, 32});
    Tensor scale(DType::f16, {1, 1, 16, 1});
    run(isa, {"kv_write", {&cache, &x, &table, &zero, &zero, &scale}, {&cache, &scale}, {integer("keys", 0)}}, pool);
    EXPECT_FALSE(std::isfinite(half_bits_to_float(scale.at<uint16_t>(0)))) << "the trouble stays visible";
  });
}

}  // namespace
}  // namespace gabbro::cpu::test
