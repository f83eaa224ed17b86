// How the ops of tests/data/ops/arrays.json are called.
#include <map>

#include "gabbro/ops/products.h"
#include "src/ops/ops.h"
#include "tests/ops/op_calls.h"

namespace gabbro {

using nlohmann::json;

namespace {

Axes axes_of(const json& a) {
  const json& axes = a.at("axes");
  return axes.is_null() ? kAllAxes : Axes(axes.get<std::vector<int64_t>>());
}

std::optional<int64_t> axis_of(const json& a) {
  const json& axis = a.at("axis");
  return axis.is_null() ? std::nullopt : std::optional(axis.get<int64_t>());
}

Number number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return value.is_number_integer() ? Number(value.get<int64_t>()) : Number(value.get<double>());
}

Shape shape_of(const json& a) { return Shape(a.at("shape").get<std::vector<int64_t>>()); }
DType dtype(const json& a) { return dtype_of(a.at("dtype")); }

std::optional<int64_t> bound(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
}

std::vector<Index> indices_of(const Inputs& inputs, const json& a) {
  std::vector<Index> indices;
  for (const json& item : a.at("indices")) {
    if (item.is_number()) {
      indices.emplace_back(item.get<int64_t>());
    } else if (item.is_array()) {
      indices.emplace_back(Slice{.start = bound(item[0]), .stop = bound(item[1]), .step = item[2]});
    } else if (item.is_object()) {
      indices.emplace_back(inputs.at(item.at("input").get<size_t>()));
    } else if (item == "new") {
      indices.emplace_back(NewAxis{});
    } else {
      indices.emplace_back(Ellipsis{});
    }
  }
  return indices;
}

Tensor padded(const Inputs& i, const json& a) {
  const std::string mode = a.at("mode");
  return pad(i[0], a.at("widths").get<std::vector<std::pair<int64_t, int64_t>>>(),
             mode == "constant" ? PadMode::kConstant
             : mode == "edge"   ? PadMode::kEdge
                                : PadMode::kReflect,
             number_of(a.value("value", json(0))));
}

Tensor attended(const Inputs& i, const json& a) {
  DotProductAttention options{.mask = i.size() > 3 ? i[3] : Tensor(), .causal = a.value("causal", false)};
  if (a.contains("scale")) options.scale = a.at("scale");
  return scaled_dot_product_attention(i[0], i[1], i[2], options);
}

Tensor part_of(const Unique& unique, const std::string& part) {
  return part == "values"    ? unique.values
         : part == "indices" ? unique.indices
         : part == "inverse" ? unique.inverse
                             : unique.counts;
}

size_t result(const json& a) { return a.at("result"); }

using OpCall = Tensor (*)(const Inputs& i, const json& a);

const std::map<std::string, OpCall>& unary_calls() {
  static const std::map<std::string, OpCall> kOps = {
      {"ceil", [](const Inputs& i, const json&) { return ceil(i[0]); }},
      {"round", [](const Inputs& i, const json&) { return round(i[0]); }},
      {"trunc", [](const Inputs& i, const json&) { return trunc(i[0]); }},
      {"sign", [](const Inputs& i, const json&) { return sign(i[0]); }},
      {"square", [](const Inputs& i, const json&) { return square(i[0]); }},
      {"reciprocal", [](const Inputs& i, const json&) { return reciprocal(i[0]); }},
      {"exp2", [](const Inputs& i, const json&) { return exp2(i[0]); }},
      {"expm1", [](const Inputs& i, const json&) { return expm1(i[0]); }},
      {"log1p", [](const Inputs& i, const json&) { return log1p(i[0]); }},
      {"log2", [](const Inputs& i, const json&) { return log2(i[0]); }},
      {"log10", [](const Inputs& i, const json&) { return log10(i[0]); }},
      {"tan", [](const Inputs& i, const json&) { return tan(i[0]); }},
      {"sinh", [](const Inputs& i, const json&) { return sinh(i[0]); }},
      {"cosh", [](const Inputs& i, const json&) { return cosh(i[0]); }},
      {"asin", [](const Inputs& i, const json&) { return asin(i[0]); }},
      {"acos", [](const Inputs& i, const json&) { return acos(i[0]); }},
      {"atan", [](const Inputs& i, const json&) { return atan(i[0]); }},
      {"asinh", [](const Inputs& i, const json&) { return asinh(i[0]); }},
      {"acosh", [](const Inputs& i, const json&) { return acosh(i[0]); }},
      {"atanh", [](const Inputs& i, const json&) { return atanh(i[0]); }},
      {"isnan", [](const Inputs& i, const json&) { return isnan(i[0]); }},
      {"isinf", [](const Inputs& i, const json&) { return isinf(i[0]); }},
      {"isfinite", [](const Inputs& i, const json&) { return isfinite(i[0]); }},
      {"bitwise_not", [](const Inputs& i, const json&) { return bitwise_not(i[0]); }},
      {"zeros_like", [](const Inputs& i, const json&) { return zeros_like(i[0]); }},
      {"ones_like", [](const Inputs& i, const json&) { return ones_like(i[0]); }},
  };
  return kOps;
}

const std::map<std::string, OpCall>& binary_calls() {
  static const std::map<std::string, OpCall> kOps = {
      {"add_number", [](const Inputs& i, const json& a) { return i[0] + number_of(a.at("value")); }},
      {"floor_divide", [](const Inputs& i, const json&) { return floor_divide(i[0], i[1]); }},
      {"remainder", [](const Inputs& i, const json&) { return remainder(i[0], i[1]); }},
      {"trunc_divide", [](const Inputs& i, const json&) { return trunc_divide(i[0], i[1]); }},
      {"atan2", [](const Inputs& i, const json&) { return atan2(i[0], i[1]); }},
      {"hypot", [](const Inputs& i, const json&) { return hypot(i[0], i[1]); }},
      {"bitwise_and", [](const Inputs& i, const json&) { return bitwise_and(i[0], i[1]); }},
      {"bitwise_or", [](const Inputs& i, const json&) { return bitwise_or(i[0], i[1]); }},
      {"bitwise_xor", [](const Inputs& i, const json&) { return bitwise_xor(i[0], i[1]); }},
      {"logical_xor", [](const Inputs& i, const json&) { return logical_xor(i[0], i[1]); }},
      {"left_shift", [](const Inputs& i, const json&) { return left_shift(i[0], i[1]); }},
      {"right_shift", [](const Inputs& i, const json&) { return right_shift(i[0], i[1]); }},
      {"outer", [](const Inputs& i, const json&) { return outer(i[0], i[1]); }},
      {"dot", [](const Inputs& i, const json&) { return dot(i[0], i[1]); }},
      {"vecdot", [](const Inputs& i, const json& a) { return vecdot(i[0], i[1], a.at("axis")); }},
      {"tensordot",
       [](const Inputs& i, const json& a) {
         return a.contains("count") ? tensordot(i[0], i[1], a.at("count").get<int64_t>())
                                    : tensordot(i[0], i[1], a.at("of_a").get<std::vector<int64_t>>(),
                                                a.at("of_b").get<std::vector<int64_t>>());
       }},
      {"bilinear",
       [](const Inputs& i, const json&) { return bilinear(i[0], i[1], i[2], i.size() > 3 ? i[3] : Tensor()); }},
      {"einsum", [](const Inputs& i, const json& a) { return einsum(a.at("equation").get<std::string>(), i); }},
      {"scaled_dot_product_attention", attended},
  };
  return kOps;
}

// With axes.
const std::map<std::string, OpCall>& reduction_calls() {
  static const std::map<std::string, OpCall> kOps = {
      {"sum", [](const Inputs& i, const json& a) { return sum(i[0], axes_of(a), a.at("keepdims")); }},
      {"prod", [](const Inputs& i, const json& a) { return prod(i[0], axes_of(a), a.at("keepdims")); }},
      {"mean", [](const Inputs& i, const json& a) { return mean(i[0], axes_of(a), a.at("keepdims")); }},
      {"max", [](const Inputs& i, const json& a) { return max(i[0], axes_of(a), a.at("keepdims")); }},
      {"min", [](const Inputs& i, const json& a) { return min(i[0], axes_of(a), a.at("keepdims")); }},
      {"any", [](const Inputs& i, const json& a) { return any(i[0], axes_of(a), a.at("keepdims")); }},
      {"all", [](const Inputs& i, const json& a) { return all(i[0], axes_of(a), a.at("keepdims")); }},
      {"logsumexp", [](const Inputs& i, const json& a) { return logsumexp(i[0], axes_of(a), a.at("keepdims")); }},
      {"var",
       [](const Inputs& i, const json& a) { return var(i[0], axes_of(a), a.at("correction"), a.at("keepdims")); }},
      {"std",
       [](const Inputs& i, const json& a) { return std(i[0], axes_of(a), a.at("correction"), a.at("keepdims")); }},
  };
  return kOps;
}

const std::map<std::string, OpCall>& axis_calls() {
  static const std::map<std::string, OpCall> kOps = {
      {"argmax", [](const Inputs& i, const json& a) { return argmax(i[0], axis_of(a), a.at("keepdims")); }},
      {"argmin", [](const Inputs& i, const json& a) { return argmin(i[0], axis_of(a), a.at("keepdims")); }},
      {"softmax", [](const Inputs& i, const json& a) { return softmax(i[0], *axis_of(a)); }},
      {"log_softmax", [](const Inputs& i, const json& a) { return log_softmax(i[0], *axis_of(a)); }},
  };
  return kOps;
}

const std::map<std::string, OpCall>& shape_calls() {
  static const std::map<std::string, OpCall> kOps = {
      {"squeeze", [](const Inputs& i, const json& a) { return squeeze(i[0], axes_of(a)); }},
      {"expand_dims", [](const Inputs& i, const json& a) { return expand_dims(i[0], axes_of(a)); }},
      {"moveaxis", [](const Inputs& i, const json& a) { return moveaxis(i[0], a.at("source"), a.at("to")); }},
      {"swapaxes", [](const Inputs& i, const json& a) { return swapaxes(i[0], a.at("a"), a.at("b")); }},
      {"flatten", [](const Inputs& i, const json& a) { return flatten(i[0], a.at("first"), a.at("last")); }},
      {"stack", [](const Inputs& i, const json& a) { return stack(i, a.at("axis")); }},
      {"split", [](const Inputs& i, const json& a) { return split(i[0], a.at("parts"), a.at("axis")).at(result(a)); }},
      {"split_at",
       [](const Inputs& i, const json& a) { return split_at(i[0], a.at("places"), a.at("axis")).at(result(a)); }},
      {"unstack", [](const Inputs& i, const json& a) { return unstack(i[0], a.at("axis")).at(result(a)); }},
      {"meshgrid", [](const Inputs& i, const json& a) { return meshgrid(i, a.at("xy")).at(result(a)); }},
      {"pad", padded},
      {"repeat", [](const Inputs& i, const json& a) { return repeat(i[0], a.at("times"), axis_of(a)); }},
      {"tile", [](const Inputs& i, const json& a) { return tile(i[0], a.at("times")); }},
      {"roll", [](const Inputs& i, const json& a) { return roll(i[0], a.at("shifts"), axes_of(a)); }},
      {"flip", [](const Inputs& i, const json& a) { return flip(i[0], axes_of(a)); }},
      {"take", [](const Inputs& i, const json& a) { return take(i[0], i[1], *axis_of(a)); }},
      {"put_along_axis", [](const Inputs& i, const json& a) { return put_along_axis(i[0], i[1], i[2], *axis_of(a)); }},
      {"index", [](const Inputs& i, const json& a) { return index(i[0], indices_of(i, a)); }},
      {"nonzero", [](const Inputs& i, const json& a) { return nonzero(i[0]).at(result(a)); }},
      {"unique", [](const Inputs& i, const json& a) { return part_of(unique(i[0]), a.at("part")); }},
  };
  return kOps;
}

using Creation = Tensor (*)(const DevicePointer& device, const json& a);
const std::map<std::string, Creation>& creation_calls() {
  static const std::map<std::string, Creation> kOps = {
      {"arange",
       [](const DevicePointer& d, const json& a) {
         return arange(d, number_of(a.at("start")), number_of(a.at("stop")), number_of(a.at("step")), dtype(a));
       }},
      {"linspace",
       [](const DevicePointer& d, const json& a) {
         return linspace(d, a.at("start"), a.at("stop"), a.at("count"), a.at("endpoint"), dtype(a));
       }},
      {"eye", [](const DevicePointer& d,
                 const json& a) { return eye(d, a.at("rows"), a.at("columns"), a.at("diagonal"), dtype(a)); }},
      {"tri", [](const DevicePointer& d,
                 const json& a) { return tri(d, a.at("rows"), a.at("columns"), a.at("diagonal"), dtype(a)); }},
      {"full",
       [](const DevicePointer& d, const json& a) { return full(d, shape_of(a), number_of(a.at("value")), dtype(a)); }},
  };
  return kOps;
}

}  // namespace

std::optional<Tensor> array_op(const std::string& op, const DevicePointer& device, const Inputs& inputs,
                               const json& a) {
  if (const auto found = creation_calls().find(op); found != creation_calls().end()) return found->second(device, a);
  if (a.contains("axes") && reduction_calls().contains(op)) return reduction_calls().at(op)(inputs, a);
  if (a.contains("axis") && axis_calls().contains(op)) return axis_calls().at(op)(inputs, a);
  for (const auto* calls : {&unary_calls(), &binary_calls(), &shape_calls()}) {
    if (const auto found = calls->find(op); found != calls->end()) return found->second(inputs, a);
  }
  return std::nullopt;
}

}  // namespace gabbro
