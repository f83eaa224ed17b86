#include "src/models/weights/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"
#include "src/models/config/adapter_config.h"

namespace gabbro::llm {
namespace {

// One of the two matrices of a pair, where it is in the file.
struct AdapterFactor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct AdapterFactors {
  AdapterFactor a, b;
};

AdapterFactor read_factor(const std::string& path, std::string_view name, const std::vector<int64_t>& shape,
                          DType dtype, std::span<const std::byte> data) {
  const bool plain = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  if (!plain || shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    throw bad_input("{}: tensor {} is not a matrix of f32, f16 or bf16: {} ({})", path, quote(name), dtype_name(dtype),
                    fmt::join(shape, ", "));
  }
  const int64_t count = shape[0] * shape[1];
  if (const auto found = find_non_finite(dtype, data.data(), count)) throw damaged_tensor(path, name, *found, shape);
  AdapterFactor factor{
      .name = std::string(name), .shape = shape, .values = std::vector<float>(static_cast<size_t>(count))};
  dequantize_row(dtype, data.data(), factor.values.data(), count);
  return factor;
}

AdapterPair pair_of(const std::string& path, const std::string& module, AdapterFactors factors) {
  if (factors.a.shape.empty() || factors.b.shape.empty())
    throw bad_input("{}: module {} has one of its two matrices alone", path, quote(module));
  if (factors.a.shape[0] != factors.b.shape[1]) {
    throw bad_input("{}: tensor {} has shape ({}), and {} ({}): their ranks differ", path, quote(factors.a.name),
                    fmt::join(factors.a.shape, ", "), quote(factors.b.name), fmt::join(factors.b.shape, ", "));
  }
  return {.tensor = factors.a.name,
          .rank = factors.a.shape[0],
          .rows = factors.b.shape[0],
          .columns = factors.a.shape[1],
          .a = std::move(factors.a.values),
          .b = std::move(factors.b.values)};
}

// Cuts `suffix` off.
bool strip_end(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

// The factor that a tensor of PEFT holds, and the module that it belongs to: "base_model.model.MODULE.lora_A.weight",
// in early files "....lora_A.default.weight". Null for other tensors.
AdapterFactor* peft_factor(std::string name, std::map<std::string, AdapterFactors>& factors) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (!name.starts_with(kPrefix)) return nullptr;
  name.erase(0, kPrefix.size());
  if (strip_end(name, ".lora_A.weight") || strip_end(name, ".lora_A.default.weight")) return &factors[name].a;
  if (strip_end(name, ".lora_B.weight") || strip_end(name, ".lora_B.default.weight")) return &factors[name].b;
  return nullptr;
}

}  // namespace

void Adapter::read_peft(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/adapter_config.json")) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is not a LoRA adapter: it has no adapter_config.json", folder),
                "--lora names a folder of PEFT, or a GGUF file of llama.cpp");
  }
  const AdapterConfig config = AdapterConfig::read(folder + "/adapter_config.json");
  const std::string path = folder + "/adapter_model.safetensors";
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: no such file", path),
                "adapters are read as safetensors; PEFT's save_pretrained writes them so");
  }
  const safetensors::File file(path);
  std::map<std::string, AdapterFactors> factors;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    if (tensor.name.ends_with(".base_layer.weight")) continue;  // a copy of the model's head or embeddings
    AdapterFactor* const factor = peft_factor(tensor.name, factors);
    if (factor == nullptr) {
      throw bad_input("{}: tensor {} is not one of a LoRA of linear layers, which alone are supported", path,
                      quote(tensor.name));
    }
    if (!factor->shape.empty()) throw bad_input("{}: tensor {} is there twice", path, quote(tensor.name));
    *factor = read_factor(path, tensor.name, tensor.shape, tensor.dtype(), tensor.data);
  }
  for (auto& [module, both] : factors) {
    AdapterPair pair = pair_of(path, module, std::move(both));
    pair.factor = config.factor(module, pair.rank);
    pairs_.emplace(module, std::move(pair));
  }
  file.mapped()->require_unchanged();
}

// As llama.cpp's convert_lora_to_gguf.py writes them.
void Adapter::read_gguf(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  const std::string_view type = file.string_or("general.type", ""), kind = file.string_or("adapter.type", "");
  if (type != "adapter" || kind != "lora") {
    throw bad_input("{}: general.type is {} and adapter.type {}: this is not a LoRA adapter", path, quote(type),
                    quote(kind));
  }
  architecture_ = file.require_string("general.architecture");
  const float alpha = file.f32_or("adapter.lora.alpha", 0);
  if (!std::isfinite(alpha)) throw bad_input("{}: adapter.lora.alpha is not a number", path);
  gguf_ = true;
  std::map<std::string, AdapterFactors> factors;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    std::string module(tensor.name);
    const bool is_a = strip_end(module, ".weight.lora_a"), is_b = !is_a && strip_end(module, ".weight.lora_b");
    if (!is_a && !is_b) throw bad_input("{}: tensor {} is not one of a LoRA of matrices", path, quote(tensor.name));
    AdapterFactors& both = factors[module];
    (is_a ? both.a : both.b) = read_factor(path, tensor.name, tensor.shape, tensor.dtype(), tensor.data);
  }
  for (auto& [module, both] : factors) {
    AdapterPair pair = pair_of(path, module, std::move(both));
    pair.factor = alpha == 0 ? 1.0f : alpha / static_cast<float>(pair.rank);
    pairs_.emplace(module, std::move(pair));
  }
  for (const auto& part : file.parts()) part->require_unchanged();
}

Adapter Adapter::open(const std::string& path) {
  namespace fs = std::filesystem;
  Adapter adapter;
  adapter.path_ = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    adapter.read_peft(path);
  } else if (path.ends_with(".safetensors")) {
    const std::string folder = fs::path(path).parent_path().string();
    adapter.read_peft(folder.empty() ? "." : folder);
  } else {
    adapter.read_gguf(path);
  }
  if (adapter.pairs_.empty()) throw bad_input("{}: the adapter has no matrices", path);
  return adapter;
}

const AdapterPair* Adapter::find(std::span<const WeightName> names, const std::string& name, const MatrixSize& size,
                                 const TransformersLayout& theirs) const {
  std::string module = name;
  if (!strip_end(module, ".weight")) return nullptr;
  const auto of = [&](const std::string& key) {
    const auto found = pairs_.find(key);
    return found != pairs_.end() ? &found->second : nullptr;
  };
  const AdapterPair* pair = nullptr;
  if (gguf_) {
    pair = of(module);
  } else {
    constexpr std::string_view kModel = "model.";  // that models without a head do not have
    for (std::string candidate : transformers_names(names, name)) {
      strip_end(candidate, ".weight");
      if (pair == nullptr) pair = of(candidate);
      if (pair == nullptr && candidate.starts_with(kModel)) pair = of(candidate.substr(kModel.size()));
    }
  }
  if (pair == nullptr) return nullptr;
  const int64_t rows = size.rows + (gguf_ ? 0 : theirs.skipped_rows + theirs.trailing_rows);
  if (pair->columns != size.columns || pair->rows != rows) {
    throw bad_input("{}: tensor {} is for a matrix of shape ({}, {}), the model's is ({}, {})", path_,
                    quote(pair->tensor), pair->rows, pair->columns, rows, size.columns);
  }
  return pair;
}

int64_t Adapter::stored_row(const TransformersLayout& theirs, int64_t row) const {
  if (gguf_) return row;
  return (theirs.row && !theirs.transposed ? theirs.row(row) : row) + theirs.skipped_rows;
}

void Adapter::require_used(std::span<const AdapterPair* const> used) const {
  for (const auto& [module, pair] : pairs_) {
    if (std::ranges::find(used, &pair) != used.end()) continue;
    throw bad_input("{}: tensor {}: the model has no linear layer of that name that an adapter can change", path_,
                    quote(pair.tensor));
  }
}

size_t Adapter::digest() const {
  size_t digest = 0;
  const auto add = [&](size_t value) { digest = digest * 31 + value; };
  const auto add_values = [&](const std::vector<float>& values) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    add(std::hash<std::string_view>()(bytes));
  };
  for (const auto& [module, pair] : pairs_) {
    add(std::hash<std::string>()(module));
    add(std::hash<float>()(pair.factor));
    add_values(pair.a);
    add_values(pair.b);
  }
  return digest;
}

void check_adapter(const Adapter& adapter, std::span<const std::string_view> architectures) {
  if (adapter.architecture().empty()) return;
  if (std::ranges::find(architectures, adapter.architecture()) != architectures.end()) return;
  throw bad_input("{}: general.architecture is {}, the model's is {}", adapter.path(), quote(adapter.architecture()),
                  quote(architectures.front()));
}

std::pair<std::string, float> parse_adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text, 1.0f};
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  float scale = 0;
  const auto [stop, error] = std::from_chars(begin, end, scale);
  if (error != std::errc() || stop != end || !std::isfinite(scale))
    throw bad_input("--lora: '{}' has no number after its last colon", text);
  return {text.substr(0, colon), scale};
}

}  // namespace gabbro::llm
