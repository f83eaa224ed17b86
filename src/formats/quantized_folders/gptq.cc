// GPTQ as AutoGPTQ and GPTQModel save it (gptqmodel/nn_modules/qlinear, QuantLinear.pack): of a module with K inputs
// and N outputs
//   qweight I32 [K · bits / 32, N]   codes of consecutive inputs, the first in the lowest bits; of 3 bits some are in
//   two
//                                    words
//   qzeros  I32 [G, N · bits / 32]   zero points of consecutive outputs; minus one, unless checkpoint_format is gptq_v2
//   scales  F16 [G, N]
//   g_idx   I32 [K]                  the group of each input; may be missing where they are in order
// value(n, k) = scales[g][n] · (q - zero[g][n]).
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/integers.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::published {
namespace {

struct Config {
  int bits = 4;
  int64_t group = -1;  // -1: one for all inputs
  bool zeros_less_one = true;
};

Config read_config(const Metadata& config) {
  Config result;
  constexpr std::string_view kBits = "quantization_config.bits", kGroup = "quantization_config.group_size",
                             kFormat = "quantization_config.checkpoint_format";
  const uint32_t bits = config.require_u32(kBits);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    throw bad_input("{}: config.json: {} {} is not supported; supported: 2, 3, 4, 8", config.path(), kBits, bits);
  result.bits = static_cast<int>(bits);
  const MetadataValue* group = config.find(kGroup);
  result.group = group != nullptr ? group->as<int32_t>().value_or(0) : -1;
  if (result.group != -1 && (result.group < 1 || result.group > 1 << 24))
    throw bad_input("{}: config.json: {} has to be -1 or a number of columns", config.path(), kGroup);
  const std::string_view format = config.string_or(kFormat, "gptq");
  if (format != "gptq" && format != "gptq_v2")
    throw bad_input("{}: config.json: {} {} is not supported; supported: gptq, gptq_v2", config.path(), kFormat,
                    quote(format));
  result.zeros_less_one = format == "gptq";
  return result;
}

std::vector<int32_t> read_groups(const CheckpointTensor& tensor, int64_t columns, int64_t count) {
  std::vector<int32_t> groups(static_cast<size_t>(columns));
  for (int64_t k = 0; k < columns; ++k) {
    const auto group = element<int32_t>(tensor, k);
    if (group < 0 || group >= count) {
      throw bad_input("{}: tensor {}: element {} is group {}, but there are {} groups", tensor.file->path(),
                      quote(tensor.name), k, group, count);
    }
    groups[static_cast<size_t>(k)] = group;
  }
  return groups;
}

std::string_view format_name(int bits) {
  return bits == 2 ? "GPTQ 2-bit" : bits == 3 ? "GPTQ 3-bit" : bits == 4 ? "GPTQ 4-bit" : "GPTQ 8-bit";
}

// The code at bit `bit` of a stream of words; word(i) is number i.
template <class Word>
uint8_t code_at_bit(const Word& word, int64_t bit, int bits) {
  const int64_t first = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  uint64_t value = word(first);
  if (shift + bits > 32) value |= static_cast<uint64_t>(word(first + 1)) << 32;
  return static_cast<uint8_t>(value >> shift & ((1u << bits) - 1));
}

Matrix matrix_of(const Source& source, const Config& config, const CheckpointTensor& weight,
                 const std::string& module) {
  const int bits = config.bits;
  require_shape(weight, {"I32"}, {-1, -1});
  if (weight.shape[0] * 32 % bits != 0) {
    throw bad_input("{}: tensor {}: {} words are not a whole number of codes of {} bits", weight.file->path(),
                    quote(weight.name), weight.shape[0], bits);
  }
  const int64_t rows = weight.shape[1], columns = weight.shape[0] * 32 / bits;
  Integers m{.rows = rows, .columns = columns, .bits = config.bits, .group = config.group < 0 ? columns : config.group};
  const int64_t count = m.group_count();
  const CheckpointTensor& scales = source.require(module + ".scales", weight, number_types(), {count, rows});
  const CheckpointTensor& zeros = source.require(module + ".qzeros", weight, {"I32"}, {count, (rows * bits + 31) / 32});
  Matrix out{.name = module + ".weight", .format = format_name(bits), .parts = {&weight, &zeros, &scales}};
  if (const CheckpointTensor* groups = source.find(module + ".g_idx")) {
    require_shape(*groups, {"I32"}, {columns});
    m.groups = read_groups(*groups, columns, count);
    out.parts.push_back(groups);
  }
  m.bfloat_scales = scales.format == "BF16";
  m.half_scales = scales.format == "F16";
  m.scale = [scales, rows](int64_t row, int64_t g) { return number(scales, g * rows + row); };
  m.zero = [zeros, bits, more = config.zeros_less_one ? 1 : 0](int64_t row, int64_t g) {
    const auto word = [&](int64_t i) { return element<uint32_t>(zeros, g * zeros.shape[1] + i); };
    return code_at_bit(word, row * bits, bits) + more;
  };
  m.codes = [weight, rows, columns, bits](int64_t first, int64_t rows_wanted, uint8_t* codes) {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t i = 0; i < rows_wanted; ++i) {
        const auto word = [&](int64_t w) { return element<uint32_t>(weight, w * rows + first + i); };
        codes[i * columns + k] = code_at_bit(word, k * bits, bits);
      }
    }
  };
  make_matrix(std::move(m), out);
  return out;
}

}  // namespace

void add_gptq(const Source& source, std::vector<Matrix>& out) {
  const Config config = read_config(source.config());
  for (const CheckpointTensor& tensor : source.tensors()) {
    const std::string module = without_suffix(tensor.name, ".qweight");
    if (!module.empty()) out.push_back(matrix_of(source, config, tensor, module));
  }
}

}  // namespace gabbro::published
