#include "backends/common/elementwise_steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "backends/common/primitives.h"
#include "src/base/half.h"

namespace gabbro::abi {
namespace {

// Cuts a word off the front, up to the separator or the end.
std::string_view cut(std::string_view& text, std::string_view separator) {
  const size_t end = text.find(separator);
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
  return word;
}

// Numbers below `end`, with spaces between.
bool read_numbers(std::string_view text, int end, std::vector<int>& numbers) {
  while (!text.empty()) {
    const std::string_view word = cut(text, " ");
    int number = -1;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || rest != word.data() + word.size() || number < 0 || number >= end) return false;
    numbers.push_back(number);
  }
  return !numbers.empty();
}

bool read_constant(std::string_view text, double& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

bool read_dtype(std::string_view name, DType& dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    dtype = static_cast<DType>(i);
    if (dtype_name(dtype) == name) return !is_quantized(dtype);
  }
  return false;
}

std::string_view text_attribute(const KernelRequest& request, std::string_view name) {
  for (int i = 0; i < request.attribute_count; ++i) {
    const Attribute& attribute = request.attributes[i];
    if (attribute.kind == AttributeKind::kText && attribute.name == name) return attribute.text;
  }
  return {};
}

bool are_operands(const KernelRequest& request) {
  if (!has_operands(request, request.input_count, request.output_count) || request.input_count < 1 ||
      request.output_count < 1 || request.input_count > kMaxElementwiseInputs ||
      request.output_count > kMaxElementwiseOutputs)
    return false;
  const TensorView& first = request.outputs[0];
  return std::all_of(request.inputs, request.inputs + request.input_count,
                     [&](const TensorView& x) { return is_strided(x) && same_shape(x, first); }) &&
         std::all_of(request.outputs, request.outputs + request.output_count,
                     [&](const TensorView& y) { return is_contiguous(y) && same_shape(y, first); });
}

// Truncated, and held within the integers (or bool) of the dtype, as iota does it.
int64_t held_within(double number, DType dtype) {
  const bool positive = dtype == DType::u8 || dtype == DType::boolean;
  const int bits = 8 * dtype_info(dtype).block_bytes - (positive ? 0 : 1);
  const double end = std::ldexp(1.0, bits);
  const auto highest = static_cast<int64_t>(~uint64_t{0} >> (64 - bits));
  if (number >= end) return highest;
  return number < (positive ? 0 : -end) ? (positive ? 0 : -highest - 1) : static_cast<int64_t>(number);
}

}  // namespace

uint64_t ElementwiseStep::constant_bits() const {
  uint64_t bits = 0;
  const auto narrow = static_cast<float>(constant);
  if (dtype == DType::f32) {
    std::memcpy(&bits, &narrow, sizeof narrow);
  } else if (dtype == DType::f64) {
    std::memcpy(&bits, &constant, sizeof constant);
  } else if (dtype == DType::f16) {
    bits = float_to_half_bits(narrow);
  } else if (dtype == DType::bf16) {
    bits = float_to_bfloat_bits(narrow);
  } else {  // the low bytes come first
    const int64_t whole = held_within(constant, dtype);
    std::memcpy(&bits, &whole, sizeof whole);
  }
  return bits;
}

DType ElementwiseSteps::dtype_of(const KernelRequest& request, int number) const {
  return number < request.input_count ? request.inputs[number].dtype
                                      : steps[static_cast<size_t>(number - request.input_count)].dtype;
}

StepRequest::StepRequest(const char* op, const std::vector<DType>& inputs, DType output, int64_t count) {
  const auto add = [&](DType dtype) {
    views_.push_back(
        {.data = nullptr, .shape = {count}, .strides = {1}, .rank = 1, .dtype = dtype, .layout = Layout::kStrided});
  };
  for (const DType dtype : inputs) add(dtype);
  add(output);
  request_ = {.op = op,
              .inputs = views_.data(),
              .input_count = static_cast<int32_t>(inputs.size()),
              .outputs = &views_.back(),
              .output_count = 1,
              .attributes = nullptr,
              .attribute_count = 0};
}

std::optional<ElementwiseSteps> read_elementwise(const KernelRequest& request) {
  if (!are_operands(request)) return {};
  ElementwiseSteps read;
  int end = request.input_count, constants = 0;
  for (std::string_view text = text_attribute(request, "steps"); !text.empty(); ++end) {
    std::string_view line = cut(text, "; ");
    ElementwiseStep step{.op = std::string(cut(line, " ")), .dtype = DType::f32};
    if (!read_dtype(cut(line, " "), step.dtype)) return {};
    if (step.is_constant() ? !read_constant(line, step.constant) || ++constants > kMaxElementwiseConstants
                           : !read_numbers(line, end, step.operands))
      return {};
    read.steps.push_back(std::move(step));
  }
  if (!read_numbers(text_attribute(request, "results"), end, read.results) ||
      std::ssize(read.results) != request.output_count)
    return {};
  for (int i = 0; i < request.output_count; ++i) {
    if (read.dtype_of(request, read.results[static_cast<size_t>(i)]) != request.outputs[i].dtype) return {};
  }
  return read;
}

}  // namespace gabbro::abi
