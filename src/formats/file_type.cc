#include "src/formats/file_type.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace gabbro {
namespace {

constexpr FileType kFileTypes[] = {
    {21, "q2_k_s", DType::q2_k}, {10, "q2_k", DType::q2_k},     {11, "q3_k_s", DType::q3_k},
    {12, "q3_k_m", DType::q3_k}, {13, "q3_k_l", DType::q3_k},   {30, "iq4_xs", DType::iq4_xs},
    {2, "q4_0", DType::q4_0},    {25, "iq4_nl", DType::iq4_nl}, {14, "q4_k_s", DType::q4_k},
    {15, "q4_k_m", DType::q4_k}, {3, "q4_1", DType::q4_1},      {8, "q5_0", DType::q5_0},
    {16, "q5_k_s", DType::q5_k}, {17, "q5_k_m", DType::q5_k},   {9, "q5_1", DType::q5_1},
    {18, "q6_k", DType::q6_k},   {7, "q8_0", DType::q8_0},      {1, "f16", DType::f16},
    {32, "bf16", DType::bf16},   {0, "f32", DType::f32},
};

// Layers that a rule applies to.
enum class Layers {
  kAll,
  kGrouped,  // all, where four or more query heads share a key head
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kSpread,  // the first and the last eighth, and every third between
};

struct Rule {
  std::string_view type;
  TensorRole role;
  Layers layers;
  DType dtype;
};

// The mixtures of llama.cpp (src/llama-quant.cpp, 2026), for the llama graph; the first rule that fits counts.
constexpr Rule kRules[] = {
    {"q2_k", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k},
    {"q2_k", TensorRole::kAttentionV, Layers::kAll, DType::q3_k},
    {"q2_k", TensorRole::kAttentionOutput, Layers::kAll, DType::q3_k},
    {"q2_k", TensorRole::kFfnDown, Layers::kAll, DType::q3_k},
    {"q2_k_s", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k},
    {"q2_k_s", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q4_k},
    {"q3_k_m", TensorRole::kAttentionV, Layers::kFirstTwo, DType::q5_k},
    {"q3_k_m", TensorRole::kAttentionV, Layers::kAll, DType::q4_k},
    {"q3_k_m", TensorRole::kAttentionOutput, Layers::kAll, DType::q4_k},
    {"q3_k_m", TensorRole::kFfnDown, Layers::kFirstSixteenth, DType::q5_k},
    {"q3_k_m", TensorRole::kFfnDown, Layers::kAll, DType::q4_k},
    {"q3_k_l", TensorRole::kAttentionV, Layers::kAll, DType::q5_k},
    {"q3_k_l", TensorRole::kAttentionOutput, Layers::kAll, DType::q5_k},
    {"q3_k_l", TensorRole::kFfnDown, Layers::kAll, DType::q5_k},
    {"iq4_xs", TensorRole::kAttentionV, Layers::kGrouped, DType::q5_k},
    {"iq4_xs", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q5_k},
    {"iq4_nl", TensorRole::kAttentionV, Layers::kGrouped, DType::q5_k},
    {"iq4_nl", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q5_k},
    {"q4_k_s", TensorRole::kAttentionV, Layers::kFirstFour, DType::q5_k},
    {"q4_k_s", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q5_k},
    {"q4_k_m", TensorRole::kAttentionV, Layers::kSpread, DType::q6_k},
    {"q4_k_m", TensorRole::kFfnDown, Layers::kSpread, DType::q6_k},
    {"q5_k_m", TensorRole::kAttentionV, Layers::kSpread, DType::q6_k},
    {"q5_k_m", TensorRole::kFfnDown, Layers::kSpread, DType::q6_k},
};

bool applies(Layers which, int64_t layer, const MixtureModel& model) {
  const int64_t count = model.layers;
  switch (which) {
    case Layers::kAll:
      return true;
    case Layers::kGrouped:
      return model.heads / model.kv_heads >= 4;
    case Layers::kFirstTwo:
      return layer < 2;
    case Layers::kFirstFour:
      return layer < 4;
    case Layers::kFirstSixteenth:
      return layer < count / 16;
    case Layers::kFirstEighth:
      return layer < count / 8;
    case Layers::kSpread:
      return layer < count / 8 || layer >= 7 * count / 8 || (layer - count / 8) % 3 == 2;
  }
  return false;
}

bool fits(DType dtype, int64_t columns) { return columns % dtype_info(dtype).block_elements == 0; }

DType by_rules(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model) {
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& r) {
    return r.type == type.name && r.role == tensor.role && applies(r.layers, tensor.layer, model);
  });
  const DType dtype = rule != std::end(kRules) ? rule->dtype : type.base;
  // Llama 70B, recognized by its layers: eight heads share these values, so more bits for them cost hardly anything.
  const bool is_70b = model.layers == 80 && model.kv_heads < model.heads;
  const bool few_bits = dtype == DType::q3_k || dtype == DType::q4_k;
  return tensor.role == TensorRole::kAttentionV && is_70b && few_bits ? DType::q5_k : dtype;
}

// The format of 32 elements a block that stands in for one of 256.
DType smaller_blocks(DType dtype) {
  switch (dtype) {
    case DType::iq4_xs:
      return DType::iq4_nl;
    case DType::q2_k:
    case DType::q3_k:
      return DType::q4_0;
    case DType::q4_k:
      return DType::q5_0;
    case DType::q5_k:
      return DType::q5_1;
    case DType::q6_k:
      return DType::q8_0;
    default:
      return dtype;
  }
}

}  // namespace

std::span<const FileType> file_types() { return kFileTypes; }

const FileType* find_file_type(uint32_t number) {
  const auto found = std::ranges::find(kFileTypes, number, &FileType::number);
  return found != std::end(kFileTypes) ? found : nullptr;
}

const FileType* find_file_type(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "q3_k" || lower == "q4_k" || lower == "q5_k") lower += "_m";
  const auto found = std::ranges::find(kFileTypes, lower, &FileType::name);
  return found != std::end(kFileTypes) ? found : nullptr;
}

DType mixture_dtype(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model) {
  if (!is_quantized(type.base)) return type.base;
  const bool is_head = tensor.role == TensorRole::kOutput || (tensor.role == TensorRole::kTokenEmbedding && model.tied);
  DType dtype = type.base;
  if (!is_head) {
    dtype = by_rules(type, tensor, model);
  } else if (type.base == DType::q8_0 || !fits(type.base, tensor.columns)) {
    dtype = DType::q8_0;
  } else {
    dtype = DType::q6_k;
  }
  if (!fits(dtype, tensor.columns)) dtype = smaller_blocks(dtype);
  return fits(dtype, tensor.columns) ? dtype : DType::f16;
}

}  // namespace gabbro
