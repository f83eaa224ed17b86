#include "src/ops/cases/attributes.h"

#include <stdexcept>

namespace gabbro::cases {

using nlohmann::json;

DType dtype_of(const std::string& name) {
  for (int type = 0; type < kDTypeCount; ++type) {
    if (dtype_name(static_cast<DType>(type)) == name) return static_cast<DType>(type);
  }
  throw std::out_of_range("no dtype " + name);
}

DType dtype(const json& attributes) { return dtype_of(attributes.at("dtype")); }

Shape shape(const json& attributes) { return Shape(attributes.at("shape").get<std::vector<int64_t>>()); }

Axes axes(const json& attributes) {
  const json& given = attributes.at("axes");
  return given.is_null() ? kAllAxes : Axes(given.get<std::vector<int64_t>>());
}

std::optional<int64_t> axis(const json& attributes) {
  const json& given = attributes.at("axis");
  return given.is_null() ? std::nullopt : std::optional(given.get<int64_t>());
}

Number number(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return value.is_number_integer() ? Number(value.get<int64_t>()) : Number(value.get<double>());
}

std::vector<int64_t> numbers(const json& attributes, const char* name, std::vector<int64_t> otherwise) {
  if (!attributes.contains(name)) return otherwise;
  const json& given = attributes.at(name);
  return given.is_array() ? given.get<std::vector<int64_t>>() : std::vector<int64_t>{given.get<int64_t>()};
}

ConvOptions conv_options(const json& attributes) {
  return {.stride = numbers(attributes, "stride", {1}),
          .padding = numbers(attributes, "padding", {0}),
          .dilation = numbers(attributes, "dilation", {1}),
          .groups = attributes.value("groups", int64_t{1})};
}

PoolOptions pool_options(const json& attributes) {
  return {.kernel = numbers(attributes, "kernel", {}),
          .stride = numbers(attributes, "stride", {}),
          .padding = numbers(attributes, "padding", {0}),
          .dilation = numbers(attributes, "dilation", {1}),
          .counts_padding = attributes.value("counts_padding", true)};
}

Reduce reduce(const json& attributes) {
  const std::string name = attributes.at("reduce");
  return name == "none" ? Reduce::kNone : name == "mean" ? Reduce::kMean : Reduce::kSum;
}

Tensor optional(const std::vector<Tensor>& inputs, size_t at) { return at < inputs.size() ? inputs[at] : Tensor(); }

}  // namespace gabbro::cases
