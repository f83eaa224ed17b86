// AWQ as AutoAWQ saves it in version "gemm" (awq/modules/linear/gemm.py, awq/utils/packing_utils.py): of a module with
// K inputs and N outputs
//   qweight I32 [K, N / 8]   codes of eight outputs; nibble i, from the lowest, is that of output kOrder[i]
//   qzeros  I32 [G, N / 8]   zero points in the same order
//   scales  F16 [G, N]
// value(n, k) = scales[g][n] · (q - zero[g][n]), g = k / group_size.
#include <array>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/integers.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::published {
namespace {

constexpr std::array<int, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};
// The nibble of each output.
constexpr std::array<int, 8> kNibble = [] {
  std::array<int, 8> nibbles{};
  for (size_t i = 0; i < kOrder.size(); ++i) nibbles[static_cast<size_t>(kOrder[i])] = static_cast<int>(i);
  return nibbles;
}();

uint8_t code_at(const CheckpointTensor& words, int64_t index, int64_t output) {
  return element<uint32_t>(words, index) >> (4 * kNibble[static_cast<size_t>(output % 8)]) & 15;
}

int64_t read_group(const Metadata& config) {
  constexpr std::string_view kBits = "quantization_config.bits", kGroup = "quantization_config.group_size",
                             kVersion = "quantization_config.version";
  if (const uint32_t bits = config.require_u32(kBits); bits != 4)
    throw bad_input("{}: config.json: {} {} is not supported; supported: 4", config.path(), kBits, bits);
  if (const std::string_view version = config.string_or(kVersion, "gemm"); version != "gemm" && version != "GEMM") {
    throw bad_input("{}: config.json: {} {} is not supported; supported: gemm", config.path(), kVersion,
                    quote(version));
  }
  const MetadataValue* value = config.find(kGroup);
  const int64_t group = value != nullptr ? value->as<int32_t>().value_or(0) : 128;
  if (group != -1 && (group < 1 || group > 1 << 24))
    throw bad_input("{}: config.json: {} has to be -1 or a number of columns", config.path(), kGroup);
  return group;
}

Matrix matrix_of(const Source& source, int64_t group, const CheckpointTensor& weight, const std::string& module) {
  require_shape(weight, {"I32"}, {-1, -1});
  const int64_t columns = weight.shape[0], rows = weight.shape[1] * 8;
  Integers m{.rows = rows, .columns = columns, .bits = 4, .group = group < 0 ? columns : group};
  const int64_t count = m.group_count();
  const CheckpointTensor& scales = source.require(module + ".scales", weight, number_types(), {count, rows});
  const CheckpointTensor& zeros = source.require(module + ".qzeros", weight, {"I32"}, {count, rows / 8});
  Matrix out{.name = module + ".weight", .format = "AWQ 4-bit", .parts = {&weight, &zeros, &scales}};
  m.bfloat_scales = scales.format == "BF16";
  m.half_scales = scales.format == "F16";
  m.scale = [scales, rows](int64_t row, int64_t g) { return number(scales, g * rows + row); };
  m.zero = [zeros, rows](int64_t row, int64_t g) -> int { return code_at(zeros, g * (rows / 8) + row / 8, row); };
  m.codes = [weight, rows, columns](int64_t first, int64_t rows_wanted, uint8_t* codes) {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t i = 0; i < rows_wanted; ++i)
        codes[i * columns + k] = code_at(weight, k * (rows / 8) + (first + i) / 8, first + i);
    }
  };
  make_matrix(std::move(m), out);
  return out;
}

}  // namespace

void add_awq(const Source& source, std::vector<Matrix>& out) {
  const int64_t group = read_group(source.config());
  for (const CheckpointTensor& tensor : source.tensors()) {
    const std::string module = without_suffix(tensor.name, ".qweight");
    if (!module.empty()) out.push_back(matrix_of(source, group, tensor, module));
  }
}

}  // namespace gabbro::published
