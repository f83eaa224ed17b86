// Elementwise functions of f16 and bf16 whose elements are whole 16-byte vectors, or one number for all or for a row,
// against the same functions of these numbers in f32, rounded.
#include <gtest/gtest.h>

#include <functional>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

TEST(HalfPrecision, InPacksGiveWhatTheyGiveInF32) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Maker m(device, 5);
  const auto evaluated = [](Tensor x) {
    eval(std::span(&x, 1));
    return x;
  };
  const std::pair<const char*, Binary> functions[] = {{"add", add}, {"sub", sub},         {"mul", mul},
                                                      {"div", div}, {"maximum", maximum}, {"minimum", minimum}};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = evaluated(cast(m.normal(Shape{24, 136}), dtype)),
                 y = evaluated(cast(m.normal(Shape{24, 136}), dtype)),
                 number = evaluated(cast(m.normal(Shape{1, 1}), dtype)), rest = evaluated(slice(x, 0, 1, 23)),
                 odd = evaluated(reshape(slice(reshape(x, Shape{24 * 136}), 0, 3, 23 * 136), Shape{23, 136})),
                 unary = evaluated(cast(m.normal(Shape{8}), dtype)),
                 row = evaluated(cast(m.normal(Shape{1, 136}), dtype)),
                 column = evaluated(cast(m.normal(Shape{24, 1}), dtype)),
                 gaps = slice(evaluated(cast(m.normal(Shape{24, 152}), dtype)), 1, 8, 136);
    const std::pair<Tensor, Tensor> operands[] = {{x, y},         {x, number}, {number, y}, {rest, odd}, {odd, rest},
                                                  {unary, unary}, {x, row},    {column, y}, {gaps, row}};
    for (const auto& [name, function] : functions) {
      for (const auto& [a, b] : operands) {
        SCOPED_TRACE(testing::Message() << name << " " << dtype_name(dtype) << " " << a.shape().to_string());
        const Tensor wide = evaluated(function(evaluated(cast(a, DType::f32)), evaluated(cast(b, DType::f32))));
        EXPECT_EQ(to_host<float>(cast(evaluated(function(a, b)), DType::f32)),
                  to_host<float>(cast(evaluated(cast(wide, dtype)), DType::f32)));
      }
    }
    const Tensor wide = evaluated(cast(x, DType::f32));
    EXPECT_EQ(to_host<float>(cast(evaluated(neg(x)), DType::f32)), to_host<float>(evaluated(neg(wide))));
    EXPECT_EQ(to_host<float>(cast(evaluated(relu(x)), DType::f32)), to_host<float>(evaluated(relu(wide))));
  }
}

}  // namespace
}  // namespace gabbro::conformance
