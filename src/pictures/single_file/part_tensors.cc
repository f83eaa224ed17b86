#include "src/pictures/single_file/part_tensors.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/transposed_tensor.h"
#include "src/pictures/single_file/name_table.h"
#include "src/pictures/single_file/part_configs.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostLayers = 1024;

using NamedTensors = std::vector<std::pair<std::string, CheckpointTensor>>;

// Tensors whose names begin with `prefix`, under the rest of their names.
NamedTensors with_prefix(const Checkpoint& checkpoint, const std::string& prefix) {
  NamedTensors found;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.name.starts_with(prefix)) found.emplace_back(tensor.name.substr(prefix.size()), tensor);
  }
  return found;
}

// [O, I, 1, 1] as [O, I].
void as_matrix(CheckpointTensor& tensor) {
  while (tensor.shape.size() > 2 && tensor.shape.back() == 1) tensor.shape.pop_back();
}

// A third of a fused matrix or bias of queries, keys and values.
CheckpointTensor third_of(const CheckpointTensor& fused, int64_t index) {
  const int64_t rows = fused.shape.empty() ? 0 : fused.shape[0];
  const bool is_whole = rows % 3 == 0 && rows > 0 && fused.data.size() % 3 == 0 &&
                        (fused.shape.size() == 2 || (fused.shape.size() == 1 && !is_quantized(fused.dtype())));
  if (!is_whole) throw bad_input("{}: tensor {} cannot be cut into three", fused.file->path(), quote(fused.name));
  CheckpointTensor third = fused;
  const size_t bytes = fused.data.size() / 3;
  third.shape[0] = rows / 3;
  third.data = fused.data.subspan(bytes * static_cast<size_t>(index), bytes);
  return third;
}

// The number in "PATHnumber.rest"; -1: the name begins otherwise.
int64_t number_after(std::string_view name, std::string_view path) {
  if (!name.starts_with(path)) return -1;
  const std::string_view rest = name.substr(path.size()), digits = rest.substr(0, rest.find('.'));
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != digits.npos) return -1;
  return std::stoll(std::string(digits));
}

NamedTensors open_clip_tensors(const NamedTensors& found, int64_t layers) {
  const NameTable table = NameTable::of_open_clip(layers);
  NamedTensors out;
  for (const auto& [name, tensor] : found) {
    const int64_t layer = number_after(name, "transformer.resblocks.");
    const size_t fused = name.find(".attn.in_proj_");
    if (layer >= 0 && layer < layers && fused != name.npos) {
      const std::string kind = name.substr(fused + std::string_view(".attn.in_proj_").size());  // "weight" or "bias"
      for (const auto& [index, part] : {std::pair(0, "q_proj"), {1, "k_proj"}, {2, "v_proj"}}) {
        out.emplace_back(fmt::format("text_model.encoder.layers.{}.self_attn.{}.{}", layer, part, kind),
                         third_of(tensor, index));
      }
    } else if (auto translated = table.to_diffusers(name)) {
      out.emplace_back(std::move(*translated), name == "text_projection" ? transposed_tensor(tensor) : tensor);
    }
  }
  return out;
}

}  // namespace

Checkpoint unet_tensors(const Checkpoint& checkpoint, const std::string& prefix, const std::string& name,
                        const Json& config) {
  const NameTable table = NameTable::of_unet(unet_layout(config, name));
  NamedTensors tensors;
  for (auto& [original, tensor] : with_prefix(checkpoint, prefix)) {
    auto translated = table.to_diffusers(original);
    if (translated) {
      tensors.emplace_back(std::move(*translated), tensor);
    } else if (!prefix.empty()) {
      throw bad_input("{}: tensor {} belongs to no U-Net that is known here", checkpoint.path(), quote(tensor.name));
    }
  }
  return Checkpoint::of_tensors(checkpoint, name, config.dump(), std::move(tensors));
}

Checkpoint autoencoder_tensors(const Checkpoint& checkpoint, const std::string& prefix, const std::string& name,
                               const Json& config) {
  const JsonNode widths = JsonNode(config, name).at("block_out_channels");
  const NameTable table = NameTable::of_autoencoder(std::ssize(widths.elements()));
  NamedTensors tensors;
  for (auto& [original, tensor] : with_prefix(checkpoint, prefix)) {
    auto translated = table.to_diffusers(original);
    if (!translated) continue;  // what training needs
    if (original.find(".mid.attn_1.") != original.npos) as_matrix(tensor);
    tensors.emplace_back(std::move(*translated), tensor);
  }
  return Checkpoint::of_tensors(checkpoint, name, config.dump(), std::move(tensors));
}

Checkpoint text_tensors(const Checkpoint& checkpoint, const TextSignature& signature, const std::string& name,
                        const Json& config) {
  const int64_t layers = JsonNode(config, name).at("num_hidden_layers").integer(1, kMostLayers);
  NamedTensors found = with_prefix(checkpoint, signature.prefix), tensors;
  if (signature.is_open_clip) {
    tensors = open_clip_tensors(found, layers);
  } else {
    for (auto& [original, tensor] : found) {
      std::string_view inside = original;
      if (inside.starts_with("text_model.")) inside.remove_prefix(std::string_view("text_model.").size());
      const bool is_text = inside.starts_with("embeddings.") || inside.starts_with("encoder.layers.") ||
                           inside.starts_with("final_layer_norm.") || inside.starts_with("text_projection.");
      const bool is_beyond = number_after(inside, "encoder.layers.") >= layers;
      if (is_text && !is_beyond && inside != "embeddings.position_ids") tensors.emplace_back(original, tensor);
    }
  }
  return Checkpoint::of_tensors(checkpoint, name, config.dump(), std::move(tensors));
}

}  // namespace gabbro::pictures
