#include "src/pictures/single_file/fp8_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/quant/e4m3.h"
#include "src/formats/quantized_folders/derived_data.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::pictures {
namespace {

constexpr std::string_view kWeight = ".weight";
// Scales of older and newer files, then what belongs to activations in FP8, which are not used here.
constexpr std::string_view kScales[] = {".scale_weight", ".weight_scale"};
constexpr std::string_view kUnused[] = {".scale_input", ".input_scale"};

bool is_fp8(const CheckpointTensor& tensor) { return tensor.format == "F8_E4M3" || tensor.format == "F8_E5M2"; }

// The name of a layer; "" for tensors of another kind.
std::string layer_of(std::string_view name, std::string_view ending) {
  return name.ends_with(ending) ? std::string(name.substr(0, name.size() - ending.size())) : std::string();
}

std::vector<float> scales_of(const CheckpointTensor& scale, const CheckpointTensor& weight) {
  const std::vector<std::string_view> types{"F32", "F16", "BF16"};
  const int64_t count = scale.elements(), rows = weight.shape.empty() ? 1 : weight.shape[0];
  const bool fits = (count == 1 || count == rows) && std::ranges::find(types, scale.format) != types.end();
  if (!fits) {
    throw bad_input("{}: tensor {}: is not a scale of {}: {} numbers in {} for {} rows", scale.file->path(),
                    quote(scale.name), quote(weight.name), count, scale.format, rows);
  }
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(published::number(scale, i));
    if (!std::isfinite(values.back()))
      throw bad_input("{}: tensor {}: is not a number", scale.file->path(), quote(scale.name));
  }
  return values;
}

// Code by code: the values in f32.
std::vector<float> values_of_codes(bool is_e4m3) {
  std::vector<float> values(256);
  for (uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const bool is_nan = is_e4m3 && (byte & 0x7f) == 0x7f;
    values[code] = is_nan ? NAN : is_e4m3 ? e4m3_value(byte) : half_bits_to_float(static_cast<uint16_t>(code << 8));
  }
  return values;
}

// In bf16, which has the range of f32: a product that overflows is found by the check of values.
CheckpointTensor plain_tensor(const CheckpointTensor& tensor, std::vector<float> scales) {
  const auto elements = static_cast<size_t>(tensor.elements());
  const size_t row = elements / std::max<size_t>(scales.size(), 1);
  const auto memory = reserve_memory(tensor.file->path(), std::max<size_t>(2 * elements, 1));
  const std::span out(const_cast<std::byte*>(memory->bytes().data()), 2 * elements);  // reserved to be written
  const auto fill = [tensor, row, scales = std::move(scales)](std::span<std::byte> to) {
    const std::vector<float> codes = values_of_codes(tensor.format == "F8_E4M3");
    for_row_ranges(tensor.elements(), 1 << 16, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const float value = codes[std::to_integer<size_t>(tensor.data[i])];
        if (!std::isfinite(value))
          throw bad_input("{}: tensor {}: element {} is not a number", tensor.file->path(), quote(tensor.name), i);
        const uint16_t bits = float_to_bfloat_bits(value * scales[i / row]);
        std::memcpy(to.data() + 2 * i, &bits, sizeof(bits));
      }
    });
  };
  CheckpointTensor result = tensor;
  result.format = "BF16";
  result.known_dtype = DType::bf16;
  result.data = out;
  result.file = memory;
  result.derived = std::make_shared<DerivedData>(memory, out, fill);
  return result;
}

// Whether a tensor only describes one in FP8.
bool describes(const Checkpoint& checkpoint, const CheckpointTensor& tensor) {
  if (tensor.name == "scaled_fp8" || tensor.name.ends_with(".scaled_fp8")) return true;
  const auto of_fp8 = [&](std::string_view ending) {
    const std::string layer = layer_of(tensor.name, ending);
    const CheckpointTensor* const weight = layer.empty() ? nullptr : checkpoint.tensor(layer + std::string(kWeight));
    return weight != nullptr && is_fp8(*weight);
  };
  const auto says_fp8 = [&] {
    const std::string_view text(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    return tensor.format == "U8" && text.find("\"float8_e") != text.npos;
  };
  return std::ranges::any_of(kScales, of_fp8) || std::ranges::any_of(kUnused, of_fp8) ||
         (of_fp8(".comfy_quant") && says_fp8());
}

}  // namespace

Checkpoint with_plain_weights(const Checkpoint& checkpoint) {
  if (std::ranges::none_of(checkpoint.tensors(), is_fp8)) return checkpoint;
  std::vector<std::pair<std::string, CheckpointTensor>> tensors;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (describes(checkpoint, tensor)) continue;
    if (!is_fp8(tensor)) {
      tensors.emplace_back(tensor.name, tensor);
      continue;
    }
    std::vector<float> scales{1};
    const std::string layer = layer_of(tensor.name, kWeight);
    for (const std::string_view ending : kScales) {
      if (const CheckpointTensor* const scale =
              layer.empty() ? nullptr : checkpoint.tensor(layer + std::string(ending)))
        scales = scales_of(*scale, tensor);
    }
    tensors.emplace_back(tensor.name, plain_tensor(tensor, std::move(scales)));
  }
  return Checkpoint::of_tensors(checkpoint, checkpoint.path(), "{}", std::move(tensors));
}

}  // namespace gabbro::pictures
