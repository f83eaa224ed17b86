// Cases of the kernel families outside of a language model's layer.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "gabbro/ops/recurrent.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

constexpr double kEpsilon = 0x1p-24;

// The error of a sum of `terms`, added in any order, with room for the functions around it; and, if a result is rounded
// to f16 or bf16, that a value near the middle of two neighbors may fall to either side.
double summed(int64_t terms, DType dtype) {
  const double rounding = dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0;
  return 4 * kEpsilon * static_cast<double>(terms + 16) + rounding;
}

// The largest |x|: the error of x · (1 + erf(x / √2)), say, where the two cancel.
double largest_input(const std::vector<Tensor>& inputs) {
  double largest = 0;
  for (const float x : to_host<float>(cast(inputs[0], DType::f32)))
    largest = std::max(largest, std::fabs(static_cast<double>(x)));
  return largest;
}

// f16 and bf16 inputs with f32 results. Reductions that all backends have need no composition.
void reduction_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Op* op : {&kSum, &kMax, &kMin, &kProd, &kArgmax, &kArgmin}) {
      for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                          {3, 7},
                                          {5, 64},
                                          {2, 1001},
                                          {3, 1032},
                                          {1, 20000},
                                          {1, 20001},
                                          {70, 5},
                                          {40, 130}}) {
        for (const bool across : {false, true}) {  // rows with a stride, whose columns are contiguous
          cases.push_back({.name = fmt::format("{} {} {}x{}{}", op->name, dtype_name(dtype), rows, columns,
                                               across ? " across" : ""),
                           .op = op,
                           .inputs =
                               [=](Maker& m) {
                                 const float deviation = op == &kProd ? 0.1f : 2;
                                 Tensor x = m.normal(across ? Shape{columns, rows} : Shape{rows, columns}, deviation);
                                 if (op == &kProd) x = x + full(x.device(), Shape{}, 1, DType::f32);
                                 x = cast(x, dtype);
                                 eval(std::span(&x, 1));
                                 return std::vector{across ? permute(x, {1, 0}) : x};
                               },
                           .attributes = {},
                           .tolerance = summed(columns, DType::f32)});
        }
      }
    }
  }
}

void norm_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1},
          {3, 31},
          {1, 64},
          {5, 65},
          {2, 1009},
          {300, 7},
          {1, 20011},
          // Whole packs, for a wave, blocks of three sizes, and rows that do not fit in registers.
          {9, 128},
          {11, 1016},
          {11, 1280},
          {3, 2040},
          {3, 4088},
          {2, 8192},
          {2, 12288},
          {2, 16416}}) {
      const auto x = [=](Maker& m) { return cast(m.normal(Shape{rows, columns}, 3), dtype); };
      const std::string name = fmt::format("{} {}x{}", dtype_name(dtype), rows, columns);
      cases.push_back({.name = "log_softmax " + name,
                       .op = &kLogSoftmax,
                       .inputs = [=](Maker& m) { return std::vector{x(m)}; },
                       .attributes = {},
                       .tolerance = summed(columns, dtype)});
      cases.push_back({.name = "softmax " + name,
                       .op = &kSoftmax,
                       .inputs = [=](Maker& m) { return std::vector{x(m)}; },
                       .attributes = {},
                       .tolerance = summed(columns, dtype)});
      cases.push_back({.name = "rms_norm " + name,
                       .op = &kRmsNorm,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{x(m), m.normal(Shape{columns})};
                           },
                       .attributes = {{"epsilon", 1e-5}},
                       .tolerance = summed(columns, dtype)});
      cases.push_back({.name = "layer_norm " + name,
                       .op = &kLayerNorm,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{x(m), m.normal(Shape{columns}), m.normal(Shape{columns})};
                           },
                       .attributes = {{"weight", int64_t{1}}, {"bias", int64_t{1}}, {"epsilon", 1e-5}},
                       .tolerance = summed(columns, dtype)});
      if (dtype == DType::f32) continue;
      cases.push_back({.name = "layer_norm with its own parameters " + name,
                       .op = &kLayerNorm,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{x(m), cast(m.normal(Shape{columns}), dtype)};
                           },
                       .attributes = {{"weight", int64_t{1}}, {"bias", int64_t{0}}, {"epsilon", 1e-5}},
                       .tolerance = summed(columns, dtype)});
    }
    for (const auto& [shape, groups] : {std::pair<Shape, int64_t>{{1, 1, 1}, 1},
                                        {{2, 6, 7}, 3},
                                        {{3, 4}, 2},
                                        {{2, 8, 5, 13}, 4},
                                        {{2, 8, 5, 16}, 4},
                                        {{1, 4, 40, 64}, 1},
                                        {{1, 4, 79, 64}, 1},
                                        {{1, 2, 31, 272}, 2},
                                        {{1, 4, 101, 100}, 2},
                                        {{1, 2, 1, 5, 3, 2}, 1}}) {
      const std::string name = fmt::format("{} {} of {}", dtype_name(dtype), shape.to_string(), groups);
      const Shape channels{shape[1]};
      const auto x = [=, shape = shape](Maker& m) { return cast(m.normal(shape, 2), dtype); };
      const double tolerance = summed(shape.elements(), dtype);
      for (const bool bias : {false, true}) {
        const auto inputs = [=](Maker& m) {
          std::vector<Tensor> all{x(m), m.normal(channels)};
          if (bias) all.push_back(m.normal(channels));
          return all;
        };
        cases.push_back(
            {.name = "group_norm " + name,
             .op = &kGroupNorm,
             .inputs = inputs,
             .attributes = {{"weight", int64_t{1}}, {"bias", int64_t{bias}}, {"epsilon", 1e-3}, {"groups", groups}},
             .tolerance = tolerance});
        cases.push_back({.name = "batch_norm " + name,
                         .op = &kBatchNorm,
                         .inputs =
                             [=](Maker& m) {
                               std::vector<Tensor> all = inputs(m);
                               const Tensor spread = m.normal(channels);
                               all.insert(all.begin() + 1, {m.normal(channels), spread * spread});
                               return all;
                             },
                         .attributes = {{"weight", int64_t{1}}, {"bias", int64_t{bias}}, {"epsilon", 1e-1}},
                         .tolerance = summed(1, dtype)});
      }
    }
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{7, 3}, Shape{3, 5, 7}, Shape{2, 3, 5, 7}, Shape{1, 300, 3},
                               Shape{4, 3, 4099}, Shape{70000, 2, 1},
                               // Whole packs: of few channels, in registers, and too many for that.
                               Shape{3, 5, 64}, Shape{4, 3, 4096}, Shape{1, 9, 64}, Shape{1, 3, 2048},
                               Shape{1, 300, 16416}, Shape{1, 2, 40000}}) {
      cases.push_back({.name = fmt::format("moments {} {}", dtype_name(dtype), shape.to_string()),
                       .op = &kMoments,
                       // With a mean that grows along the elements, so that parts of a channel have others.
                       .inputs =
                           [=](Maker& m) {
                             const Tensor x = m.normal(shape, 2);
                             const int64_t count = shape.elements();
                             const Tensor ramp =
                                 iota(x.device(), count, DType::f32, 0, 10 / static_cast<double>(count));
                             return std::vector{cast(x + reshape(ramp, shape), dtype)};
                           },
                       .attributes = {},
                       .tolerance = summed(std::min<int64_t>(shape.elements() / shape[1], 5000), DType::f32),
                       .magnitude = [](const std::vector<Tensor>&) { return 16.0; }});
    }
  }
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{1100, 37}, Shape{2, 3, 5}, Shape{3, 5, 7, 11},
                             Shape{40, 3, 64}, Shape{2, 2, 4099}}) {
    const Shape channels{shape[1]};
    cases.push_back({.name = "batch_norm_sums " + shape.to_string(),
                     .op = &kBatchNormSums,
                     .inputs =
                         [=](Maker& m) {
                           return std::vector{m.normal(shape, 2), m.normal(channels), m.normal(shape)};
                         },
                     .attributes = {},
                     .tolerance = summed(shape.elements() / shape[1], DType::f32),
                     .magnitude = [](const std::vector<Tensor>&) { return 16.0; },
                     .lowered = true});
  }
  // A composition's sum of n terms in each of n places; most of them cancel.
  for (const Shape& shape : {Shape{1}, Shape{3, 65}, Shape{40, 7}, Shape{3, 68}, Shape{2, 2048}, Shape{1, 2049},
                             Shape{2, 4500}, Shape{2, 4501}}) {
    for (const bool integers : {false, true}) {
      cases.push_back({.name = fmt::format("cumsum {} {}", integers ? "i32" : "f32", shape.to_string()),
                       .op = &kCumsum,
                       .inputs =
                           [=](Maker& m) {
                             if (!integers) return std::vector{m.normal(shape)};
                             return std::vector{
                                 m.ints(shape, [](int64_t i) { return static_cast<int32_t>(i % 13 - 5); })};
                           },
                       .attributes = {},
                       .tolerance = integers ? 0 : summed(shape[shape.rank() - 1], DType::f32)});
    }
  }
}

void sort_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32}) {
    for (const auto& [rows, columns, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                           {2, 33, 0},
                                           {37, 17, 5},
                                           {3, 2048, 100},
                                           {1, 5000, 7},
                                           {2, 3001, 1500}}) {
      cases.push_back({.name = fmt::format("topk {} {}x{} k {}", dtype_name(dtype), rows, columns, k),
                       .op = &kTopk,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{cast(m.normal(Shape{rows, columns}, 9), dtype)};
                           },
                       .attributes = {{"k", k}, {"descending", int64_t{1}}},
                       .tolerance = 0,
                       .lowered = k > 1024});  // a GPU sorts then
    }
  }
}

void elementwise_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Op* op : {&kSilu, &kRelu, &kGelu, &kGeluTanh}) {
      for (const Shape& shape : {Shape{1}, Shape{3, 257}, Shape{1025}, Shape{17, 72}}) {
        cases.push_back({.name = fmt::format("{} {} {}", op->name, dtype_name(dtype), shape.to_string()),
                         .op = op,
                         .inputs = [=](Maker& m) { return std::vector{cast(m.normal(shape, 4), dtype)}; },
                         .attributes = {},
                         .tolerance = summed(1, dtype),
                         .magnitude = largest_input});
      }
    }
    cases.push_back({.name = fmt::format("clamp {}", dtype_name(dtype)),
                     .op = &kClamp,
                     .inputs =
                         [=](Maker& m) {
                           const Shape shape{5, 67};
                           return std::vector{cast(m.normal(shape), dtype),
                                              broadcast_to(cast(m.normal(Shape{5, 1}), dtype), shape),
                                              broadcast_to(cast(m.normal(Shape{67}), dtype), shape)};
                         },
                     .attributes = {},
                     .tolerance = 0});
  }
}

void index_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f32, DType::i32}) {
    for (const auto& [rows, columns, picks] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {3, 65, 31}, {70, 5, 2}, {2, 300, 1500}}) {
      const Shape x{rows, columns}, along{rows, picks};
      // Half of the indices count from the end.
      const auto indices = [](Maker& m, const Shape& shape, int64_t end) {
        return m.ints(shape, [=](int64_t i) { return static_cast<int32_t>(i * 7 % (2 * end) - end); });
      };
      const auto numbers = [=](Maker& m, const Shape& shape) { return cast(m.normal(shape, 5), dtype); };
      const double tolerance = dtype == DType::i32 ? 0 : summed(picks, dtype);
      const std::string name = fmt::format("{} {} {}", dtype_name(dtype), x.to_string(), picks);
      cases.push_back({.name = "take_along " + name,
                       .op = &kTakeAlong,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{numbers(m, x), indices(m, along, columns)};
                           },
                       .attributes = {},
                       .tolerance = 0});
      cases.push_back({.name = "scatter_set " + name,
                       .op = &kScatterSet,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{numbers(m, x), indices(m, along, columns), numbers(m, along)};
                           },
                       .attributes = {},
                       .tolerance = 0});
      cases.push_back({.name = "scatter_add " + name,
                       .op = &kScatterAdd,
                       .inputs =
                           [=](Maker& m) {
                             return std::vector{numbers(m, x), indices(m, along, columns), numbers(m, along)};
                           },
                       .attributes = {},
                       .tolerance = tolerance});
      cases.push_back(
          {.name = "index_add " + name,
           .op = &kIndexAdd,
           .inputs =
               [=](Maker& m) {
                 return std::vector{numbers(m, x), indices(m, Shape{picks}, rows), numbers(m, Shape{picks, columns})};
               },
           .attributes = {},
           .tolerance = tolerance});
    }
  }
}

// A mask that hides about a third of the keys.
Tensor mask_of(Maker& m, DType dtype, const Shape& shape) {
  const Tensor x = m.normal(shape);
  if (dtype == DType::boolean) return less(x, full(x.device(), Shape{}, 0.5, DType::f32));
  const Tensor never = full(x.device(), Shape{}, -std::numeric_limits<double>::infinity(), DType::f32);
  return cast(where(less(x, full(x.device(), Shape{}, 0.8, DType::f32)), x, never), dtype);
}

void attention_cases(std::vector<OpCase>& cases) {
  struct Case {
    int64_t batches, heads, groups, queries, keys, dim;
    bool causal = false;
    DType mask = DType::i32;  // of none
    bool alike = false;       // a mask for all heads and queries
    int64_t pitch = 0;        // of the tensors that q, k and v are parts of; 0: stored as [B, L, H, D]
  };
  constexpr auto kBool = DType::boolean;
  const std::vector<Case> all = {
      {1, 1, 1, 1, 1, 8},
      {2, 3, 3, 130, 70, 64},
      {1, 2, 1, 37, 129, 40},
      {1, 1, 1, 5, 31, 37},
      {1, 2, 2, 129, 129, 64, true},
      {2, 1, 1, 65, 200, 128, true},
      {1, 2, 1, 70, 33, 80},
      {1, 1, 1, 67, 40, 256},
      {1, 2, 2, 40, 70, 160, true},
      {1, 1, 1, 3, 5, 1},
      {1, 2, 1, 2, 2100, 64},
      {1, 1, 1, 3, 1100, 37, true},
      {2, 2, 2, 33, 65, 64, false, kBool},
      {2, 2, 1, 33, 65, 64, true, kBool, true},
      {1, 3, 1, 9, 70, 32, false, DType::f32},
      {1, 2, 2, 20, 33, 96, true, DType::f16},
      {1, 1, 1, 20, 1030, 64, false, DType::bf16, true},
      {1, 2, 2, 33, 65, 24, false, DType::i32, false, 25},
      {1, 2, 2, 33, 65, 64, true, DType::i32, false, 67},
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& c : all) {
      // Probabilities are rounded to f16 or bf16 before they meet the values.
      const double rounding = dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
      cases.push_back(
          {.name = fmt::format("attention dense {} {}x{}/{} {}x{} D={}{}{}{}{}", dtype_name(dtype), c.batches, c.heads,
                               c.groups, c.queries, c.keys, c.dim, c.causal ? " causal" : "",
                               c.mask == DType::i32 ? "" : fmt::format(" mask {}", dtype_name(c.mask)),
                               c.alike ? " alike" : "", c.pitch > 0 ? fmt::format(" pitch {}", c.pitch) : ""),
           .op = &kDotProductAttention,
           .inputs =
               [=](Maker& m) {
                 const auto heads = [&](int64_t count, int64_t rows) {
                   if (c.pitch == 0) {
                     Tensor x = cast(m.normal(Shape{c.batches, rows, count, c.dim}), dtype);
                     eval(std::span(&x, 1));
                     return permute(x, {0, 2, 1, 3});
                   }
                   Tensor x = cast(m.normal(Shape{c.batches, count, rows, c.pitch}), dtype);
                   eval(std::span(&x, 1));
                   return slice(x, 3, c.pitch - c.dim, c.dim);
                 };
                 std::vector inputs{heads(c.heads, c.queries), heads(c.groups, c.keys), heads(c.groups, c.keys)};
                 if (c.mask != DType::i32) {
                   inputs.push_back(mask_of(
                       m, c.mask, c.alike ? Shape{1, 1, 1, c.keys} : Shape{c.batches, c.heads, c.queries, c.keys}));
                   eval(std::span(&inputs.back(), 1));
                 }
                 return inputs;
               },
           .attributes = {{"scale", 1 / std::sqrt(static_cast<double>(c.dim))}, {"causal", int64_t{c.causal}}},
           .tolerance = 2 * rounding});
    }
  }
}

void recurrent_cases(std::vector<OpCase>& cases) {
  struct Size {
    int64_t steps, batch, hidden;
  };
  for (const RecurrentCell cell :
       {RecurrentCell::kTanh, RecurrentCell::kRelu, RecurrentCell::kLstm, RecurrentCell::kGru}) {
    const int64_t gates = recurrent_gates(cell);
    const bool has_cell = cell == RecurrentCell::kLstm, is_gru = cell == RecurrentCell::kGru;
    for (const Size size : {Size{1, 1, 1}, Size{3, 5, 17}, Size{4, 30, 33}, Size{2, 3, 130}, Size{3, 2, 200}}) {
      const auto [steps, batch, hidden] = size;
      const Shape states{steps + 1, batch, hidden}, first{batch, hidden}, saved{steps, batch, 4 * hidden};
      const Shape weight{gates * hidden, hidden};
      const double scale = 0.5 / std::sqrt(static_cast<double>(hidden));
      for (const bool reversed : {false, true}) {
        const std::string name =
            fmt::format("{} {} x {} x {}{}", static_cast<int>(cell), steps, batch, hidden, reversed ? " reversed" : "");
        const Attributes attributes = {{"cell", static_cast<int64_t>(cell)}, {"reversed", int64_t{reversed}}};
        cases.push_back({.name = "recurrent " + name,
                         .op = &kRecurrent,
                         .inputs =
                             [=](Maker& m) {
                               std::vector<Tensor> x = {m.normal(Shape{steps, batch, gates * hidden}),
                                                        m.normal(weight, scale), m.normal(Shape{gates * hidden}),
                                                        m.normal(first)};
                               if (has_cell) x.push_back(m.normal(first));
                               return x;
                             },
                         .attributes = attributes,
                         .tolerance = summed(steps * hidden, DType::f32),
                         .lowered = true});
        cases.push_back(
            {.name = "recurrent_gradient " + name,
             .op = &kRecurrentGradient,
             .inputs =
                 [=](Maker& m) {
                   std::vector<Tensor> x = {m.normal(weight, scale), m.normal(states, 0.3), m.normal(states)};
                   if (has_cell || is_gru) x.push_back(m.normal(saved, 0.3));
                   if (has_cell) x.insert(x.end(), {m.normal(states, 0.3), m.normal(states)});
                   return x;
                 },
             .attributes = attributes,
             .tolerance = summed(steps * gates * hidden, DType::f32),
             .lowered = true});
      }
    }
  }
  for (const Shape& shape : {Shape{1}, Shape{37}, Shape{5, 33}, Shape{2, 3, 4, 17}}) {
    for (const int64_t axes : {1, 1 << (shape.rank() - 1), (1 << shape.rank()) - 1})
      cases.push_back({.name = fmt::format("flip {} {}", shape.to_string(), axes),
                       .op = &kFlip,
                       .inputs = [=](Maker& m) { return std::vector{m.normal(shape)}; },
                       .attributes = {{"axes", axes}},
                       .tolerance = 0,
                       .lowered = true});
  }
}

}  // namespace

void add_family_cases(std::vector<OpCase>& cases) {
  attention_cases(cases);
  sort_cases(cases);
  reduction_cases(cases);
  norm_cases(cases);
  elementwise_cases(cases);
  index_cases(cases);
  recurrent_cases(cases);
}

}  // namespace gabbro::conformance
