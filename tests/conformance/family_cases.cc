// Cases of the kernel families that are no part of a language model's layer.
#include <fmt/format.h>

#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

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
                       .tolerance = 0});
    }
  }
}

}  // namespace

void add_family_cases(std::vector<OpCase>& cases) { sort_cases(cases); }

}  // namespace gabbro::conformance
