// linear_fused with weights of 16 bits against sums in double precision: every epilogue, with and without norm and
// biases, few tokens and many.
#include <gtest/gtest.h>

#include "backends/common/kernel_test.h"
#include "src/base/half.h"

namespace gabbro::kernel_test {
namespace {

constexpr float kNormEpsilon = 1e-5f;

struct Case {
  int64_t tokens, columns;
  std::vector<int64_t> rows;  // of each matrix
  int64_t epilogue;           // 1: residual, 2: silu(y0)·y1
  bool norm, bias;
  float size = 1;      // of the activations
  bool fades = false;  // each 32 columns are half as large as the 32 before
  bool mixed = false;  // the weights of every second matrix are bf16
};

// The products of a token with all rows of a matrix, and what their errors are relative to.
struct Products {
  std::vector<double> values, sizes;
};

class Fused {
 public:
  Fused(const Case& c, std::mt19937& generator) : case_(c), x_(DType::f32, {c.tokens, c.columns}) {
    x_.random(generator, -c.size, c.size);
    if (c.fades) {
      auto* const values = x_.data<float>();
      for (int64_t i = 0; i < c.tokens * c.columns; ++i)
        values[i] = std::ldexp(values[i], -static_cast<int>(i % c.columns / 32));
    }
    for (const int64_t rows : c.rows) {
      const bool bf16 = is_bf16(weights_.size());
      weights_.emplace_back(bf16 ? DType::bf16 : DType::f16, Shape{rows, c.columns});
      std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
      weights_.back().fill<uint16_t>([&] {
        const float value = uniform(generator);
        return bf16 ? float_to_bfloat_bits(value) : float_to_half_bits(value);
      });
      biases_.emplace_back(DType::f32, Shape{rows}).random(generator);
    }
    norm_.random(generator, 0.5f, 1.5f);
    residual_.random(generator);
  }

  void run(const Target& target) {
    std::vector<Tensor> results;
    const size_t count = case_.epilogue == 2 ? 1 : case_.rows.size();
    for (size_t m = 0; m < count; ++m) results.emplace_back(DType::f32, Shape{case_.tokens, case_.rows[m]});
    std::vector<Tensor*> inputs{&x_}, outputs;
    for (Tensor& weight : weights_) inputs.push_back(&weight);
    if (case_.bias) {
      for (Tensor& bias : biases_) inputs.push_back(&bias);
    }
    if (case_.norm) inputs.push_back(&norm_);
    if (case_.epilogue == 1) inputs.push_back(&residual_);
    for (Tensor& result : results) outputs.push_back(&result);
    const Call call = {
        "linear_fused",
        inputs,
        outputs,
        {integer("n", static_cast<int64_t>(case_.rows.size())), integer("bias", case_.bias),
         integer("norm", case_.norm), real("epsilon", kNormEpsilon), integer("epilogue", case_.epilogue)}};
    if (case_.mixed && case_.epilogue == 2 && !target.takes(call)) return;  // two products then
    target.run(call);
    for (size_t m = 0; m < count; ++m) compare(m, results[m]);
  }

 private:
  double silu(double x) const { return x / (1 + std::exp(-x)); }

  double weight(size_t m, int64_t i) {
    const auto bits = weights_[m].at<uint16_t>(i);
    return is_bf16(m) ? bfloat_bits_to_float(bits) : half_bits_to_float(bits);
  }
  bool is_bf16(size_t m) const { return case_.mixed && m % 2 == 1; }

  Products products(size_t m) {
    Products p;
    for (int64_t t = 0; t < case_.tokens; ++t) {
      double squares = 0;
      for (int64_t k = 0; k < case_.columns; ++k) squares += std::pow(x_.at<float>(t * case_.columns + k), 2);
      const double factor = case_.norm ? 1 / std::sqrt(squares / static_cast<double>(case_.columns) + kNormEpsilon) : 1;
      for (int64_t row = 0; row < case_.rows[m]; ++row) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < case_.columns; ++k) {
          const double x = x_.at<float>(t * case_.columns + k) * factor * (case_.norm ? norm_.at<float>(k) : 1);
          const double product = x * weight(m, row * case_.columns + k);
          sum += product;
          size += product * product;
        }
        p.values.push_back(sum + (case_.bias ? biases_[m].at<float>(row) : 0));
        p.sizes.push_back(std::sqrt(size));
      }
    }
    return p;
  }

  // Activations rounded to 11 bits: each product is off by at most 2^-11 of itself, and their sum by six standard
  // deviations of what such errors add up to. (Rounding to a share of a row's largest element, as the CPU's kernels do,
  // is the finer of the two.)
  void compare(size_t m, Tensor& result) {
    Products p = products(m);
    constexpr double kRounded = 6 * 0x1p-11 / 1.7320508;
    std::vector<double> errors;
    for (size_t i = 0; i < p.values.size(); ++i) errors.push_back(kRounded * p.sizes[i] + 1e-6 * std::abs(p.values[i]));
    if (case_.epilogue == 1) {
      for (size_t i = 0; i < p.values.size(); ++i) p.values[i] += residual_.at<float>(static_cast<int64_t>(i));
    }
    if (case_.epilogue == 2) {
      const Products second = products(1);
      for (size_t i = 0; i < p.values.size(); ++i) {
        // silu's slope is at most 1.1.
        errors[i] = 1.1 * errors[i] * std::abs(second.values[i]) +
                    std::abs(silu(p.values[i])) * (kRounded * second.sizes[i] + 1e-6 * std::abs(second.values[i]));
        p.values[i] = silu(p.values[i]) * second.values[i];
      }
    }
    expect_close(result.values<float>(), p.values, [&](size_t i) { return errors[i] + 1e-6; });
  }

  Case case_;
  Tensor x_;
  std::vector<Tensor> weights_, biases_;
  Tensor norm_{DType::f32, {case_.columns}};
  Tensor residual_{DType::f32, {case_.tokens, case_.rows[0]}};
};

TEST(LinearFused, EqualsItsDefinition) {
  std::mt19937 generator(11);
  const std::vector<Case> cases = {
      {3, 64, {33}, 1, true, true},           {9, 32, {17, 5, 40}, 0, true, false},
      {17, 96, {100}, 1, false, true},        {33, 72, {130, 1}, 0, false, true},
      {9, 64, {70, 70}, 2, true, false},      {100, 64, {150, 150}, 2, false, true},
      {70, 40, {15, 200, 3}, 0, true, true},  {1, 72, {33, 5}, 0, true, true},
      {1, 520, {9}, 1, true, true},           {1, 2056, {70, 70}, 2, true, true},
      {1, 8200, {5, 3}, 0, false, true},      {1, 8200, {3}, 0, true, false},
      {40, 8200, {20}, 1, true, true},        {7, 1032, {33, 60}, 0, true, true},
      {8, 2056, {20}, 1, true, false},        {6, 1048, {150, 150}, 2, true, true},
      {5, 264, {300, 40, 40}, 0, true, true}, {20, 1032, {40, 40}, 2, true, true},
      {50, 1032, {60}, 1, false, true},       {40, 648, {36, 36}, 2, false, true},
      {60, 64, {152, 152}, 2, true, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.tokens) + " tokens, K " + std::to_string(c.columns) + ", epilogue " +
                 std::to_string(c.epilogue));
    Fused fused(c, generator);
    for_each_target([&](const Target& target) { fused.run(target); });
  }
}

// One shape of each epilogue.
TEST(LinearFused, OfEachEpilogue) {
  std::mt19937 generator(15);
  for (const Case& c : std::vector<Case>{{1, 520, {9}, 1, true, true}, {9, 64, {70, 70}, 2, true, false}}) {
    Fused fused(c, generator);
    for_each_target([&](const Target& target) { fused.run(target); });
  }
}

TEST(LinearFused, TakesWeightsOfTwoDtypes) {
  std::mt19937 generator(13);
  for (const int64_t tokens : {1, 6, 17, 40, 100}) {
    for (const int64_t epilogue : {0, 2}) {
      SCOPED_TRACE(std::to_string(tokens) + " tokens, epilogue " + std::to_string(epilogue));
      Case c = {tokens, 64, {70, 70}, epilogue, true, false};
      c.mixed = true;
      Fused fused(c, generator);
      for_each_target([&](const Target& target) { fused.run(target); });
    }
  }
}

// Activations beyond the range of f16, with and without a norm that makes them small.
TEST(LinearFused, TakesActivationsOfAnySize) {
  std::mt19937 generator(12);
  for (const float size : {1e-30f, 1e-6f, 1e6f, 1e18f}) {
    for (const bool norm : {false, true}) {
      if (norm && size > 1e6f) continue;  // its squares are infinite
      SCOPED_TRACE("activations up to " + std::to_string(size) + (norm ? " with a norm" : ""));
      for (const int64_t epilogue : {0, 1}) {
        for (const int64_t tokens : {7, 17}) {
          Fused fused({tokens, 64, {20}, epilogue, norm, false, size}, generator);
          for_each_target([&](const Target& target) { fused.run(target); });
        }
      }
      if (size < 1e-6f || size > 1e6f) continue;
      for (const int64_t tokens : {6, 19}) {
        SCOPED_TRACE("parts of many sizes");
        Fused fused({tokens, 600, {20}, 0, norm, false, size, true}, generator);
        for_each_target([&](const Target& target) { fused.run(target); });
      }
    }
  }
}

}  // namespace
}  // namespace gabbro::kernel_test
