#include "src/formats/quantized_folders/mxfp4.h"

namespace gabbro::published {

Matrix mxfp4_matrix(std::string name, const CheckpointTensor& codes, const CheckpointTensor& scales,
                    std::vector<int64_t> shape) {
  Matrix matrix{.name = std::move(name),
                .format = "MXFP4",
                .dtype = DType::mxfp4,
                .shape = std::move(shape),
                .parts = {&codes, &scales}};
  matrix.fill = [codes = codes.data, exponents = scales.data](std::span<std::byte> memory) {
    constexpr size_t kBytes = 17;
    for_row_ranges(static_cast<int64_t>(exponents.size()), 4096, [&](int64_t begin, int64_t end) {
      for (auto b = static_cast<size_t>(begin); b < static_cast<size_t>(end); ++b) {
        std::byte* const to = memory.data() + b * kBytes;
        const std::byte* const from = codes.data() + b * 16;
        const auto code = [&](size_t i) { return from[i / 2] >> (i % 2 * 4) & std::byte{15}; };
        to[0] = exponents[b];
        for (size_t i = 0; i < 16; ++i) to[1 + i] = code(i) | code(i + 16) << 4;
      }
    });
  };
  return matrix;
}

// gpt-oss (transformers/integrations/mxfp4.py, convert_moe_packed_tensors): of the experts' matrices
//   X_blocks U8 [E, rows, columns / 32, 16]
//   X_scales U8 [E, rows, columns / 32]
void add_mxfp4(const Source& source, std::vector<Matrix>& out) {
  for (const CheckpointTensor& tensor : source.tensors()) {
    const std::string name = without_suffix(tensor.name, "_blocks");
    if (name.empty()) continue;
    require_shape(tensor, {"U8"}, {-1, -1, -1, 16});
    const std::vector<int64_t>& shape = tensor.shape;
    const CheckpointTensor& scales =
        source.require(name + "_scales", tensor, {"U8", "F8_E8M0"}, {shape[0], shape[1], shape[2]});
    out.push_back(mxfp4_matrix(name, tensor, scales, {shape[0], shape[1], shape[2] * 32}));
  }
}

}  // namespace gabbro::published
