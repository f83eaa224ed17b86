// Ops over rows: rms_norm, softmax, reductions, gather, scatter, iota, concat and matmul, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/common/kernel_test.h"

namespace gabbro::kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kColumns[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 576, 1009, 5000};

TEST(RmsNorm, EqualsItsDefinition) {
  std::mt19937 generator(1);
  for (const int64_t columns : kColumns) {
    for (const int64_t rows : {0, 1, 3}) {
      Tensor x(DType::f32, {rows, 1, columns});
      Tensor weight(DType::f32, {columns});
      x.random(generator);
      weight.random(generator);
      std::vector<double> expected;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += std::pow(double{x.at<float>(r * columns + c)}, 2);
        const double scale = 1 / std::sqrt(sum / static_cast<double>(columns) + 1e-5);
        for (int64_t c = 0; c < columns; ++c) {
          expected.push_back(x.at<float>(r * columns + c) * scale * weight.at<float>(c));
        }
      }
      for_each_target([&](const Target& target) {
        Tensor y(DType::f32, {rows, 1, columns});
        target.run({"rms_norm", {&x, &weight}, {&y}, {real("epsilon", 1e-5)}});
        // The sum of positive terms in 64 lanes is off by columns/64 + 8 roundings; the root is half as far off.
        const double roundings = 4 + static_cast<double>(columns) / 128 + 4;
        expect_close(y.values<float>(), expected,
                     [&](size_t i) { return roundings * kEpsilon * std::abs(expected[i]); });
      });
    }
  }
}

TEST(Softmax, EqualsItsDefinition) {
  std::mt19937 generator(2);
  for (const int64_t columns : kColumns) {
    Tensor x(DType::f32, {3, columns});
    x.random(generator, -30, 30);
    x.at<float>(0) = -kInfinity;
    std::vector<double> expected;
    for (int64_t r = 0; r < 3; ++r) {
      double highest = -kInfinity;
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) highest = std::max<double>(highest, x.at<float>(r * columns + c));
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(x.at<float>(r * columns + c) - highest);
      for (int64_t c = 0; c < columns; ++c) expected.push_back(std::exp(x.at<float>(r * columns + c) - highest) / sum);
    }
    for_each_target([&](const Target& target) {
      Tensor y(DType::f32, {3, columns});
      target.run({"softmax", {&x}, {&y}, {}});
      // x - maximum is rounded where it is up to 60; the sum in 16 lanes is off by columns/16 roundings.
      const double roundings = 30 + 8 + static_cast<double>(columns) / 16;
      expect_close(y.values<float>(), expected, [&](size_t i) { return roundings * kEpsilon * expected[i] + 1e-38; });
    });
  }
}

TEST(Softmax, OfWhatIsNotFinite) {
  for_each_target([&](const Target& target) {
    Tensor x(DType::f32, {3, 2});
    const float values[] = {-kInfinity, -kInfinity, kNan, 1, -kInfinity, 5};
    std::copy_n(values, 6, x.data<float>());
    Tensor y(DType::f32, {3, 2});
    target.run({"softmax", {&x}, {&y}, {}});
    expect_close(y.values<float>(), {kNan, kNan, kNan, kNan, 0, 1}, [](size_t) { return kEpsilon; });
  });
}

// As docs say: last axis only, the rest in any layout.
TEST(Reduce, EqualsItsDefinition) {
  std::mt19937 generator(3);
  // Few long rows, the longest of them reduced in parts, and many short ones.
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 0},
                                      {3, 1},
                                      {3, 15},
                                      {3, 16},
                                      {3, 17},
                                      {3, 65},
                                      {3, 1009},
                                      {1, 1500},
                                      {1, 70001},
                                      {300, 1021},
                                      {2500, 17}}) {
    for (const bool transposed : {false, true}) {
      Tensor x(DType::f32, {2, rows, columns},
               transposed ? Shape{rows, 1, 2 * rows} : Shape{rows * columns, columns, 1}, 0,
               std::max<int64_t>(1, 2 * rows * columns));
      x.random(generator, columns > 2000 ? 0.999f : 0.7f, columns > 2000 ? 1.0009f : 1.3f);  // a product stays finite
      struct Result {
        const char* op;
        std::vector<double> values;
      };
      std::vector<Result> results = {{"sum", {}}, {"prod", {}}, {"max", {}}, {"min", {}}};
      std::vector<int32_t> largest;
      std::vector<int32_t> smallest;
      for (int64_t r = 0; r < 2 * rows; ++r) {
        std::vector<double> row(columns);
        for (int64_t c = 0; c < columns; ++c) row[c] = x.at<float>(r * columns + c);
        results[0].values.push_back(std::accumulate(row.begin(), row.end(), 0.0));
        results[1].values.push_back(std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>()));
        results[2].values.push_back(row.empty() ? -kInfinity : *std::max_element(row.begin(), row.end()));
        results[3].values.push_back(row.empty() ? kInfinity : *std::min_element(row.begin(), row.end()));
        largest.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
        smallest.push_back(static_cast<int32_t>(std::min_element(row.begin(), row.end()) - row.begin()));
      }
      for_each_target([&](const Target& target) {
        for (const Result& result : results) {
          SCOPED_TRACE(result.op);
          Tensor y(DType::f32, {2, rows, 1});
          target.run({result.op, {&x}, {&y}, {}});
          const double roundings = (result.op[0] == 'p' ? 1.0 : 1.0 / 16) * static_cast<double>(columns) + 4;
          expect_close(y.values<float>(), result.values,
                       [&](size_t i) { return roundings * kEpsilon * std::abs(result.values[i]); });
        }
        Tensor index(DType::i32, {2, rows, 1});
        target.run({"argmax", {&x}, {&index}, {}});
        EXPECT_EQ(index.values<int32_t>(), largest);
        target.run({"argmin", {&x}, {&index}, {}});
        EXPECT_EQ(index.values<int32_t>(), smallest);
      });
    }
  }
}

TEST(Reduce, NanAndIntegers) {
  for_each_target([&](const Target& target) {
    Tensor index(DType::i32, {1, 1});
    for (const int64_t count : {40, 400}) {
      for (const int64_t first : {int64_t{0}, count / 2, count - 7}) {
        Tensor x(DType::f32, {1, count});
        x.at<float>(first) = kNan;
        x.at<float>(first + 2) = 7;
        x.at<float>(first + 3) = kNan;
        Tensor y(DType::f32, {1, 1});
        for (const char* op : {"sum", "prod", "max", "min"}) {
          target.run({op, {&x}, {&y}, {}});
          EXPECT_TRUE(std::isnan(y.at<float>(0))) << op << " of " << count;
        }
        for (const char* op : {"argmax", "argmin"}) {
          target.run({op, {&x}, {&index}, {}});
          EXPECT_EQ(index.at<int32_t>(0), first) << op << " of " << count;
        }
      }
    }
    Tensor n(DType::i32, {1, 20});
    for (int32_t i = 0; i < 20; ++i) n.at<int32_t>(i) = i == 11 ? 2000000000 : i == 17 ? -2000000000 : 1 + i % 2;
    struct Expected {
      const char* op;
      int32_t value;
    };
    Tensor whole(DType::i64, {1, 1}), wide(DType::i64, {1, 20});
    for (int32_t i = 0; i < 20; ++i) wide.at<int64_t>(i) = n.at<int32_t>(i);
    target.run({"sum", {&n}, {&whole}, {}});
    EXPECT_EQ(whole.at<int64_t>(0), 26);
    target.run({"prod", {&wide}, {&whole}, {}});  // wraps around at 64 bits
    EXPECT_EQ(whole.at<int64_t>(0), 9017668127734890496);
    for (const Expected& e :
         {Expected{"max", 2000000000}, Expected{"min", -2000000000}, Expected{"argmax", 11}, Expected{"argmin", 17}}) {
      target.run({e.op, {&n}, {&index}, {}});
      EXPECT_EQ(index.at<int32_t>(0), e.value) << e.op;
    }
  });
}

TEST(Gather, RowsByIndex) {
  Tensor x(DType::f32, {5, 3, 2}, {7, 2, 1}, 1, 40);
  std::mt19937 generator(4);
  x.random(generator);
  Tensor indices(DType::i32, {6});
  const int32_t wanted[] = {4, 0, 0, -1, -3, 2};
  const int64_t held[] = {4, 0, 0, 4, 2, 2};
  std::copy_n(wanted, 6, indices.data<int32_t>());
  for_each_target([&](const Target& target) {
    Tensor y(DType::f32, {6, 3, 2});
    target.run({"gather", {&x, &indices}, {&y}, {}});
    for (int64_t i = 0; i < 36; ++i) EXPECT_EQ(y.at<float>(i), x.at<float>(held[i / 6] * 6 + i % 6)) << i;
  });
  Tensor nothing(DType::f32, {0, 2});
  Tensor one(DType::i32, {1});
  Tensor y(DType::f32, {1, 2});
  for_each_target([&](const Target& target) { EXPECT_FALSE(target.takes({"gather", {&nothing, &one}, {&y}, {}})); });
}

TEST(Scatter, RowsByIndex) {
  Tensor indices(DType::i32, {5});
  const int32_t wanted[] = {3, 1, 3, -1, 9};
  std::copy_n(wanted, 5, indices.data<int32_t>());
  Tensor rows(DType::i32, {5, 3000});
  for (int64_t i = 0; i < rows.count(); ++i) rows.at<int32_t>(i) = static_cast<int32_t>(i + 1);
  for_each_target([&](const Target& target) {
    Tensor table(DType::i32, {4, 3000});
    target.run({"scatter", {&table, &indices, &rows}, {&table}, {}});
    for (int64_t c = 0; c < 3000; ++c) {
      ASSERT_EQ(table.at<int32_t>(c), 0);
      ASSERT_EQ(table.at<int32_t>(3000 + c), 3000 + c + 1);
      ASSERT_EQ(table.at<int32_t>(6000 + c), 0);
      ASSERT_EQ(table.at<int32_t>(9000 + c), 6000 + c + 1) << "the last of equal indices";
    }
  });
}

TEST(Iota, Counts) {
  for_each_target([&](const Target& target) {
    Tensor i(DType::i32, {9001});
    target.run({"iota", {}, {&i}, {integer("start", -5), integer("step", 3)}});
    EXPECT_EQ(i.at<int32_t>(0), -5);
    EXPECT_EQ(i.at<int32_t>(9000), 26995);
    Tensor f(DType::f32, {17});
    target.run({"iota", {}, {&f}, {real("start", 0.5), real("step", -0.25)}});
    EXPECT_EQ(f.at<float>(16), -3.5f);
    Tensor nothing(DType::f32, {0});
    target.run({"iota", {}, {&nothing}, {}});
  });
}

TEST(Concat, AlongEachAxis) {
  std::mt19937 generator(5);
  for (const int64_t axis : {0, 1, 2}) {
    std::vector<Tensor> parts;
    for (const int64_t extent : {1, 17, 0, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) {
      Shape shape = {2, 3, 5};
      shape[axis] = extent;
      Shape strides = Tensor::contiguous(shape);
      for (int64_t& stride : strides) stride *= parts.size() % 2 == 0 ? 1 : 2;
      parts.emplace_back(DType::f32, shape, strides, 0, 2 * Tensor::product(shape) + 1);
      parts.back().random(generator);
    }
    Shape shape = {2, 3, 5};
    shape[axis] = 36;
    for_each_target([&](const Target& target) {
      Tensor y(DType::f32, shape);
      Call call{"concat", {}, {&y}, {integer("axis", axis)}};
      for (Tensor& part : parts) call.inputs.push_back(&part);
      target.run(call);
      int64_t before = 0;
      for (Tensor& part : parts) {
        const abi::TensorView view = part.view();
        for (int64_t a = 0; a < view.shape[0]; ++a) {
          for (int64_t b = 0; b < view.shape[1]; ++b) {
            for (int64_t c = 0; c < view.shape[2]; ++c) {
              int64_t to[] = {a, b, c};
              to[axis] += before;
              ASSERT_EQ(y.at<float>((to[0] * shape[1] + to[1]) * shape[2] + to[2]),
                        part.at<float>((a * view.shape[1] + b) * view.shape[2] + c));
            }
          }
        }
        before += view.shape[axis];
      }
    });
  }
}

struct MatmulCase {
  Shape a, b, c;
  bool transposed = false;  // both factors are column-major
};

void check_matmul(const std::vector<MatmulCase>& cases);

TEST(Matmul, EqualsItsDefinition) {
  check_matmul({
      {{1, 1}, {1, 1}, {1, 1}},
      {{13, 17}, {17, 33}, {13, 33}},
      {{65, 300}, {300, 63}, {65, 63}},
      {{200, 5}, {5, 7}, {200, 7}, true},
      {{129, 33}, {33, 70}, {129, 70}},
      {{65, 17}, {17, 100}, {65, 100}, true},
      // More than one block of the sums' depth, and of rows.
      {{7, 261}, {261, 1100}, {7, 1100}},
      {{7, 261}, {261, 1100}, {7, 1100}, true},
      {{1200, 5}, {5, 523}, {1200, 523}},
      {{1200, 9}, {9, 523}, {1200, 523}, true},
      {{3, 0}, {0, 2}, {3, 2}},
      {{0, 4}, {4, 2}, {0, 2}},
      {{2, 3, 16, 15}, {1, 3, 15, 17}, {2, 3, 16, 17}},
      {{4, 6}, {5, 6, 3}, {5, 4, 3}},
      // Few vectors, each factor in turn the matrix.
      {{1, 300}, {300, 520}, {1, 520}},
      {{3, 70}, {70, 301}, {3, 301}, true},
      {{130, 203}, {203, 2}, {130, 2}},
      {{131, 200}, {200, 4}, {131, 4}, true},
      {{2, 1, 260}, {260, 130}, {2, 1, 130}},
      {{1, 37}, {37, 1030}, {1, 1030}},
      {{3, 6}, {6, 530}, {3, 530}},
      {{2, 4, 5}, {5, 17}, {2, 4, 17}},
      {{3, 1, 1}, {3, 1, 1}, {3, 1, 1}},
      {{2, 1, 7, 9}, {4, 9, 5}, {2, 4, 7, 5}, true},
  });
}

// Blocks split the depth, and the last one of each adds the partial results.
TEST(Matmul, FewVectorsInSplits) { check_matmul({{{1, 300}, {300, 520}, {1, 520}}, {{3, 700}, {700, 130}, {3, 130}}}); }

void check_matmul(const std::vector<MatmulCase>& cases) {
  std::mt19937 generator(6);
  for (const MatmulCase& m : cases) {
    SCOPED_TRACE(::testing::PrintToString(m.a) + " x " + ::testing::PrintToString(m.b));
    const auto strides = [&](const Shape& shape) {
      Shape all = Tensor::contiguous(shape);
      if (m.transposed) {
        all[shape.size() - 2] = 1;
        all[shape.size() - 1] = shape[shape.size() - 2];
      }
      return all;
    };
    Tensor a(DType::f32, m.a, strides(m.a), 0, Tensor::product(m.a));
    Tensor b(DType::f32, m.b, strides(m.b), 0, Tensor::product(m.b));
    a.random(generator);
    b.random(generator);
    const int64_t rows = m.a[m.a.size() - 2];
    const int64_t depth = m.a[m.a.size() - 1];
    const int64_t columns = m.b[m.b.size() - 1];
    const int64_t batches = Tensor::product(m.c) / std::max<int64_t>(1, rows * columns);
    // The factor's batch of batch number `n` of the result.
    const auto batch_of = [&](const Shape& shape, int64_t n) {
      int64_t at = 0;
      int64_t scale = 1;
      for (size_t i = m.c.size() - 2; i-- > 0;) {
        const int64_t index = n % m.c[i];
        n /= m.c[i];
        const size_t skipped = m.c.size() - shape.size();
        if (i < skipped) continue;
        at += (shape[i - skipped] == 1 ? 0 : index) * scale;
        scale *= shape[i - skipped];
      }
      return at;
    };
    std::vector<double> expected;
    std::vector<double> size;
    for (int64_t n = 0; n < batches; ++n) {
      for (int64_t i = 0; i < rows * columns; ++i) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const double product = double{a.at<float>((batch_of(m.a, n) * rows + i / columns) * depth + k)} *
                                 b.at<float>((batch_of(m.b, n) * depth + k) * columns + i % columns);
          sum += product;
          magnitude += std::abs(product);
        }
        expected.push_back(sum);
        size.push_back(magnitude);
      }
    }
    for_each_target([&](const Target& target) {
      Tensor c(DType::f32, m.c);
      target.run({"matmul", {&a, &b}, {&c}, {}});
      // A sum in order: at most `depth` roundings; a random walk leaves their root.
      const double roundings = 4 + 2 * std::sqrt(static_cast<double>(depth));
      expect_close(c.values<float>(), expected, [&](size_t i) { return roundings * kEpsilon * size[i]; });
    });
  }
}

TEST(Rows, RefuseWhatTheyCannotDo) {
  Tensor f(DType::f32, {4, 6});
  Tensor gaps(DType::f32, {4, 6}, {12, 2}, 0, 48);
  Tensor w(DType::f32, {6});
  Tensor short_w(DType::f32, {5});
  Tensor h(DType::f64, {4, 6});
  Tensor one(DType::f32, {4, 1});
  Tensor index(DType::i32, {4, 1});
  Tensor ids(DType::i32, {4});
  for_each_target([&](const Target& target) {
    EXPECT_FALSE(target.takes({"rms_norm", {&f, &short_w}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"rms_norm", {&gaps, &w}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"softmax", {&gaps}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"sum", {&h}, {&one}, {}}));
    EXPECT_FALSE(target.takes({"sum", {&f}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"argmax", {&f}, {&one}, {}}));
    EXPECT_FALSE(target.takes({"gather", {&gaps, &ids}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"scatter", {&f, &ids, &h}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"iota", {}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"concat", {&f, &one}, {&f}, {integer("axis", 1)}}));
    EXPECT_FALSE(target.takes({"concat", {&f}, {&f}, {integer("axis", 5)}}));
    EXPECT_FALSE(target.takes({"matmul", {&f, &f}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"rope", {&f, &ids, &w}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"sum", {&one, &one}, {&one}, {}}));
    EXPECT_TRUE(target.takes({"argmax", {&f}, {&index}, {}}));
  });
}

}  // namespace
}  // namespace gabbro::kernel_test
