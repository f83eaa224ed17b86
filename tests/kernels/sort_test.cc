// `sort` and `topk` against std::stable_sort: rows of one element up to several tiles of a GPU, with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/common/kernel_test.h"
#include "src/base/half.h"

namespace gabbro::kernel_test {
namespace {

// The places of a row's values in order; a NaN is behind (or, descending, before) all numbers.
template <class T>
std::vector<int32_t> order_of(const T* row, int64_t columns, bool descending) {
  const auto before = [](float a, float b) { return a < b || (b != b && a == a); };
  std::vector<int32_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t i, int32_t j) {
    const float a = static_cast<float>(row[i]), b = static_cast<float>(row[j]);
    return descending ? before(b, a) : before(a, b);
  });
  return order;
}

struct Case {
  int64_t rows;
  int64_t columns;
  int64_t k;  // 0: sort
};

template <class T>
void check(DType dtype, const Case& c, bool descending, float spread) {
  SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << c.rows << "x" << c.columns << " k " << c.k
                                  << (descending ? " descending" : " ascending"));
  std::mt19937 generator(static_cast<uint32_t>(c.columns));
  std::normal_distribution<float> normal(0, spread);
  Tensor x(dtype, {c.rows, c.columns});
  x.fill<T>([&] { return T(normal(generator)); });
  if constexpr (!std::is_integral_v<T>) {
    if (c.columns > 20) x.at<T>(7) = x.at<T>(17) = x.at<T>(c.columns - 2) = T(std::numeric_limits<float>::quiet_NaN());
  }
  const int64_t count = c.k == 0 ? c.columns : c.k;
  std::vector<int32_t> expected;
  for (int64_t row = 0; row < c.rows; ++row) {
    const std::vector<int32_t> order = order_of(x.data<T>() + row * c.columns, c.columns, descending);
    expected.insert(expected.end(), order.begin(), order.begin() + count);
  }
  for_each_target([&](const Target& target) {
    Tensor values(dtype, {c.rows, count}), indices(DType::i32, {c.rows, count});
    const Call call{c.k == 0 ? "sort" : "topk", {&x}, {&values, &indices}, {integer("descending", descending)}};
    if (c.k > 1024 && !target.takes(call)) return;  // a GPU sorts then
    target.run(call);
    ASSERT_EQ(indices.values<int32_t>(), expected);
    for (int64_t i = 0; i < c.rows * count; ++i) {
      const T from = x.at<T>(i / count * c.columns + expected[static_cast<size_t>(i)]), got = values.at<T>(i);
      ASSERT_EQ(std::memcmp(&from, &got, sizeof(T)), 0) << "the value at " << i;
    }
  });
}

TEST(Sort, IsTheStableOne) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                      {5, 2},
                                      {300, 7},
                                      {3, 31},
                                      {2, 64},
                                      {2, 65},
                                      {1, 2047},
                                      {1, 2048},
                                      {2, 2049},
                                      {2, 4099},
                                      {1, 10007}}) {
    for (const bool descending : {false, true}) {
      check<float>(DType::f32, {rows, columns, 0}, descending, 1);
      check<int32_t>(DType::i32, {rows, columns, 0}, descending, 5);
    }
    check<Half>(DType::f16, {rows, columns, 0}, false, 1);
    check<BFloat>(DType::bf16, {rows, columns, 0}, true, 1);
  }
}

// One shape of each kernel.
TEST(Sort, OfOneBlockAndOfSeveral) {
  for (const int64_t columns : {7, 65, 2049}) check<float>(DType::f32, {2, columns, 0}, true, 1);
}

TEST(Topk, IsTheBeginningOfTheSortedRow) {
  for (const Case& c : {Case{1, 1, 1}, Case{3, 9, 2}, Case{40, 64, 8}, Case{2, 1000, 1}, Case{1, 2048, 40},
                        Case{2, 2049, 2}, Case{1, 9000, 1024}, Case{1, 9000, 1500}, Case{2, 30011, 50}}) {
    for (const bool descending : {false, true}) check<float>(DType::f32, c, descending, 1);
    for (const bool descending : {false, true}) check<int32_t>(DType::i32, c, descending, 20);
    check<Half>(DType::f16, c, true, 1);
    check<BFloat>(DType::bf16, c, false, 1);
  }
}

}  // namespace
}  // namespace gabbro::kernel_test
