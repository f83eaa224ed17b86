// `linear`, `linear_fused`, `embedding` and `dequantize` on every instruction set of this machine, against a
// double-precision product of the dequantized weights (src/formats/quant, tested against the gguf package).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "backends/common/dequantized.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/pack/layout.h"
#include "backends/cpu/pool.h"
#include "src/base/half.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::cpu {
namespace {

std::vector<DType> weight_types() {
  std::vector<DType> types = {DType::f32, DType::f16, DType::bf16};
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

// The dtype that kernels see: formats without panels are dequantized to f16. The existing ones lose nothing by it.
DType stored(DType dtype) { return is_quantized(dtype) && !has_panels(dtype) ? DType::f16 : dtype; }

constexpr double kEpsilon = 0x1p-24;

template <class T>
struct Aligned {
  explicit Aligned(size_t count)
      : data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64)), std::free) {}
  std::unique_ptr<T, void (*)(void*)> data;
};

struct Weight {
  DType dtype;
  int64_t rows, columns;
  std::vector<std::byte> file;
  std::vector<float> values;  // dequantized
};

Weight make_weight(DType dtype, int64_t rows, int64_t columns, unsigned seed) {
  Weight weight = {.dtype = dtype, .rows = rows, .columns = columns, .file = {}, .values = {}};
  const auto elements = static_cast<size_t>(rows * columns);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> unit(-1, 1);
  weight.file.resize(dtype_bytes(dtype, elements));
  weight.values.resize(elements);
  if (is_quantized(dtype)) {
    const QuantTraits& traits = quant_traits(dtype);
    for (std::byte& byte : weight.file) byte = static_cast<std::byte>(random());
    for (size_t at = 0; at < weight.file.size(); at += static_cast<size_t>(traits.block_bytes)) {
      std::byte* const block = &weight.file[at];
      quant::store_scale(traits, unit(random) * 0.02f, block);
      const Half minimum(unit(random) * 0.02f);
      if (traits.has_minimum()) std::memcpy(block + traits.minimum_at, &minimum, 2);
    }
  } else {
    std::vector<float> values(elements);
    for (float& value : values) value = unit(random);
    quantize_row(dtype, values.data(), weight.file.data(), static_cast<int64_t>(elements));
  }
  for (int64_t row = 0; row < rows; ++row) {
    dequantize_codes(dtype,
                     weight.file.data() + static_cast<size_t>(row) * dtype_bytes(dtype, static_cast<size_t>(columns)),
                     &weight.values[static_cast<size_t>(row * columns)], columns);
  }
  return weight;
}

constexpr float kWordLevels = 8191;

// Operands as i16 codes, as the kernels document it: round to nearest, amax / levels over 32 consecutive k.
std::vector<double> quantized_to_words(const std::vector<float>& x) {
  std::vector<double> result(x.size());
  for (size_t first = 0; first + 32 <= x.size(); first += 32) {
    float peak = 0;
    for (size_t i = first; i < first + 32; ++i) peak = std::max(peak, std::fabs(x[i]));
    const float inverse = peak > 0 ? kWordLevels / peak : 0.0f;
    for (size_t i = first; i < first + 32; ++i) {
      result[i] = std::nearbyint(x[i] * inverse) * (static_cast<double>(peak) / kWordLevels);
    }
  }
  return result;
}

abi::TensorView view(std::vector<int64_t> shape, const void* data, DType dtype = DType::f32) {
  abi::TensorView result = {
      .data = const_cast<void*>(data), .rank = static_cast<int32_t>(shape.size()), .dtype = dtype};
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    result.shape[i] = shape[i];
    result.strides[i] = stride;
    stride *= shape[i];
  }
  return result;
}

class PerIsa : public testing::TestWithParam<const IsaTable*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supported()) GTEST_SKIP() << "this processor has no " << GetParam()->name;
  }

  std::unique_ptr<Kernel> find(const abi::KernelRequest& wanted) {
    const abi::StoredRequest stored_request(wanted, has_panels);
    const abi::KernelRequest& request = stored_request.get();
    for (const KernelEntry& entry : GetParam()->kernels) {
      if (!entry.has(request.op)) continue;
      if (auto kernel = entry.make(request, {.workers = pool_.workers()})) return kernel;
    }
    return nullptr;
  }

  void run(const char* op, std::vector<abi::TensorView> inputs, std::vector<abi::TensorView> outputs,
           std::vector<abi::Attribute> attributes = {}) {
    const abi::KernelRequest request = {op,
                                        inputs.data(),
                                        static_cast<int32_t>(inputs.size()),
                                        outputs.data(),
                                        static_cast<int32_t>(outputs.size()),
                                        attributes.data(),
                                        static_cast<int32_t>(attributes.size())};
    const auto kernel = find(request);
    ASSERT_NE(kernel, nullptr) << op;
    const Aligned<char> scratch(kernel->scratch_bytes);
    const abi::Launch launch = {.kernel = kernel.get(),
                                .inputs = inputs.data(),
                                .outputs = outputs.data(),
                                .input_count = static_cast<int32_t>(inputs.size()),
                                .output_count = static_cast<int32_t>(outputs.size()),
                                .scratch = scratch.data.get()};
    pool_.run([&](Worker& worker) { kernel->run(launch, worker); });
  }

  // The weight as an operand: packed into memory that `keep` holds if its format has a packed form, or in place.
  abi::TensorView operand(const Weight& weight, bool packed) {
    abi::TensorView result = view({weight.rows, weight.columns}, weight.file.data(), weight.dtype);
    if (packed && is_quantized(weight.dtype)) {
      keep_.emplace_back(GetParam()->packed_bytes(weight.dtype, weight.rows, weight.columns));
      result.data = keep_.back().data.get();
      result.layout = abi::Layout::kPacked;
      pool_.run([&](Worker& worker) {
        GetParam()->pack(weight.dtype, weight.rows, weight.columns, weight.file.data(), result.data, worker);
      });
    }
    return result;
  }

  ThreadPool pool_{3, 2};
  std::vector<Aligned<char>> keep_;
};

struct Case {
  int64_t tokens, columns;
  std::vector<int64_t> rows;  // of each matrix
  bool bias = false, norm = false;
  int epilogue = 0;
  bool packed = true;
  int64_t exact_tokens = 0;  // the most at which f16 and bf16 weights stay unchanged: see check()
};

std::vector<float> random_floats(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> normalized(const Case& c, const std::vector<float>& x, const std::vector<float>& weight) {
  std::vector<float> result(x.size());
  for (int64_t t = 0; t < c.tokens; ++t) {
    double squares = 0;
    for (int64_t k = 0; k < c.columns; ++k) squares += std::pow(x[static_cast<size_t>(t * c.columns + k)], 2.0);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(c.columns) + 1e-5);
    for (int64_t k = 0; k < c.columns; ++k) {
      const auto at = static_cast<size_t>(t * c.columns + k);
      result[at] = static_cast<float>(x[at] * factor * weight[static_cast<size_t>(k)]);
    }
  }
  return result;
}

// The double-precision result and the sum of the absolute products, by which rounding is measured.
struct Expected {
  double value = 0, size = 0;
  double rounding = 0;  // of weights, by the kernel
};

template <class T>
Expected product(const T* x, const T* weights, int64_t columns, float bias) {
  Expected sum = {.value = bias, .size = std::fabs(bias)};
  for (int64_t k = 0; k < columns; ++k) {
    const double term = static_cast<double>(x[k]) * weights[k];
    sum.value += term;
    sum.size += std::fabs(term);
  }
  return sum;
}

// Many tokens meet f16 and bf16 weights as 16-bit codes, where K allows it; quantized weights always meet such codes,
// and so do the other weights of their product from five tokens on.
bool is_weight_rounded(const Case& c, DType dtype) {
  const bool is_half = stored(dtype) == DType::f16 || dtype == DType::bf16;
  return is_half && c.tokens > c.exact_tokens && c.columns % 32 == 0;
}
bool is_x_rounded(const Case& c, DType dtype) { return is_quantized(stored(dtype)) || is_weight_rounded(c, dtype); }

// The kernels round a scale or two per group, each product's sum over a group, and the sum over the groups: at most
// columns/16 + 8 roundings relative to the sum of absolute values (K for plain weights). Formats with a minimum add up
// two large parts: the size counts weights as |code part| + |minimum part|, at most 4 times what is left here in random
// blocks. A normalized x may round to the neighboring code, which moves it by amax / kWordLevels. Few of the K inputs
// do, with either sign: their sum is below √K times the mean product of a weight and a code.
double tolerance(const Case& c, DType dtype, const Expected& expected) {
  const double roundings =
      is_quantized(stored(dtype)) ? static_cast<double>(c.columns) / 16 + 8 : static_cast<double>(c.columns);
  double result = 4 * roundings * kEpsilon * expected.size;
  if (c.norm && is_x_rounded(c, dtype))
    result += expected.size / std::sqrt(static_cast<double>(c.columns)) / kWordLevels;
  return result + expected.rounding + 1e-30;
}

// The largest step that rounding to codes within ±kWordLevels can move x · weights by: half a code of x, and of the
// weights where they are rounded.
double rounding_to_words(const float* x, const float* weights, int64_t columns, bool weights_too) {
  double sum = 0;
  for (int64_t first = 0; first < columns; first += 32) {
    double peaks[2] = {0, 0}, sums[2] = {0, 0};
    for (int64_t k = first; k < first + 32; ++k) {
      const double sizes[2] = {std::fabs(x[k]), std::fabs(weights[k])};
      for (int i = 0; i < 2; ++i) {
        peaks[i] = std::max(peaks[i], sizes[i]);
        sums[i] += sizes[i];
      }
    }
    const double half[2] = {peaks[0] / kWordLevels / 2, weights_too ? peaks[1] / kWordLevels / 2 : 0};
    sum += half[0] * sums[1] + half[1] * sums[0] + 32 * half[0] * half[1];
  }
  return sum;
}

class LinearTest : public PerIsa {
 protected:
  void check(Case c, const std::vector<DType>& dtypes) {
    const auto n = c.rows.size();
    const auto all = std::span(dtypes).first(std::min(n, dtypes.size()));
    c.exact_tokens = std::ranges::any_of(all, [](DType dtype) { return is_quantized(stored(dtype)); }) ? 4 : 16;
    const std::vector<float> x = random_floats(c.tokens * c.columns, 7);
    const std::vector<float> norm = random_floats(c.columns, 8), residual = random_floats(c.tokens * c.rows[0], 9);
    std::vector<Weight> weights;
    std::vector<std::vector<float>> biases, outputs;
    std::vector<abi::TensorView> inputs = {view({c.tokens, c.columns}, x.data())}, results;
    for (size_t m = 0; m < n; ++m) {
      weights.push_back(make_weight(dtypes[m % dtypes.size()], c.rows[m], c.columns, static_cast<unsigned>(10 + m)));
      biases.push_back(random_floats(c.rows[m], static_cast<unsigned>(20 + m)));
      outputs.emplace_back(static_cast<size_t>(c.tokens * c.rows[m]), std::numeric_limits<float>::quiet_NaN());
    }
    for (size_t m = 0; m < n; ++m) {
      inputs.push_back(operand(weights[m], c.packed));
      if (c.epilogue != 2 || m == 0) results.push_back(view({c.tokens, c.rows[m]}, outputs[m].data()));
    }
    for (size_t m = 0; c.bias && m < n; ++m) inputs.push_back(view({c.rows[m]}, biases[m].data()));
    if (c.norm) inputs.push_back(view({c.columns}, norm.data()));
    if (c.epilogue == 1) inputs.push_back(view({c.tokens, c.rows[0]}, residual.data()));
    run("linear_fused", inputs, results,
        {{"n", abi::AttributeKind::kInteger, static_cast<int64_t>(n), 0, nullptr},
         {"bias", abi::AttributeKind::kInteger, c.bias, 0, nullptr},
         {"norm", abi::AttributeKind::kInteger, c.norm, 0, nullptr},
         {"epsilon", abi::AttributeKind::kReal, 0, 1e-5, nullptr},
         {"epilogue", abi::AttributeKind::kInteger, c.epilogue, 0, nullptr}});
    const std::vector<float> plain = c.norm ? normalized(c, x, norm) : x;
    const std::vector<double> words = quantized_to_words(plain);
    std::vector<std::vector<double>> weight_words;
    for (const Weight& weight : weights) {
      weight_words.push_back(is_weight_rounded(c, weight.dtype)
                                 ? quantized_to_words(weight.values)
                                 : std::vector<double>(weight.values.begin(), weight.values.end()));
    }
    const auto expect = [&](size_t m, int64_t t, int64_t row) {
      const float bias = c.bias ? biases[m][static_cast<size_t>(row)] : 0.0f;
      const auto x_at = static_cast<size_t>(t * c.columns), w_at = static_cast<size_t>(row * c.columns);
      const float* const w = &weights[m].values[w_at];
      const Expected exact = product(&plain[x_at], w, c.columns, bias);
      if (!is_x_rounded(c, weights[m].dtype)) return exact;
      Expected rounded = product(&words[x_at], &weight_words[m][w_at], c.columns, bias);
      const double rounding = rounding_to_words(&plain[x_at], w, c.columns, is_weight_rounded(c, weights[m].dtype));
      // More tokens than meet packed weights meet E4M3 codes rounded to half a step of 2^-12 of a power of two.
      if (weights[m].dtype == DType::fp8_e4m3 && c.tokens > 16)
        rounded.rounding = 2 * rounding_to_words(&plain[x_at], w, c.columns, true);
      EXPECT_NEAR(rounded.value, exact.value, rounding + static_cast<double>(c.columns) * kEpsilon * exact.size);
      return rounded;
    };
    for (size_t m = 0; m < results.size(); ++m) {
      for (int64_t t = 0; t < c.tokens; ++t) {
        for (int64_t row = 0; row < c.rows[m]; ++row) {
          const auto at = static_cast<size_t>(t * c.rows[m] + row);
          const Expected y = expect(m, t, row);
          double value = y.value, allowed = tolerance(c, weights[m].dtype, y);
          if (c.epilogue == 1) {
            value += residual[at];
            allowed += kEpsilon * std::fabs(value);
          } else if (c.epilogue == 2) {
            const Expected up = expect(1, t, row);
            const double gate = y.value / (1 + std::exp(-y.value));
            value = gate * up.value;  // silu' is within ±1.1
            allowed = 1.1 * allowed * std::fabs(up.value) + std::fabs(gate) * tolerance(c, weights[1].dtype, up) +
                      1.1 * allowed * tolerance(c, weights[1].dtype, up) + 8 * kEpsilon * std::fabs(value);
          }
          ASSERT_NEAR(outputs[m][at], value, allowed)
              << dtype_name(weights[m].dtype) << " T=" << c.tokens << " K=" << c.columns << " N=" << c.rows[m]
              << " token " << t << " row " << row << " epilogue " << c.epilogue << " packed " << c.packed;
        }
      }
    }
    keep_.clear();
  }
};

int64_t block(DType dtype) { return std::max<int64_t>(32, dtype_info(dtype).block_elements); }

TEST_P(LinearTest, EveryFormatAndTokenCount) {
  for (DType dtype : weight_types()) {
    for (int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 65}) {
      check({.tokens = tokens, .columns = 3 * block(dtype), .rows = {31}}, {dtype});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(LinearTest, OddRowsAndOneBlock) {
  for (DType dtype : weight_types()) {
    for (int64_t rows : {1, 15, 16, 17, 49}) {
      for (int64_t tokens : {1, 7}) {
        check({.tokens = tokens, .columns = block(dtype), .rows = {rows}, .bias = true}, {dtype});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(LinearTest, PlainWeightsOfAnyWidth) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (int64_t columns : {1, 2, 3, 5, 17, 67}) {
      for (int64_t tokens : {1, 3, 6, 30}) {
        check({.tokens = tokens, .columns = columns, .rows = {33}, .norm = true}, {dtype});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(LinearTest, FusedWithNormBiasAndEpilogues) {
  for (DType dtype : weight_types()) {
    for (int64_t tokens : {1, 4, 8, 13, 18}) {
      const int64_t columns = 2 * block(dtype);
      check({.tokens = tokens, .columns = columns, .rows = {48, 17, 33}, .bias = true, .norm = true}, {dtype});
      check({.tokens = tokens, .columns = columns, .rows = {33}, .bias = true, .epilogue = 1}, {dtype});
      check({.tokens = tokens, .columns = columns, .rows = {33, 33}, .norm = true, .epilogue = 2}, {dtype});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(LinearTest, MatricesOfDifferentFormats) {
  for (int64_t tokens : {1, 3, 8, 11, 25}) {
    check({.tokens = tokens, .columns = 512, .rows = {32, 17, 64, 16}, .norm = true},
          {DType::q4_k, DType::q6_k, DType::f16, DType::q5_0});
    check({.tokens = tokens, .columns = 256, .rows = {40, 40}, .epilogue = 2}, {DType::q8_0, DType::bf16});
    check({.tokens = tokens, .columns = 256, .rows = {40, 40}, .bias = true, .epilogue = 2}, {DType::f32, DType::f16});
    if (HasFatalFailure()) return;
  }
}

TEST_P(LinearTest, WeightsInPlace) {
  for (DType dtype : weight_types()) {
    if (stored(dtype) != dtype) continue;  // the composition dequantizes them
    for (int64_t tokens : {1, 6}) {
      check({.tokens = tokens, .columns = 2 * block(dtype), .rows = {35}, .packed = false}, {dtype});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(LinearTest, TransposedPlainWeight) {
  const std::vector<float> x = random_floats(2 * 5, 1), w = random_floats(5 * 3, 2);
  std::vector<float> y(2 * 3);
  abi::TensorView weight = view({3, 5}, w.data());
  weight.strides[0] = 1;
  weight.strides[1] = 3;
  run("linear", {view({2, 5}, x.data()), weight}, {view({2, 3}, y.data())});
  for (size_t t = 0; t < 2; ++t) {
    for (size_t n = 0; n < 3; ++n) {
      double sum = 0;
      for (size_t k = 0; k < 5; ++k) sum += static_cast<double>(x[t * 5 + k]) * w[k * 3 + n];
      EXPECT_NEAR(y[t * 3 + n], sum, 5 * 8 * kEpsilon);
    }
  }
}

TEST_P(LinearTest, ATokenThatIsNotFiniteSpoilsNoOther) {
  constexpr float kBad[] = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f};
  for (DType dtype : weight_types()) {
    for (int64_t tokens : {2, 14, 18}) {
      const int64_t columns = block(dtype);
      const Weight weight = make_weight(dtype, 20, columns, 5);
      const abi::TensorView operand_view = operand(weight, true);
      for (float bad : kBad) {
        std::vector<float> x = random_floats(tokens * columns, 6), y(static_cast<size_t>(tokens * 20)), clean = y;
        run("linear", {view({tokens, columns}, x.data()), operand_view}, {view({tokens, 20}, clean.data())});
        x[static_cast<size_t>(columns + 3)] = bad;
        run("linear", {view({tokens, columns}, x.data()), operand_view}, {view({tokens, 20}, y.data())});
        for (size_t row = 0; row < 20; ++row) {
          EXPECT_EQ(y[row], clean[row]);
          if (std::isnan(bad)) {
            EXPECT_TRUE(std::isnan(y[20 + row])) << dtype_name(dtype);
          }
        }
      }
      keep_.clear();
    }
  }
}

// Groups of zeros, and of values whose reciprocal no float holds, count as zeros in both operands.
TEST_P(LinearTest, WordsOfNoSize) {
  constexpr int64_t kTokens = 6, kColumns = 96, kRows = 17;
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (float tiny : {0.0f, 1e-37f, 1e-42f}) {
      Weight weight = make_weight(dtype, kRows, kColumns, 5);
      std::vector<float> x = random_floats(kTokens * kColumns, 6), y(kTokens * kRows);
      for (size_t k = 0; k < 32; ++k) x[kColumns + k] = weight.values[2 * kColumns + 32 + k] = tiny;
      for (size_t k = 0; k < kColumns; ++k) x[4 * kColumns + k] = weight.values[3 * kColumns + k] = 0;
      quantize_row(dtype, weight.values.data(), weight.file.data(), kRows * kColumns);
      run("linear", {view({kTokens, kColumns}, x.data()), operand(weight, true)}, {view({kTokens, kRows}, y.data())});
      for (size_t t = 0; t < kTokens; ++t) {
        for (size_t row = 0; row < kRows; ++row) {
          const float *a = &x[t * kColumns], *b = &weight.values[row * kColumns];
          EXPECT_NEAR(y[t * kRows + row], product(a, b, kColumns, 0).value,
                      1.1 * rounding_to_words(a, b, kColumns, true));
          if (t == 4 || row == 3) {
            EXPECT_EQ(y[t * kRows + row], 0);
          }
        }
      }
      keep_.clear();
    }
  }
}

TEST_P(LinearTest, AWeightThatIsNotFiniteSpoilsItsRowAlone) {
  constexpr int64_t kTokens = 14, kColumns = 64, kRows = 20;
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Weight weight = make_weight(dtype, kRows, kColumns, 5);
      const std::vector<float> x = random_floats(kTokens * kColumns, 6);
      std::vector<float> y(kTokens * kRows), clean = y;
      run("linear", {view({kTokens, kColumns}, x.data()), operand(weight, true)},
          {view({kTokens, kRows}, clean.data())});
      weight.values[3 * kColumns + 40] = bad;
      quantize_row(dtype, weight.values.data(), weight.file.data(), kRows * kColumns);
      run("linear", {view({kTokens, kColumns}, x.data()), operand(weight, true)}, {view({kTokens, kRows}, y.data())});
      for (size_t i = 0; i < y.size(); ++i) {
        if (i % kRows == 3) {
          EXPECT_FALSE(std::isfinite(y[i])) << i;
        } else {
          EXPECT_EQ(y[i], clean[i]) << i;
        }
      }
      keep_.clear();
    }
  }
}

TEST_P(LinearTest, EmbeddingAndDequantizeGiveTheFileValues) {
  for (DType dtype : weight_types()) {
    for (bool packed : {true, false}) {
      const int64_t columns = 2 * block(dtype);
      Weight weight = make_weight(dtype, 37, columns, 3);
      if (!packed) dequantize_row(dtype, weight.file.data(), weight.values.data(), std::ssize(weight.values));
      const abi::TensorView operand_view = operand(weight, packed);
      const std::vector<int32_t> ids = {36, 0, 15, 16, -22, -1};
      const size_t rows[] = {36, 0, 15, 16, 15, 36};  // negative ids count from the end
      std::vector<float> y(ids.size() * static_cast<size_t>(columns)), all(weight.values.size());
      run("embedding", {operand_view, view({6}, ids.data(), DType::i32)}, {view({6, columns}, y.data())});
      run("dequantize", {operand_view}, {view({37, columns}, all.data())});
      for (size_t i = 0; i < y.size(); ++i) {
        const auto row = rows[i / static_cast<size_t>(columns)], k = i % static_cast<size_t>(columns);
        // The decoder may round scale · sub-scale once more or less than the other.
        const float expected = weight.values[row * static_cast<size_t>(columns) + k];
        EXPECT_EQ(y[i], expected) << dtype_name(dtype) << " packed " << packed << " element " << i;
      }
      EXPECT_EQ(all, weight.values) << dtype_name(dtype) << " packed " << packed;
      keep_.clear();
    }
  }
}

TEST_P(LinearTest, RefusesWhatItCannotDo) {
  const std::vector<float> data(4096);
  const auto refuses = [&](std::vector<abi::TensorView> inputs, abi::TensorView output) {
    return find({.op = "linear",
                 .inputs = inputs.data(),
                 .input_count = static_cast<int32_t>(inputs.size()),
                 .outputs = &output,
                 .output_count = 1}) == nullptr;
  };
  const abi::TensorView x = view({2, 48}, data.data()), y = view({2, 4}, data.data());
  EXPECT_FALSE(refuses({x, view({4, 48}, data.data())}, y));
  EXPECT_TRUE(refuses({x, view({4, 48}, data.data(), DType::q4_0)}, y)) << "a partial block";
  EXPECT_TRUE(refuses({x, view({4, 48}, data.data(), DType::i32)}, y));
  EXPECT_TRUE(refuses({x, view({4, 32}, data.data())}, y)) << "another K";
  EXPECT_TRUE(refuses({x, view({5, 48}, data.data())}, y)) << "another N";
  EXPECT_TRUE(refuses({x, view({4, 48}, data.data()), view({5}, data.data())}, y)) << "a bias of another length";
}

INSTANTIATE_TEST_SUITE_P(Isa, LinearTest, testing::ValuesIn(isa_tables().begin(), isa_tables().end()),
                         [](const auto& isa) { return isa.param->name; });

}  // namespace
}  // namespace gabbro::cpu
