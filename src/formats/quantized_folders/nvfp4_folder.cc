#include "src/formats/quantized_folders/nvfp4_folder.h"

#include <cmath>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/quant/e4m3.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::published {
namespace {

constexpr int64_t kScaled = 16;  // columns of a scale
constexpr float kLevels[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};  // E2M1

float read_whole(const CheckpointTensor& tensor, bool divides) {
  const float value = element<float>(tensor, 0);
  const float whole = divides ? 1 / value : value;
  if (value > 0 && std::isfinite(value) && std::isfinite(whole)) return whole;
  throw bad_input("{}: tensor {} is {}, which scales nothing", tensor.file->path(), quote(tensor.name), value);
}

}  // namespace

Matrix nvfp4_matrix(std::string name, const CheckpointTensor& codes, const CheckpointTensor& scales,
                    const CheckpointTensor& whole, bool divides) {
  require_shape(codes, {"U8"}, {-1, -1});
  const int64_t rows = codes.shape[0], groups = codes.shape[1] / 8, columns = groups * kScaled;
  require_shape(codes, {"U8"}, {rows, columns / 2});
  require_shape(scales, {"F8_E4M3"}, {rows, groups});
  if (whole.elements() != 1) require_shape(whole, {"F32"}, {1});
  require_shape(whole, {"F32"}, whole.shape);
  Matrix out{.name = std::move(name),
             .format = "NVFP4",
             .dtype = DType::bf16,
             .shape = {rows, columns},
             .parts = {&codes, &scales, &whole},
             .dequantized_for = "they have a scale of the whole matrix"};
  out.fill = [codes, scales, groups, rows, columns, factor = read_whole(whole, divides)](std::span<std::byte> memory) {
    for_row_ranges(rows, 16, [&](int64_t begin, int64_t end) {
      std::vector<float> values(static_cast<size_t>(columns));
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t k = 0; k < columns; ++k) {
          const auto code = element<uint8_t>(scales, row * groups + k / kScaled);
          if ((code & 0x7f) == 0x7f)
            throw damaged_tensor(scales.file->path(), scales.name, {row * groups + k / kScaled, NAN}, scales.shape);
          const auto pair = element<uint8_t>(codes, (row * columns + k) / 2);
          values[static_cast<size_t>(k)] = kLevels[pair >> (k % 2 * 4) & 15] * e4m3_value(code) * factor;
        }
        quantize_row(DType::bf16, values.data(), memory.data() + static_cast<size_t>(row * columns) * sizeof(uint16_t),
                     columns);
      }
    });
  };
  return out;
}

// NVIDIA's Model Optimizer (modelopt/torch/quantization/qtensor/nvfp4_tensor.py): of a module
//   weight U8 [N, K / 2], weight_scale F8_E4M3 [N, K / 16], weight_scale_2 F32
// and input_scale, which belongs to the activations. FP8 of the same tool has weight F8_E4M3 and weight_scale F32.
void add_modelopt(const Source& source, std::vector<Matrix>& out) {
  constexpr std::string_view kAlgorithm = "quantization_config.quant_algo";
  const std::string_view algorithm = source.config().require_string(kAlgorithm);
  if (algorithm == "FP8") return add_fp8(source, out);
  if (algorithm != "NVFP4") {
    throw bad_input("{}: config.json: {} {} is not supported; supported: FP8, NVFP4", source.config().path(),
                    kAlgorithm, quote(algorithm));
  }
  for (const CheckpointTensor& tensor : source.tensors()) {
    const std::string module = without_suffix(tensor.name, ".weight");
    if (module.empty() || tensor.format != "U8") continue;
    out.push_back(nvfp4_matrix(module + ".weight", tensor, source.require(module + ".weight_scale", tensor),
                               source.require(module + ".weight_scale_2", tensor), false));
    if (const CheckpointTensor* input = source.find(module + ".input_scale")) out.back().parts.push_back(input);
  }
}

}  // namespace gabbro::published
