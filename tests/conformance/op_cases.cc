#include "tests/conformance/op_cases.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "src/base/half.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quant/random_blocks.h"
#include "src/ops/kv_type.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::conformance {
namespace {

constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of f32

// The error of a sum of `terms` products, added in any order: (terms + 8) · epsilon, with room for the functions around
// it.
double summed(int64_t terms) { return 4 * kEpsilon * static_cast<double>(terms + 8); }

// Integer dot products round the activations to 8 bits: an error of up to half a step of at most amax/127 on each,
// independent, so that a sum with the weights w is off by a standard deviation of amax/127/sqrt(12) · |w|. 6 of them.
constexpr double kEightBits = 6 / 127.0 / 3.4641016;

// The matrix, in whatever format, as f32.
std::vector<float> rows_of(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0];
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  const Tensor every_row = matrix.device()->upload(DType::i32, Shape{rows}, ids.data());
  return to_host<float>(record(kEmbedding, {matrix, every_row}, {}));
}

// amax · |w| of the row with the largest norm.
double eight_bit_magnitude(const std::vector<Tensor>& inputs) {
  const int64_t columns = inputs[1].shape()[1];
  const std::vector<float> weights = rows_of(inputs[1]);
  double largest = 0;
  for (auto row = weights.begin(); row != weights.end(); row += columns)
    largest = std::max(largest, std::inner_product(row, row + columns, row, 0.0));
  double amax = 0;
  for (const float x : to_host<float>(inputs[0])) amax = std::max(amax, std::fabs(static_cast<double>(x)));
  return amax * std::sqrt(largest);
}

// The largest root of a sum's squared products: what the result is like, unless it happens to cancel.
double products_magnitude(const std::vector<Tensor>& inputs) {
  const int64_t columns = inputs[1].shape()[1];
  const std::vector<float> x = to_host<float>(inputs[0]), weights = rows_of(inputs[1]);
  double largest = 0;
  for (auto token = x.begin(); token != x.end(); token += columns) {
    for (auto row = weights.begin(); row != weights.end(); row += columns) {
      const double squares = std::inner_product(token, token + columns, row, 0.0, std::plus<>(),
                                                [](double a, double b) { return a * b * a * b; });
      largest = std::max(largest, squares);
    }
  }
  return std::sqrt(largest);
}

// Activations are rounded to f16, as for several tokens with f16 or bf16 weights: each product
// is off by at most 2^-11 of itself. 6 standard deviations of what such errors add up to.
constexpr double kSixteenBits = 6 * 0x1p-11 / 1.7320508;

// The queries of 64 tokens or more, and their probabilities, may be rounded to f16: each an error of at most 2^-11,
// which the sums over D and over the keys do not amplify.
constexpr double kF16Rounding = 1.4142136 * 0x1p-11;

void norm_cases(std::vector<OpCase>& cases) {
  for (const int64_t columns : {1, 15, 16, 17, 31, 64, 65, 576}) {
    for (const int64_t rows : {1, 3}) {
      cases.push_back({.name = fmt::format("rms_norm {}x{}", rows, columns),
                       .op = &kRmsNorm,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{m.normal(Shape{rows, columns}), m.normal(Shape{columns})};
                           },
                       .attributes = {{"epsilon", 1e-5}},
                       .tolerance = summed(columns)});
      cases.push_back({.name = fmt::format("softmax {}x{}", rows, columns),
                       .op = &kSoftmax,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{m.normal(Shape{rows, columns}, 5)};
                           },
                       .attributes = {},
                       .tolerance = summed(columns) + 16 * kEpsilon});
    }
  }
  for (const int64_t count : {0, 1, 17, 1000}) {
    cases.push_back({.name = fmt::format("silu {}", count),
                     .op = &kSilu,
                     .inputs = [=](Maker& m) { return std::vector{m.normal(Shape{count}, 4)}; },
                     .attributes = {},
                     .tolerance = 16 * kEpsilon});
  }
}

// f16 and bf16: few rows, and several blocks of rows and along K.
void matmul_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const double rounding = dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    for (const auto& [a, b] : {std::pair<Shape, Shape>{{1, 1}, {1, 1}},
                               {{5, 7}, {7, 3}},
                               {{33, 64}, {64, 17}},
                               {{3, 5, 8}, {3, 8, 9}},
                               {{2, 3, 4, 16}, {2, 3, 16, 5}},
                               {{70, 40}, {40, 130}},
                               {{3, 34}, {34, 19}},
                               {{403, 5}, {5, 40}},
                               {{13, 1029}, {1029, 35}}}) {
      for (const bool transposed : {false, true}) {  // both factors are stored transposed
        cases.push_back({.name = fmt::format("matmul {} {} {} {}", dtype_name(dtype), a.to_string(), b.to_string(),
                                             transposed ? "transposed" : ""),
                         .op = &kMatmul,
                         .inputs =
                             [=, a = a, b = b](Maker& m) {
                               const auto factor = [&](const Shape& shape) {
                                 const Tensor plain = cast(m.normal(shape), dtype);
                                 if (!transposed) return plain;
                                 Tensor other = matrix_transpose(plain);
                                 eval(std::span(&other, 1));
                                 other = other + full(other.device(), Shape{}, 0, dtype);  // contiguous
                                 return matrix_transpose(other);
                               };
                               return std::vector{factor(a), factor(b)};
                             },
                         .attributes = {},
                         .tolerance = rounding + summed(a[a.rank() - 1]),
                         .lowered = true});
      }
    }
  }
}

void linear_cases(std::vector<OpCase>& cases) {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    const bool quantized = is_quantized(dtype), words = dtype == DType::f16 || dtype == DType::bf16;
    if (!quantized && dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) continue;
    const int64_t columns = 3 * std::max<int64_t>(dtype_info(dtype).block_elements, dtype == DType::f32 ? 21 : 32);
    const auto add = [&](int64_t tokens, int64_t rows, int64_t depth) {
      cases.push_back({.name = fmt::format("linear {} {}x{}x{}", dtype_name(dtype), tokens, rows, depth),
                       .op = &kLinear,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{m.normal(Shape{tokens, depth}), m.weights(dtype, rows, depth),
                                                m.normal(Shape{rows})};
                           },
                       .attributes = {},
                       .tolerance = quantized ? kEightBits : summed(depth) + (words && tokens > 4 ? kSixteenBits : 0),
                       .magnitude = quantized ? eight_bit_magnitude : products_magnitude});
    };
    for (const int64_t rows : {1, 15, 33}) {
      for (const int64_t tokens : {1, 2, 5, 40}) add(tokens, rows, columns);
    }
    for (const int64_t tokens : {9, 17, 33, 100}) add(tokens, tokens == 17 ? 131 : 65, columns / 3);
    add(129, 15, columns);
    for (const int64_t tokens : {3, 16, 31, 64}) add(tokens, 70, columns);  // a small batch, of several tiles of rows
    // Blocks that split K, whose last part is shorter. Larger formats have enough columns above.
    for (const int64_t tokens : {8, 9, 31}) {
      if (columns < 256) add(tokens, 70, 3 * columns);
    }
    if (words) add(9, 17, 40);
    if (words) add(17, 19, 45);
    cases.push_back({.name = fmt::format("embedding {}", dtype_name(dtype)),
                     .op = &kEmbedding,
                     .inputs =
                         [=](Maker& m) {
                           return std::vector{m.weights(dtype, 19, columns), m.ints(Shape{5}, [](int64_t i) {
                                                return static_cast<int32_t>(i * 7 % 19);
                                              })};
                         },
                     .attributes = {},
                     .tolerance = 4 * kEpsilon});
  }
}

// Tokens T, experts of a token U, of all E, rows of an expert N; K columns, and whether each expert has an x.
struct ExpertShape {
  int64_t tokens, used, experts, rows;
  bool own_rows;
  bool on_one;  // all tokens go to one expert; else to neighboring ones, and some experts get none
};

void expert_cases(std::vector<OpCase>& cases) {
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_k, DType::q6_k, DType::mxfp4, DType::iq4_nl}) {
    const bool quantized = is_quantized(dtype), words = dtype == DType::f16 || dtype == DType::bf16;
    const int64_t columns = 2 * std::max<int64_t>(dtype_info(dtype).block_elements, dtype == DType::f32 ? 21 : 32);
    for (const ExpertShape& s : {ExpertShape{1, 2, 5, 16, false, false},
                                 {1, 1, 1, 33, true, true},
                                 {2, 3, 7, 15, true, false},
                                 {7, 2, 9, 33, false, false},
                                 {33, 2, 3, 48, true, false},
                                 {33, 4, 8, 15, false, true},
                                 {65, 2, 40, 17, true, false},
                                 {150, 2, 4, 64, false, false}}) {
      cases.push_back(
          {.name = fmt::format("expert_linear {} {}x{} of {} {}x{}{}{}", dtype_name(dtype), s.tokens, s.used, s.experts,
                               s.rows, columns, s.own_rows ? " own rows" : "", s.on_one ? " on one" : ""),
           .op = &kExpertLinear,
           .inputs =
               [=](Maker& m) {
                 const Shape x = s.own_rows ? Shape{s.tokens, s.used, columns} : Shape{s.tokens, columns};
                 return std::vector{
                     m.normal(x), m.weights(dtype, s.experts * s.rows, columns),
                     m.ints(Shape{s.tokens, s.used}, [=](int64_t i) {
                       const int64_t token = i / s.used, used = i % s.used;
                       return static_cast<int32_t>(s.on_one ? s.experts - 1 : (token * token + 3 * used) % s.experts);
                     })};
               },
           .attributes = {{"experts", s.experts}},
           .tolerance = quantized ? kEightBits : summed(columns) + (words ? kSixteenBits : 0),
           .magnitude = quantized ? eight_bit_magnitude : products_magnitude});
    }
  }
}

void rope_cases(std::vector<OpCase>& cases) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t dim : {2, 16, 64, 80}) {
      const int64_t half = dim == 80 ? 16 : dim / 2;  // 80: only a part of the head is rotated
      cases.push_back({.name = fmt::format("rope {} D={}", interleaved ? "interleaved" : "half rotation", dim),
                       .op = &kRope,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{
                                 m.normal(Shape{3, 5, dim}),
                                 m.ints(Shape{3}, [](int64_t i) { return static_cast<int32_t>(i * 100); }),
                                 m.normal(Shape{half}, 0.1f)};
                           },
                       .attributes = {{"interleaved", int64_t{interleaved}}, {"magnitude", 1.25}},
                       .tolerance = 200 * 64 * kEpsilon});  // the angle itself is rounded: |angle| up to about 64
    }
  }
}

struct AttentionShape {
  int64_t tokens, heads, kv_heads, dim, page, start, window;
  double softcap;
  DType type;          // of the cache's elements
  bool mixed = false;  // tokens of two sequences, in turn
  int64_t chunk = 0;
  bool sinks = false;
};

void attention_cases(std::vector<OpCase>& cases) {
  const AttentionShape shapes[] = {
      {1, 1, 1, 16, 16, 0, 0, 0, DType::f16},
      {1, 9, 3, 64, 64, 130, 0, 0, DType::f16},
      {7, 4, 2, 32, 16, 20, 0, 0, DType::f16},
      {40, 6, 3, 64, 64, 100, 0, 0, DType::f16},
      {5, 4, 4, 24, 32, 90, 17, 0, DType::f16},
      {33, 2, 1, 128, 64, 0, 0, 30, DType::f16},
      {1, 8, 2, 64, 64, 200, 0, 0, DType::i8},
      {19, 4, 2, 32, 32, 60, 25, 0, DType::i8},
      {2, 4, 2, 32, 64, 2000, 0, 0, DType::f16},
      {1, 8, 2, 64, 64, 1500, 0, 30, DType::i8},
      {1, 2, 1, 64, 64, 1700, 300, 0, DType::f16},
      {64, 4, 2, 64, 64, 0, 0, 0, DType::f16},
      {70, 6, 2, 40, 16, 5, 0, 0, DType::f16},
      {66, 7, 1, 80, 64, 70, 41, 0, DType::f16},
      {100, 2, 2, 64, 32, 3, 0, 0, DType::i8},
      {65, 3, 1, 128, 16, 130, 0, 20, DType::f16},
      {64, 2, 1, 128, 64, 1100, 0, 0, DType::f16},
      {65, 2, 1, 96, 64, 600, 300, 0, DType::i8},
      {64, 2, 1, 256, 16, 40, 0, 0, DType::f16},
      {64, 2, 1, 18, 16, 40, 0, 0, DType::f16},
      {77, 4, 2, 32, 16, 40, 0, 0, DType::f16, true},
      {67, 4, 1, 64, 64, 90, 30, 0, DType::i8, true},
      {23, 4, 1, 64, 64, 90, 30, 0, DType::i8, true},
      {1, 8, 2, 64, 64, 200, 0, 0, DType::f16, false, 0, true},
      {1, 4, 2, 32, 32, 1700, 0, 0, DType::i8, false, 48, true},
      {1, 2, 1, 256, 16, 300, 0, 0, DType::f16, false, 0, true},
      {19, 4, 2, 24, 32, 60, 25, 0, DType::f16, false, 0, true},
      {70, 6, 2, 40, 16, 5, 0, 0, DType::f16, false, 32, true},
      {66, 4, 1, 64, 64, 1100, 0, 0, DType::i8, false, 0, true},
      {40, 4, 2, 64, 64, 30, 0, 0, DType::f16, true, 17, false},
      {1, 9, 3, 64, 64, 130, 0, 0, DType::f32},
      {40, 6, 3, 40, 64, 100, 0, 0, DType::f32},
      {66, 4, 2, 64, 64, 70, 41, 0, DType::f32, true, 0, true},
      {1, 2, 1, 40, 32, 1700, 300, 0, DType::bf16},
      {70, 2, 1, 256, 16, 40, 0, 30, DType::bf16},
      {7, 4, 2, 32, 16, 20, 0, 0, DType::u8},
      {1, 8, 2, 64, 64, 1500, 0, 0, DType::u8},
      {66, 4, 2, 96, 64, 70, 0, 0, DType::u8, true, 17, true},
  };
  for (const AttentionShape& s : shapes) {
    cases.push_back(
        {.name = fmt::format("attention T={} H={} G={} D={} P={} start={} window={} softcap={} {}{}", s.tokens, s.heads,
                             s.kv_heads, s.dim, s.page, s.start, s.window, s.softcap, dtype_name(s.type),
                             s.mixed ? " of two sequences" : "") +
                 (s.chunk > 0 ? fmt::format(" chunk={}", s.chunk) : "") + (s.sinks ? " with sinks" : ""),
         .op = &kAttention,
         .inputs =
             [s](Maker& m) {
               const int64_t pages = (s.start + s.tokens + s.page - 1) / s.page;
               const int64_t stored = stored_length(s.type, s.dim);
               const Shape keys{pages + 2, s.kv_heads, stored, s.page};
               const Shape values{pages + 2, s.kv_heads, s.page, stored};
               std::vector<Tensor> inputs{
                   m.normal(Shape{s.tokens, s.heads, s.dim}),
                   m.cached(s.type, keys),
                   m.cached(s.type, values),
                   m.ints(Shape{2, pages},
                          [=](int64_t i) { return static_cast<int32_t>(i < pages ? i : pages + 1 - i % pages); }),
                   m.ints(Shape{s.tokens}, [=](int64_t i) { return s.mixed ? static_cast<int32_t>(i / 5 % 2) : 1; }),
                   m.ints(Shape{s.tokens}, [=](int64_t i) { return static_cast<int32_t>(s.start + i); })};
               if (has_kv_scales(s.type)) {
                 inputs.push_back(m.f16(Shape{pages + 2, s.kv_heads, s.dim / 32, s.page}, 0.01f));
                 inputs.push_back(m.f16(Shape{pages + 2, s.kv_heads, s.page, s.dim / 32}, 0.01f));
               }
               if (s.sinks) inputs.push_back(m.normal(Shape{s.heads}, 2));
               return inputs;
             },
         .attributes = {{"scale", 1 / std::sqrt(static_cast<double>(s.dim))},
                        {"window", s.window},
                        {"chunk", s.chunk},
                        {"sinks", int64_t{s.sinks}},
                        {"softcap", s.softcap}},
         // Scores have an error of D terms times their size (up to about 6), which exp turns into a relative one.
         .tolerance = 8 * summed(s.dim) + summed(s.start + s.tokens) + (s.tokens >= 64 ? kF16Rounding : 0)});
  }
}

struct LatentShape {
  int64_t tokens, heads, dim, values, page, start;
  DType type;  // of the cache's elements
};

void latent_attention_cases(std::vector<OpCase>& cases) {
  const LatentShape shapes[] = {
      {1, 5, 24, 16, 16, 0, DType::f16},      {1, 16, 72, 64, 64, 700, DType::f16},
      {7, 3, 40, 32, 32, 20, DType::f16},     {33, 4, 64, 40, 64, 90, DType::i8},
      {1, 20, 576, 512, 64, 130, DType::f16}, {2, 9, 576, 512, 64, 61, DType::i8},
      {1, 9, 576, 512, 64, 130, DType::f32},  {7, 3, 42, 32, 32, 20, DType::f32},
      {3, 9, 40, 32, 16, 700, DType::bf16},   {5, 4, 64, 40, 64, 90, DType::u8},
  };
  for (const LatentShape& s : shapes) {
    cases.push_back(
        {.name = fmt::format("latent_attention T={} H={} D={} V={} P={} start={} {}", s.tokens, s.heads, s.dim,
                             s.values, s.page, s.start, dtype_name(s.type)),
         .op = &kLatentAttention,
         .inputs =
             [s](Maker& m) {
               const int64_t pages = (s.start + s.tokens + s.page - 1) / s.page;
               const Tensor latents = m.cached(s.type, Shape{pages + 2, 1, s.page, stored_length(s.type, s.dim)});
               std::vector<Tensor> inputs{
                   m.normal(Shape{s.tokens, s.heads, s.dim}),
                   latents,
                   latents,
                   m.ints(Shape{2, pages}, [=](int64_t i) { return static_cast<int32_t>(pages + 1 - i % pages); }),
                   m.ints(Shape{s.tokens}, [](int64_t i) { return static_cast<int32_t>(i / 5 % 2); }),
                   m.ints(Shape{s.tokens}, [=](int64_t i) { return static_cast<int32_t>(s.start + i); })};
               if (has_kv_scales(s.type)) {
                 const Tensor scales = m.f16(Shape{pages + 2, 1, s.page, s.dim / 32}, 0.01f);
                 inputs.insert(inputs.end(), {scales, scales});
               }
               return inputs;
             },
         .attributes = {{"scale", 1 / std::sqrt(static_cast<double>(s.dim))}, {"values", s.values}},
         // As of attention; the GPU's kernel rounds what i8 latents are to f16.
         .tolerance = 8 * summed(s.dim) + summed(s.start + s.tokens) + (s.type == DType::i8 ? kF16Rounding : 0)});
  }
}

}  // namespace

double rms(const std::vector<float>& a, const std::vector<float>* minus) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - (minus ? (*minus)[i] : 0);
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(a.size()));
}

Tensor Maker::normal(const Shape& shape, float deviation) {
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = distribution(random_);
  return device_->upload(DType::f32, shape, values.data());
}

Tensor Maker::f16(const Shape& shape, float deviation) {
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<uint16_t> values(static_cast<size_t>(shape.elements()));
  for (uint16_t& value : values) value = float_to_half_bits(distribution(random_));
  return device_->upload(DType::f16, shape, values.data());
}

Tensor Maker::cached(DType dtype, const Shape& shape) {
  if (dtype == DType::f32) return normal(shape);
  if (dtype == DType::f16) return f16(shape, 1);
  if (dtype == DType::bf16) return cast(normal(shape), dtype);
  const int least = dtype == DType::i8 ? -127 : 0;
  std::vector<uint8_t> values(static_cast<size_t>(shape.elements()));
  for (uint8_t& value : values) value = static_cast<uint8_t>(least + static_cast<int>(random_() % 255));
  return device_->upload(dtype, shape, values.data());
}

Tensor Maker::ints(const Shape& shape, const std::function<int32_t(int64_t)>& at) {
  std::vector<int32_t> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = at(static_cast<int64_t>(i));
  return device_->upload(DType::i32, shape, values.data());
}

Tensor Maker::weights(DType dtype, int64_t rows, int64_t columns) {
  const auto count = static_cast<size_t>(rows * columns);
  const auto data = std::make_shared<std::vector<std::byte>>(dtype_bytes(dtype, count));
  if (!is_quantized(dtype) || quant_format(dtype).encode != nullptr) {
    std::normal_distribution<float> distribution(0, 0.1f);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random_);
    quantize_row(dtype, values.data(), data->data(), static_cast<int64_t>(count));
  } else {
    fill_random(dtype, *data, 0.1f, random_());
  }
  return device_->upload_matrix(dtype, rows, columns, {data, data->data()});
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  norm_cases(cases);
  matmul_cases(cases);
  linear_cases(cases);
  expert_cases(cases);
  rope_cases(cases);
  attention_cases(cases);
  latent_attention_cases(cases);
  add_family_cases(cases);
  add_window_cases(cases);
  return cases;
}

}  // namespace gabbro::conformance
