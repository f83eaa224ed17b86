// Elementwise functions of two tensors.
#include <cmath>
#include <limits>
#include <utility>

#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double bool_to_double(bool value) { return value ? 1 : 0; }

const Binary kBinary[] = {
    {.name = "add", .op = &kAdd, .call = add, .reference = [](double a, double b) { return a + b; }, .ulps = 1},
    {.name = "sub", .op = &kSub, .call = sub, .reference = [](double a, double b) { return a - b; }, .ulps = 1},
    {.name = "mul", .op = &kMul, .call = mul, .reference = [](double a, double b) { return a * b; }, .ulps = 1},
    {.name = "div",
     .op = &kDiv,
     .call = div,
     .reference = [](double a, double b) { return a / b; },
     .low_b = 0.5,
     .ulps = 1},
    {.name = "pow",
     .op = &kPow,
     .call = pow,
     .reference = [](double a, double b) { return std::pow(a, b); },
     .low_a = 0.5,
     .ulps = 2},
    {.name = "maximum",
     .op = &kMaximum,
     .call = maximum,
     .reference = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); },
     .low_a = -1.9,
     .high_a = 1.7,
     .ulps = 0},
    {.name = "minimum",
     .op = &kMinimum,
     .call = minimum,
     .reference = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b); },
     .low_a = -1.9,
     .high_a = 1.7,
     .ulps = 0},
    {.name = "atan2",
     .op = &kAtan2,
     .call = atan2,
     .reference = [](double a, double b) { return std::atan2(a, b); },
     .low_a = -1.9,
     .high_a = 1.7,
     .low_b = 0.5,
     .ulps = 3},
    {.name = "hypot",
     .op = &kHypot,
     .call = hypot,
     .reference = [](double a, double b) { return std::hypot(a, b); },
     .low_b = 0.5,
     .ulps = 2},
    {.name = "floor_divide",
     .op = &kFloorDivide,
     .call = floor_divide,
     .reference = [](double a, double b) { return std::floor(a / b); },
     .no_gradient = "steps",
     .ulps = 0},
    {.name = "remainder",
     .op = &kRemainder,
     .call = remainder,
     .reference = [](double a, double b) { return a - b * std::floor(a / b); },
     .low_a = 2.3,
     .high_a = 2.6,
     .low_b = 0.9,
     .high_b = 1.1,
     .ulps = 1},
    {.name = "eq",
     .op = &kEq,
     .call = equal,
     .reference = [](double a, double b) { return bool_to_double(a == b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "ne",
     .op = &kNe,
     .call = not_equal,
     .reference = [](double a, double b) { return bool_to_double(a != b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "lt",
     .op = &kLt,
     .call = less,
     .reference = [](double a, double b) { return bool_to_double(a < b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "le",
     .op = &kLe,
     .call = less_equal,
     .reference = [](double a, double b) { return bool_to_double(a <= b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "gt",
     .op = &kGt,
     .call = greater,
     .reference = [](double a, double b) { return bool_to_double(a > b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "ge",
     .op = &kGe,
     .call = greater_equal,
     .reference = [](double a, double b) { return bool_to_double(a >= b); },
     .no_gradient = "gives bool",
     .ulps = 0},
    {.name = "logical_and", .op = &kLogicalAnd, .call = logical_and, .no_gradient = "of bool"},
    {.name = "logical_or", .op = &kLogicalOr, .call = logical_or, .no_gradient = "of bool"},
    {.name = "bitwise_and", .op = &kBitwiseAnd, .call = bitwise_and, .no_gradient = "of integers"},
    {.name = "bitwise_or", .op = &kBitwiseOr, .call = bitwise_or, .no_gradient = "of integers"},
    {.name = "bitwise_xor", .op = &kBitwiseXor, .call = bitwise_xor, .no_gradient = "of integers"},
    {.name = "left_shift", .op = &kLeftShift, .call = left_shift, .no_gradient = "of integers"},
    {.name = "right_shift", .op = &kRightShift, .call = right_shift, .no_gradient = "of integers"},
};

Entry entry_of(const Binary& f) {
  Entry e{.name = f.name, .call = [&f](const Inputs& x, const json&) { return f.call(x[0], x[1]); }};
  if (f.no_gradient != nullptr) {
    e.without_gradient = {{f.op, f.no_gradient}};
    return e;
  }
  for (const auto& [a, b] : {std::pair(Shape{3, 1, 4}, Shape{2, 1}), std::pair(Shape{5}, Shape{5})}) {
    e.gradients.push_back({std::string(f.name) + " " + a.to_string() + b.to_string(),
                           f.op,
                           {{a, f.low_a, f.high_a}, {b, f.low_b, f.high_b}},
                           one([&f](const Inputs& x) { return f.call(x[0], x[1]); })});
  }
  return e;
}

}  // namespace

const std::vector<Binary>& binary_functions() {
  static const std::vector<Binary> functions(std::begin(kBinary), std::end(kBinary));
  return functions;
}

void add_elementwise_binary(std::vector<Entry>& entries) {
  for (const Binary& f : kBinary) entries.push_back(entry_of(f));
  entries.insert(
      entries.end(),
      {
          {.name = "less", .call = [](const Inputs& x, const json&) { return less(x[0], x[1]); }},
          {.name = "less_equal", .call = [](const Inputs& x, const json&) { return less_equal(x[0], x[1]); }},
          {.name = "logical_xor", .call = [](const Inputs& x, const json&) { return logical_xor(x[0], x[1]); }},
          {.name = "trunc_divide", .call = [](const Inputs& x, const json&) { return trunc_divide(x[0], x[1]); }},
          {.name = "add_number", .call = [](const Inputs& x, const json& a) { return x[0] + number(a.at("value")); }},
      });
}

}  // namespace gabbro::cases
