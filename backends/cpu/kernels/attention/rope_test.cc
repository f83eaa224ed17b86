// rope, kv_write and rope_kv_write against their definitions in double precision.
#include <gtest/gtest.h>

#include "backends/cpu/kernels/attention/kv_test_util.h"

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

TEST(Rope, AllPositionsAndShapes) {
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
  DType type;
  int64_t heads, dim, page;
};

// The most that a stored number may be away from x, where `group` are the numbers that share its scale: half a unit in
// the last place of a plain type (and below the least normal one, 2^-25 of f16). For i8 half a step, which is the
// largest by 127, and for u4 a whole step, which is the largest by 8: the largest itself has the code 0, and one of its
// size and the other sign the code 15, one step short. A scale is rounded to f16.
double stored_tolerance(DType type, double x, std::span<const float> group) {
  double largest = 0;
  for (const float y : group) largest = std::max<double>(largest, std::abs(y));
  switch (type) {
    case DType::f32:
      return 0;
    case DType::bf16:
      return std::abs(x) * 0x1p-8;
    case DType::f16:
      return std::abs(x) * 0x1p-11 + 0x1p-25;
    case DType::i8:
      return largest / 127 * 0.5 + largest * 0x1p-11;
    default:
      return largest / 8 + largest * 0x1p-11;
  }
}

// Writing, then reading back through the page table: the rounded value where the token is, nothing anywhere else.
TEST(KvWrite, PutsEachTokenInItsPlace) {
  std::mt19937 generator(6);
  std::vector<CacheCase> cases = {{DType::f16, 1, 37, 32}, {DType::f32, 1, 37, 32}, {DType::bf16, 2, 19, 16}};
  for (const DType type : kCacheTypes) {
    cases.push_back({type, 3, 64, 16});
    cases.push_back({type, 1, 32, 64});
  }
  for (const CacheCase& c : cases) {
    for (const bool keys : {true, false}) {
      SCOPED_TRACE(std::string(dtype_name(c.type)) + (keys ? " keys" : " values"));
      const std::vector<int32_t> sequences = {0, 0, 1, 1, 0, -1, 7, 1, 0};
      const std::vector<int32_t> positions = {0, 17, 3, 15, 31, 2, 2, -1, 4000};
      const std::vector<int32_t> pages = {4, 1, 2, 99};  // two sequences of two pages; one is out of range
      const auto tokens = static_cast<int64_t>(positions.size());
      Tensor x(DType::f32, {tokens, c.heads, c.dim});
      x.random(generator);
      std::fill_n(x.data<float>(), 32, 0.0f);  // a group without a largest element
      Tensor table(DType::i32, {2, 2});
      std::copy(pages.begin(), pages.end(), table.data<int32_t>());
      Tensor sequence = ids_of(sequences);
      Tensor ids = ids_of(positions);
      for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
        KvSideUnderTest side(c.type, keys, 5, c.heads, c.dim, c.page), before = side;
        Call call{"kv_write", {&side.cache, &x, &table, &sequence, &ids}, {&side.cache}, {integer("keys", keys)}};
        if (side.scaled()) {
          call.inputs.push_back(&side.scale);
          call.outputs.push_back(&side.scale);
        }
        run(isa, call, pool);
        std::vector<double> expected, tolerance;
        std::vector<float> actual;
        std::vector<KvSideUnderTest::Place> written;
        for (int64_t t = 0; t < tokens; ++t) {
          if (sequences[t] < 0 || sequences[t] > 1 || positions[t] < 0 || positions[t] >= 2 * c.page) continue;
          const int64_t page = pages[sequences[t] * 2 + positions[t] / c.page];
          if (page > 4) continue;
          for (int64_t h = 0; h < c.heads; ++h) {
            const float* head = x.data<float>() + (t * c.heads + h) * c.dim;
            for (int64_t d = 0; d < c.dim; ++d) {
              const KvSideUnderTest::Place place = {.page = page, .head = h, .slot = positions[t] % c.page, .d = d};
              const int64_t group = d / 32 * 32;
              expected.push_back(head[d]);
              tolerance.push_back(stored_tolerance(
                  c.type, head[d], {head + group, static_cast<size_t>(std::min<int64_t>(32, c.dim - group))}));
              actual.push_back(static_cast<float>(side.at(place)));
              written.push_back(place);
            }
          }
        }
        expect_close(actual, expected, [&](size_t i) { return tolerance[i] * (1 + 1e-6); });
        for (const KvSideUnderTest::Place& place : written) side.copy_from(before, place);
        EXPECT_TRUE(std::ranges::equal(side.cache.memory(), before.cache.memory())) << "written elsewhere";
        EXPECT_TRUE(std::ranges::equal(side.scale.memory(), before.scale.memory()));
      });
    }
  }
}

// The fused op does what its three parts do.
TEST(RopeKvWrite, EqualsRopeAndTwoWrites) {
  std::mt19937 generator(8);
  for (const DType type : kCacheTypes) {
    SCOPED_TRACE(dtype_name(type));
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
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      Tensor rotated_q(DType::f32, {kTokens, 6, kDim});
      Tensor rotated_k(DType::f32, {kTokens, 2, kDim});
      Tensor fused_q(DType::f32, {kTokens, 6, kDim});
      KvSideUnderTest keys[] = {{type, true, 3, 2, kDim, 16}, {type, true, 3, 2, kDim, 16}};
      KvSideUnderTest values[] = {{type, false, 3, 2, kDim, 16}, {type, false, 3, 2, kDim, 16}};
      Call fused{"rope_kv_write",
                 {&q, &k, &v, &positions, &frequencies, &keys[0].cache, &values[0].cache, &table, &sequence},
                 {&fused_q, &keys[0].cache, &values[0].cache},
                 {integer("interleaved", 1)}};
      Call write_k{"kv_write",
                   {&keys[1].cache, &rotated_k, &table, &sequence, &positions},
                   {&keys[1].cache},
                   {integer("keys", 1)}};
      Call write_v{
          "kv_write", {&values[1].cache, &v, &table, &sequence, &positions}, {&values[1].cache}, {integer("keys", 0)}};
      if (keys[0].scaled()) {
        fused.inputs.insert(fused.inputs.end(), {&keys[0].scale, &values[0].scale});
        fused.outputs.insert(fused.outputs.end(), {&keys[0].scale, &values[0].scale});
        write_k.inputs.push_back(&keys[1].scale);
        write_k.outputs.push_back(&keys[1].scale);
        write_v.inputs.push_back(&values[1].scale);
        write_v.outputs.push_back(&values[1].scale);
      }
      run(isa, fused, pool);
      run(isa, {"rope", {&q, &positions, &frequencies}, {&rotated_q}, {integer("interleaved", 1)}}, pool);
      run(isa, {"rope", {&k, &positions, &frequencies}, {&rotated_k}, {integer("interleaved", 1)}}, pool);
      run(isa, write_k, pool);
      run(isa, write_v, pool);
      EXPECT_EQ(fused_q.values<float>(), rotated_q.values<float>());
      for (auto* side : {keys, values}) {
        EXPECT_TRUE(std::ranges::equal(side[0].cache.memory(), side[1].cache.memory()));
        EXPECT_TRUE(std::ranges::equal(side[0].scale.memory(), side[1].scale.memory()));
      }
    });
  }
}

TEST(KvWrite, OfNanAndInfinity) {
  for (const DType type : {DType::i8, DType::u8}) {
    SCOPED_TRACE(dtype_name(type));
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      Tensor x(DType::f32, {1, 1, 32});
      x.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
      x.data<float>()[4] = std::numeric_limits<float>::infinity();
      Tensor zero = ids_of({0});
      Tensor table(DType::i32, {1, 1});
      KvSideUnderTest side(type, false, 1, 1, 32, 16);
      run(isa,
          {"kv_write",
           {&side.cache, &x, &table, &zero, &zero, &side.scale},
           {&side.cache, &side.scale},
           {integer("keys", 0)}},
          pool);
      EXPECT_FALSE(std::isfinite(side.scale_at({}))) << "the trouble stays visible";
    });
  }
}

}  // namespace
}  // namespace gabbro::cpu::test
