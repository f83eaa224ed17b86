// compressed-tensors of vLLM (compressed_tensors/compressors), of a module with K inputs and N outputs:
//   pack-quantized   weight_packed I32 [N, K · bits / 32], codes of consecutive inputs from the lowest bits up, plus
//                    2^(bits - 1); weight_shape I64 [2]; weight_scale [N, G], [N, 1] or [1]; weight_zero_point, packed
//                    along the outputs, where it is asymmetric; weight_g_idx I32 [K] with act-order
//   int-quantized    weight I8 [N, K]; weight_scale [N, 1] or [1]
//   float-quantized  weight F8_E4M3 [N, K]; weight_scale [N, 1], [1], or of blocks
//   naive-quantized  one of the last two
//   mxfp4-pack-quantized  weight_packed U8 [N, K / 2], the first of two codes in the low nibble; weight_scale U8
//                    [N, K / 32], exponents biased by 127
//   nvfp4-pack-quantized  weight_packed U8 [N, K / 2]; weight_scale F8_E4M3 [N, K / 16], each divided by
//                    weight_global_scale F32 [1]
// The form of a module follows from its tensors, so the targets of config_groups are not read.
#include <algorithm>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/integers.h"
#include "src/formats/quantized_folders/mxfp4.h"
#include "src/formats/quantized_folders/numbers.h"
#include "src/formats/quantized_folders/nvfp4_folder.h"
#include "src/formats/quantized_folders/scaled_bytes.h"

namespace gabbro::published {
namespace {

constexpr std::string_view kFormats[] = {"pack-quantized",  "int-quantized",        "float-quantized",
                                         "naive-quantized", "mxfp4-pack-quantized", "nvfp4-pack-quantized",
                                         "mixed-precision"};

void check_format(const Metadata& config) {
  constexpr std::string_view kFormat = "quantization_config.format";
  const std::string_view format = config.string_or(kFormat, "pack-quantized");
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    throw bad_input("{}: config.json: {} {} is not supported", config.path(), kFormat, quote(format));
}

// K of weight_shape, and N, which must match the packed words.
std::vector<int64_t> read_shape(const Source& source, const CheckpointTensor& packed, const std::string& module) {
  const CheckpointTensor& shape = source.require(module + ".weight_shape", packed, {"I64", "I32"}, {2});
  std::vector<int64_t> lengths(2);
  for (int64_t i = 0; i < 2; ++i)
    lengths[static_cast<size_t>(i)] = shape.format == "I64" ? element<int64_t>(shape, i) : element<int32_t>(shape, i);
  const int64_t words = packed.shape[1], columns = lengths[1];
  const bool fits = lengths[0] == packed.shape[0] && columns > 0 && columns <= words * 16 &&
                    (words == (columns + 15) / 16 || words == (columns + 7) / 8 || words == (columns + 3) / 4);
  if (!fits) {
    throw bad_input("{}: tensor {}: ({}, {}) does not fit {} of shape ({}, {}) in 2, 4 or 8 bits", shape.file->path(),
                    quote(shape.name), lengths[0], columns, quote(packed.name), packed.shape[0], words);
  }
  return lengths;
}

// Columns that share a scale: of scales [N, G] or [1].
int64_t group_of(const CheckpointTensor& scales, int64_t rows, int64_t columns) {
  const std::vector<int64_t>& shape = scales.shape;
  require_shape(scales, number_types(), std::vector<int64_t>(shape.size(), -1));
  if (scales.elements() == 1 && shape.size() <= 2) return columns;
  if (shape.size() == 2 && shape[0] == rows && shape[1] > 0 && columns % shape[1] == 0) return columns / shape[1];
  throw bad_input("{}: tensor {} has no scales of groups of {} columns in {} rows", scales.file->path(),
                  quote(scales.name), columns, rows);
}

void add_packed(const Source& source, const CheckpointTensor& packed, const std::string& module,
                std::vector<Matrix>& out) {
  require_shape(packed, {"I32"}, {-1, -1});
  const std::vector<int64_t> shape = read_shape(source, packed, module);
  const int64_t rows = shape[0], columns = shape[1], words = packed.shape[1];
  const int bits = words == (columns + 15) / 16 ? 2 : words == (columns + 7) / 8 ? 4 : 8, per_word = 32 / bits;
  const CheckpointTensor& scales = source.require(module + ".weight_scale", packed);
  Integers m{.rows = rows, .columns = columns, .bits = bits, .group = group_of(scales, rows, columns)};
  const int64_t count = m.group_count();
  Matrix matrix{.name = module + ".weight",
                .format = bits == 4   ? "INT4 packed"
                          : bits == 8 ? "INT8 packed"
                                      : "INT2 packed",
                .parts = {&packed, &scales}};
  const auto code_at = [bits, per_word](const CheckpointTensor& from, int64_t word, int64_t index) {
    const auto value = element<uint32_t>(from, word) >> (index % per_word * bits);
    return static_cast<uint8_t>(value & ((1u << bits) - 1));
  };
  if (const CheckpointTensor* groups = source.find(module + ".weight_g_idx")) {
    require_shape(*groups, {"I32"}, {columns});
    for (int64_t k = 0; k < columns; ++k) {
      const auto group = element<int32_t>(*groups, k);
      if (group < 0 || group >= count) {
        throw bad_input("{}: tensor {}: element {} is group {}, but there are {} groups", groups->file->path(),
                        quote(groups->name), k, group, count);
      }
      m.groups.push_back(group);
    }
    matrix.parts.push_back(groups);
  }
  m.bfloat_scales = scales.format == "BF16";
  m.half_scales = scales.format == "F16";
  m.scale = [scales, count, one = scales.elements() == 1](int64_t row, int64_t g) {
    return number(scales, one ? 0 : row * count + g);
  };
  m.zero = [middle = 1 << (bits - 1)](int64_t, int64_t) { return middle; };
  if (const CheckpointTensor* zeros = source.find(module + ".weight_zero_point")) {
    require_shape(*zeros, {"I32"}, {(rows + per_word - 1) / per_word, count});
    m.zero = [zeros = *zeros, count, code_at, per_word](int64_t row, int64_t g) -> int {
      return code_at(zeros, row / per_word * count + g, row);
    };
    matrix.parts.push_back(zeros);
  }
  m.codes = [packed, words, columns, code_at, per_word](int64_t first, int64_t rows_wanted, uint8_t* codes) {
    for (int64_t i = 0; i < rows_wanted; ++i) {
      for (int64_t k = 0; k < columns; ++k)
        codes[i * columns + k] = code_at(packed, (first + i) * words + k / per_word, k);
    }
  };
  make_matrix(std::move(m), matrix);
  out.push_back(std::move(matrix));
}

void add_bytes(const Source& source, const CheckpointTensor& weight, const std::string& module,
               std::vector<Matrix>& out) {
  require_shape(weight, {"I8", "F8_E4M3", "F8_E4M3FNUZ"}, {-1, -1});
  const CheckpointTensor& scales = source.require(module + ".weight_scale", weight);
  require_shape(scales, number_types(), std::vector<int64_t>(scales.shape.size(), -1));
  if (const CheckpointTensor* zeros = source.find(module + ".weight_zero_point");
      zeros != nullptr && weight.format == "I8") {
    const bool none = std::ranges::all_of(zeros->data, [](std::byte b) { return b == std::byte{0}; });
    if (!none)
      throw bad_input("{}: tensor {}: zero points of bytes are not supported", zeros->file->path(), quote(zeros->name));
  }
  ScaledBytes bytes{
      .values = &weight, .scales = &scales, .tile_rows = 1, .tile_columns = 1, .e4m3 = weight.format != "I8"};
  constexpr int64_t kBlock = 128;  // block_structure of the only strategy that has blocks
  find_tiles(kBlock, kBlock, bytes);
  out.push_back(scaled_matrix(module + ".weight", bytes.e4m3 ? "FP8 E4M3" : "INT8", bytes));
}

}  // namespace

void add_compressed_tensors(const Source& source, std::vector<Matrix>& out) {
  check_format(source.config());
  for (const CheckpointTensor& tensor : source.tensors()) {
    if (const std::string module = without_suffix(tensor.name, ".weight_packed"); !module.empty()) {
      if (const CheckpointTensor* whole = source.find(module + ".weight_global_scale");
          whole && tensor.format == "U8") {
        out.push_back(
            nvfp4_matrix(module + ".weight", tensor, source.require(module + ".weight_scale", tensor), *whole, true));
      } else if (tensor.format == "U8") {
        require_shape(tensor, {"U8"}, {-1, -1});
        const int64_t rows = tensor.shape[0], blocks = tensor.shape[1] / 16;
        require_shape(tensor, {"U8"}, {rows, blocks * 16});
        const CheckpointTensor& scales =
            source.require(module + ".weight_scale", tensor, {"U8", "F8_E8M0"}, {rows, blocks});
        out.push_back(mxfp4_matrix(module + ".weight", tensor, scales, {rows, blocks * 32}));
      } else {
        add_packed(source, tensor, module, out);
      }
      continue;
    }
    const bool bytes = tensor.format == "I8" || tensor.format.starts_with("F8_E4M3");
    if (const std::string module = without_suffix(tensor.name, ".weight"); bytes && !module.empty())
      add_bytes(source, tensor, module, out);
  }
  // The rest of a module belongs to its activations.
  for (Matrix& matrix : out) {
    const std::string module = without_suffix(matrix.name, ".weight");
    for (const char* suffix :
         {".weight_shape", ".input_scale", ".input_global_scale", ".input_zero_point", ".weight_zero_point"}) {
      const CheckpointTensor* rest = source.find(module + suffix);
      if (rest != nullptr && std::ranges::find(matrix.parts, rest) == matrix.parts.end()) matrix.parts.push_back(rest);
    }
  }
}

}  // namespace gabbro::published
