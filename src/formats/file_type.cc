#include "src/formats/file_type.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace gabbro {
namespace {

// Types that are named after a mixture, or are not a block format, by rising size of equal bases.
constexpr FileType kMixtures[] = {
    {28, "iq2_s", DType::iq2_xs}, {29, "iq2_m", DType::iq2_s}, {22, "iq3_xs", DType::iq3_s},
    {27, "iq3_m", DType::iq3_s},  {21, "q2_k_s", DType::q2_k}, {10, "q2_k", DType::q2_k},
    {11, "q3_k_s", DType::q3_k},  {12, "q3_k_m", DType::q3_k}, {13, "q3_k_l", DType::q3_k},
    {14, "q4_k_s", DType::q4_k},  {15, "q4_k_m", DType::q4_k}, {16, "q5_k_s", DType::q5_k},
    {17, "q5_k_m", DType::q5_k},  {1, "f16", DType::f16},      {32, "bf16", DType::bf16},
    {0, "f32", DType::f32},
};

// Bases of the types that are proposed in place of larger ones. Not: formats of models that are trained for them, and
// lattices, whose codes are unpacked at load.
constexpr DType kProposed[] = {DType::q2_k,   DType::q3_k,   DType::q4_0, DType::q4_1, DType::q4_k,
                               DType::q5_0,   DType::q5_1,   DType::q5_k, DType::q6_k, DType::q8_0,
                               DType::iq4_nl, DType::iq4_xs, DType::f16,  DType::bf16, DType::f32};

constexpr double bits_of(const FileType& type) {
  const DTypeInfo info = dtype_info(type.base);
  return 8.0 * info.block_bytes / info.block_elements;
}

// The mixtures, and the block formats that are a type by themselves.
std::vector<FileType> make_file_types() {
  std::vector<FileType> types;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const int number = quant_traits(dtype).file_type;
    if (number >= 0) types.push_back({static_cast<uint32_t>(number), dtype_name(dtype), dtype});
  }
  types.insert(types.end(), std::begin(kMixtures), std::end(kMixtures));
  for (FileType& type : types) type.proposed = std::ranges::find(kProposed, type.base) != std::end(kProposed);
  std::ranges::stable_sort(types, {}, bits_of);
  return types;
}

// Layers that a rule applies to.
enum class Layers {
  kAll,
  kGrouped,  // all, where four or more query heads share a key head
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kMiddle,  // all but the first and the last eighth
  kSpread,  // the first and the last eighth, and every third between
};

struct Rule {
  std::string_view type;
  TensorRole role;
  Layers layers;
  DType dtype;
  bool any_size = false;  // in models of 70B parameters too
};

// The mixtures of llama.cpp (src/llama-quant.cpp, 2026), for the llama graph; the first rule that fits counts.
constexpr Rule kRules[] = {
    {"iq1_s", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq1_s", TensorRole::kTokenEmbedding, Layers::kAll, DType::q2_k},
    {"iq1_s", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq1_s", TensorRole::kAttentionV, Layers::kAll, DType::q2_k},
    {"iq1_s", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q2_k},
    {"iq1_s", TensorRole::kAttentionOutput, Layers::kAll, DType::iq2_xxs},
    {"iq1_m", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq1_m", TensorRole::kTokenEmbedding, Layers::kAll, DType::q2_k},
    {"iq1_m", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq1_m", TensorRole::kAttentionV, Layers::kAll, DType::q2_k},
    {"iq1_m", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q2_k},
    {"iq1_m", TensorRole::kAttentionOutput, Layers::kAll, DType::iq2_xxs},
    {"iq2_xxs", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq2_xxs", TensorRole::kTokenEmbedding, Layers::kAll, DType::q2_k},
    {"iq2_xxs", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq2_xxs", TensorRole::kAttentionV, Layers::kAll, DType::q2_k},
    {"iq2_xxs", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q2_k},
    {"iq2_xs", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq2_xs", TensorRole::kTokenEmbedding, Layers::kAll, DType::q2_k},
    {"iq2_xs", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq2_xs", TensorRole::kAttentionV, Layers::kAll, DType::q2_k},
    {"iq2_xs", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q2_k},
    {"iq2_s", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq2_s", TensorRole::kTokenEmbedding, Layers::kAll, DType::iq3_s},
    {"iq2_s", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq2_s", TensorRole::kAttentionV, Layers::kAll, DType::iq3_s},
    {"iq2_s", TensorRole::kFfnDown, Layers::kFirstEighth, DType::iq3_s},
    {"iq2_s", TensorRole::kAttentionOutput, Layers::kAll, DType::iq3_s},
    {"iq2_m", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq2_m", TensorRole::kTokenEmbedding, Layers::kAll, DType::iq3_s},
    {"iq2_m", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k, true},
    {"iq2_m", TensorRole::kAttentionV, Layers::kAll, DType::iq3_s},
    {"iq2_m", TensorRole::kFfnDown, Layers::kFirstEighth, DType::iq3_s},
    {"iq2_m", TensorRole::kAttentionOutput, Layers::kAll, DType::iq3_s},
    {"iq3_xxs", TensorRole::kOutput, Layers::kAll, DType::q5_k},
    {"iq3_xxs", TensorRole::kTokenEmbedding, Layers::kAll, DType::iq3_s},
    {"iq3_xxs", TensorRole::kAttentionQ, Layers::kAll, DType::iq2_s},
    {"iq3_xxs", TensorRole::kAttentionK, Layers::kAll, DType::iq2_s},
    {"iq3_xxs", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k},
    {"iq3_xxs", TensorRole::kAttentionOutput, Layers::kAll, DType::iq3_s},
    {"iq3_xs", TensorRole::kAttentionQ, Layers::kAll, DType::iq3_xxs},
    {"iq3_xs", TensorRole::kAttentionK, Layers::kAll, DType::iq3_xxs},
    {"iq3_xs", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k},
    {"iq3_xs", TensorRole::kFfnGate, Layers::kMiddle, DType::iq3_xxs},
    {"iq3_xs", TensorRole::kFfnUp, Layers::kMiddle, DType::iq3_xxs},
    {"iq3_s", TensorRole::kAttentionV, Layers::kGrouped, DType::q4_k},
    {"iq3_m", TensorRole::kAttentionV, Layers::kAll, DType::q4_k},
    {"iq3_m", TensorRole::kAttentionOutput, Layers::kAll, DType::q4_k},
    {"iq3_m", TensorRole::kFfnDown, Layers::kFirstEighth, DType::q4_k},
    {"tq1_0", TensorRole::kTokenEmbedding, Layers::kAll, DType::q4_k},
    {"tq2_0", TensorRole::kTokenEmbedding, Layers::kAll, DType::q4_k},
    {"q2_0", TensorRole::kTokenEmbedding, Layers::kAll, DType::q4_k},
    {"mxfp4", TensorRole::kOutput, Layers::kAll, DType::q8_0},
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
    case Layers::kMiddle:
      return layer >= count / 8 && layer < 7 * count / 8;
    case Layers::kSpread:
      return layer < count / 8 || layer >= 7 * count / 8 || (layer - count / 8) % 3 == 2;
  }
  return false;
}

bool fits(DType dtype, int64_t columns) { return columns % dtype_info(dtype).block_elements == 0; }

const Rule* find_rule(const FileType& type, TensorRole role, int64_t layer, const MixtureModel& model) {
  const auto* rule = std::ranges::find_if(
      kRules, [&](const Rule& r) { return r.type == type.name && r.role == role && applies(r.layers, layer, model); });
  return rule != std::end(kRules) ? rule : nullptr;
}

DType by_rules(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model) {
  const Rule* rule = find_rule(type, tensor.role, tensor.layer, model);
  const DType dtype = rule != nullptr ? rule->dtype : type.base;
  // Llama 70B, recognized by its layers: eight heads share these values, so more bits for them cost hardly anything.
  const bool is_70b = model.layers == 80 && model.kv_heads < model.heads && (rule == nullptr || !rule->any_size);
  const bool few_bits = dtype == DType::q3_k || dtype == DType::q4_k;
  return tensor.role == TensorRole::kAttentionV && is_70b && few_bits ? DType::q5_k : dtype;
}

DType head_dtype(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model) {
  if (type.base == DType::q8_0 || !fits(type.base, tensor.columns)) return DType::q8_0;
  const Rule* rule = find_rule(type, TensorRole::kOutput, 0, model);
  return rule != nullptr ? rule->dtype : DType::q6_k;
}

// Formats of 32 elements a block that replace larger ones if rows are not a whole number of blocks.
struct Substitute {
  DType format, smaller;
};
constexpr Substitute kSubstitutes[] = {
    {DType::iq1_s, DType::iq4_nl},  {DType::iq1_m, DType::iq4_nl},  {DType::iq2_xxs, DType::iq4_nl},
    {DType::iq2_xs, DType::iq4_nl}, {DType::iq2_s, DType::iq4_nl},  {DType::iq3_xxs, DType::iq4_nl},
    {DType::iq3_s, DType::iq4_nl},  {DType::iq4_xs, DType::iq4_nl}, {DType::q2_0, DType::q4_0},
    {DType::tq1_0, DType::q4_0},    {DType::tq2_0, DType::q4_0},    {DType::q2_k, DType::q4_0},
    {DType::q3_k, DType::q4_0},     {DType::q4_k, DType::q5_0},     {DType::q5_k, DType::q5_1},
    {DType::q6_k, DType::q8_0},
};

DType smaller_blocks(DType dtype) {
  const auto* found = std::ranges::find(kSubstitutes, dtype, &Substitute::format);
  return found != std::end(kSubstitutes) ? found->smaller : dtype;
}

}  // namespace

std::span<const FileType> file_types() {
  static const std::vector<FileType> types = make_file_types();
  return types;
}

const FileType* find_file_type(uint32_t number) {
  const auto found = std::ranges::find(file_types(), number, &FileType::number);
  return found != file_types().end() ? &*found : nullptr;
}

const FileType* find_file_type(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "q3_k" || lower == "q4_k" || lower == "q5_k") lower += "_m";
  const auto found = std::ranges::find(file_types(), lower, &FileType::name);
  return found != file_types().end() ? &*found : nullptr;
}

DType mixture_dtype(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model) {
  if (!is_quantized(type.base)) return type.base;
  const bool is_head = tensor.role == TensorRole::kOutput || (tensor.role == TensorRole::kTokenEmbedding && model.tied);
  DType dtype = is_head ? head_dtype(type, tensor, model) : by_rules(type, tensor, model);
  if (!fits(dtype, tensor.columns)) dtype = smaller_blocks(dtype);
  return fits(dtype, tensor.columns) ? dtype : DType::f16;
}

bool needs_importance(const FileType& type) {
  constexpr std::string_view kTypes[] = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "q2_k_s"};
  return std::ranges::find(kTypes, type.name) != std::end(kTypes);
}

bool needs_importance(const FileType& type, std::string_view tensor, DType dtype) {
  constexpr DType kFormats[] = {DType::iq1_s, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s};
  const bool embeddings = tensor == "token_embd.weight";
  if (dtype == DType::iq1_m) return !embeddings && tensor != "output.weight";
  if (dtype == DType::q2_k) return !embeddings && type.name == "q2_k_s";
  return std::ranges::find(kFormats, dtype) != std::end(kFormats);
}

}  // namespace gabbro
