// bitsandbytes (bitsandbytes/functional.py, QuantState.as_dict; bitsandbytes/nn/modules.py). 4 bits: of a module
//   weight              U8 [N · K / 2, 1]  codes of consecutive elements, the first in the high nibble
//   weight.quant_state.bitsandbytes__nf4 (or fp4)  U8, a JSON document: shape, blocksize, dtype, nested_*
//   weight.quant_map    F32 [16]           the levels
//   weight.absmax       F32, a scale for each block of elements; or U8, codes of them (double quantization) with
//   weight.nested_quant_map F32 [256], weight.nested_absmax F32: scale = map[code] · nested_absmax[i / size] + offset
// 8 bits (LLM.int8): weight I8 [N, K], SCB F32 [N]; value = weight · SCB / 127.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/numbers.h"
#include "src/formats/quantized_folders/scaled_bytes.h"

namespace gabbro::published {
namespace {

constexpr int64_t kNf4Block = 64;  // of NF4
constexpr std::string_view kStates[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

// The state of a module's 4-bit weights.
struct State {
  CheckpointTensor codes, absmax, levels;
  std::optional<CheckpointTensor> nested_absmax, nested_levels;
  int64_t rows = 0, columns = 0, block = 0, nested_block = 0;
  float offset = 0;

  float scale(int64_t block_index) const {
    if (!nested_absmax) return element<float>(absmax, block_index);
    const auto code = element<uint8_t>(absmax, block_index);
    return element<float>(*nested_levels, code) * element<float>(*nested_absmax, block_index / nested_block) + offset;
  }
  uint8_t code(int64_t index) const {
    return static_cast<uint8_t>(element<uint8_t>(codes, index / 2) >> (index % 2 == 0 ? 4 : 0) & 15);
  }
};

class Document {
 public:
  Document(const CheckpointTensor& tensor)  // NOLINT(google-explicit-constructor): the same document
      : tensor_(tensor),
        json_(parse_json({reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()},
                         fmt::format("{}: tensor {}", tensor.file->path(), quote(tensor.name)))) {
    if (!json_.is_object()) refuse("the document");
  }
  int64_t length(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !is_length(*found)) refuse(key);
    return found->get<int64_t>();
  }
  float number(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_number() || !std::isfinite(found->get<float>())) refuse(key);
    return found->get<float>();
  }
  std::string text(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  std::vector<int64_t> shape() const {
    const auto found = json_.find("shape");
    if (found == json_.end() || !found->is_array() || found->size() != 2 || !std::ranges::all_of(*found, is_length))
      refuse("shape");
    return found->get<std::vector<int64_t>>();
  }

 private:
  static bool is_length(const nlohmann::ordered_json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= uint64_t{1} << 40;
  }
  [[noreturn]] void refuse(const char* key) const {
    throw bad_input("{}: tensor {}: {} is missing or is not as bitsandbytes writes it", tensor_.file->path(),
                    quote(tensor_.name), key);
  }

  const CheckpointTensor& tensor_;
  nlohmann::ordered_json json_;
};

int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }

bool are_levels_of_nf4(const CheckpointTensor& levels) {
  std::byte block[36] = {};
  const float one = 1;
  std::memcpy(block, &one, sizeof one);
  for (int i = 0; i < 16; ++i) block[4 + i] = static_cast<std::byte>(i);
  float known[kNf4Block];
  dequantize_row(DType::nf4, block, known, kNf4Block);
  bool result = true;
  for (int i = 0; i < 16; ++i) result &= element<float>(levels, i) == known[i];
  return result;
}

// Writes all rows as `dtype`: nf4, f16 or bf16.
void fill_rows(const State& state, DType dtype, std::span<std::byte> memory) {
  const size_t row_bytes = dtype_bytes(dtype, static_cast<size_t>(state.columns));
  for_row_ranges(state.rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(state.columns));
    for (int64_t row = begin; row < end; ++row) {
      std::byte* to = memory.data() + static_cast<size_t>(row) * row_bytes;
      const int64_t first = row * state.columns;
      for (int64_t k = 0; k < state.columns && dtype == DType::nf4; k += kNf4Block, to += 36) {
        const float scale = state.scale((first + k) / state.block);
        std::memcpy(to, &scale, sizeof scale);
        for (int64_t i = 0; i < 32; ++i)
          to[4 + i] = static_cast<std::byte>(state.code(first + k + i) | state.code(first + k + 32 + i) << 4);
      }
      if (dtype == DType::nf4) continue;
      for (int64_t k = 0; k < state.columns; ++k) {
        values[static_cast<size_t>(k)] =
            element<float>(state.levels, state.code(first + k)) * state.scale((first + k) / state.block);
      }
      quantize_row(dtype, values.data(), to, state.columns);
    }
  });
}

// The matrix of a tensor whose state is `document`.
Matrix four_bits(const Source& source, const CheckpointTensor& weight, const CheckpointTensor& document, bool nf4) {
  const Document json(document);
  const std::string name(weight.name);
  const std::vector<int64_t> shape = json.shape();
  State s;
  s.rows = shape[0];
  s.columns = shape[1];
  s.block = json.length("blocksize");
  if (s.rows > (int64_t{1} << 56) / s.columns || s.rows * s.columns > 2 * weight.elements()) {
    throw bad_input("{}: tensor {}: shape ({}, {}) is larger than {}", document.file->path(), quote(document.name),
                    s.rows, s.columns, quote(name));
  }
  const int64_t elements = s.rows * s.columns, count = blocks_of(elements, s.block);
  require_shape(weight, {"U8"}, {(elements + 1) / 2, 1});
  const CheckpointTensor& absmax = source.require(name + ".absmax", weight, {"F32", "U8"}, {count});
  const CheckpointTensor& levels = source.require(name + ".quant_map", weight, {"F32"}, {16});
  Matrix out{
      .name = name, .format = nf4 ? "NF4" : "FP4", .shape = shape, .parts = {&weight, &absmax, &levels, &document}};
  s.codes = weight;
  s.absmax = absmax;
  s.levels = levels;
  if (absmax.format == "U8") {
    s.nested_block = json.length("nested_blocksize");
    s.offset = json.number("nested_offset");
    const CheckpointTensor& nested =
        source.require(name + ".nested_absmax", weight, {"F32"}, {blocks_of(count, s.nested_block)});
    const CheckpointTensor& map = source.require(name + ".nested_quant_map", weight, {"F32"}, {256});
    s.nested_absmax = nested;
    s.nested_levels = map;
    out.parts.insert(out.parts.end(), {&nested, &map});
  }
  const bool usual = nf4 && are_levels_of_nf4(levels);
  const bool whole = s.columns % kNf4Block == 0 && s.block % kNf4Block == 0;
  out.dtype = usual && whole ? DType::nf4 : json.text("dtype") == "float16" ? DType::f16 : DType::bf16;
  if (out.dtype != DType::nf4)
    out.dequantized_for = usual ? "its rows are not multiples of 64 columns" : "its levels are not NF4's";
  const auto shared = std::make_shared<const State>(std::move(s));
  out.fill = [shared, dtype = out.dtype](std::span<std::byte> memory) { fill_rows(*shared, dtype, memory); };
  return out;
}

}  // namespace

void add_bitsandbytes(const Source& source, std::vector<Matrix>& out) {
  for (const CheckpointTensor& tensor : source.tensors()) {
    const std::string module = without_suffix(tensor.name, ".weight"), name(tensor.name);
    if (module.empty()) continue;
    if (tensor.format == "I8") {
      require_shape(tensor, {"I8"}, {-1, -1});
      const CheckpointTensor& scales = source.require(module + ".SCB", tensor, {"F32"}, {tensor.shape[0]});
      ScaledBytes bytes{.values = &tensor,
                        .scales = &scales,
                        .tile_rows = 1,
                        .tile_columns = tensor.shape[1],
                        .factor = 1.0f / 127,
                        .e4m3 = false};
      out.push_back(scaled_matrix(name, "INT8", bytes));
      if (const CheckpointTensor* rest = source.find(module + ".weight_format")) out.back().parts.push_back(rest);
      continue;
    }
    if (tensor.format != "U8") continue;
    const CheckpointTensor* states[] = {source.find(name + std::string(kStates[0])),
                                        source.find(name + std::string(kStates[1]))};
    const bool nf4 = states[0] != nullptr;
    if (!nf4 && states[1] == nullptr) {
      throw bad_input("{}: tensor {} is missing, which {} needs", tensor.file->path(),
                      quote(name + std::string(kStates[0])), quote(name));
    }
    out.push_back(four_bits(source, tensor, nf4 ? *states[0] : *states[1], nf4));
  }
}

}  // namespace gabbro::published
