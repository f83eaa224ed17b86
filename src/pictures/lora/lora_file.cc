#include "src/pictures/lora/lora_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"

namespace gabbro::pictures {
namespace {

// How names end, longest first where one ends with another.
struct Ending {
  std::string_view text, part;
};
constexpr Ending kEndings[] = {{".lora_linear_layer.down.weight", "down"},
                               {".lora_linear_layer.up.weight", "up"},
                               {".lora_down.weight", "down"},
                               {".lora_up.weight", "up"},
                               {".lora_mid.weight", "mid"},
                               {".lora_A.default.weight", "down"},
                               {".lora_B.default.weight", "up"},
                               {".lora_A.weight", "down"},
                               {".lora_B.weight", "up"},
                               {"_lora.down.weight", "down"},
                               {"_lora.up.weight", "up"},
                               {".lora.down.weight", "down"},
                               {".lora.up.weight", "up"},
                               {".lora_magnitude_vector.default.weight", "dora_scale"},
                               {".lora_magnitude_vector.default", "dora_scale"},
                               {".lora_magnitude_vector.weight", "dora_scale"},
                               {".lora_magnitude_vector", "dora_scale"},
                               {".dora_scale", "dora_scale"},
                               {".alpha", "alpha"},
                               {".hada_w1_a", "hada_w1_a"},
                               {".hada_w1_b", "hada_w1_b"},
                               {".hada_w2_a", "hada_w2_a"},
                               {".hada_w2_b", "hada_w2_b"},
                               {".hada_t1", "hada_t1"},
                               {".hada_t2", "hada_t2"},
                               {".lokr_w1_a", "lokr_w1_a"},
                               {".lokr_w1_b", "lokr_w1_b"},
                               {".lokr_w2_a", "lokr_w2_a"},
                               {".lokr_w2_b", "lokr_w2_b"},
                               {".lokr_w1", "lokr_w1"},
                               {".lokr_w2", "lokr_w2"},
                               {".lokr_t2", "lokr_t2"},
                               {".diff_b", "diff_b"},
                               {".diff", "diff"},
                               {".set_weight", "set_weight"},
                               {".w_norm", "w_norm"},
                               {".b_norm", "b_norm"}};

// Prefixes of programs before a layer's path, with '_' for '.'; the empty prefix is the last.
struct Prefix {
  std::string_view text;
  int text_encoder = 0;  // from 1 on
};
constexpr Prefix kPrefixes[] = {{"base_model_model_text_model_", 1},
                                {"base_model_model_unet_"},
                                {"base_model_model_"},
                                {"lora_unet_"},
                                {"lora_transformer_"},
                                {"lora_te1_text_model_", 1},
                                {"lora_te2_text_model_", 2},
                                {"lora_te_text_model_", 1},
                                {"lora_text_encoder_text_model_", 1},
                                {"lycoris_text_model_", 1},
                                {"lycoris_unet_"},
                                {"lycoris_"},
                                {"text_encoders_clip_l_transformer_text_model_", 1},
                                {"text_encoders_clip_g_transformer_text_model_", 2},
                                {"text_encoder_text_model_", 1},
                                {"text_encoder_2_text_model_", 2},
                                {"text_model_", 1},
                                {"model_diffusion_model_"},
                                {"diffusion_model_"},
                                {"unet_"},
                                {""}};

}  // namespace

int64_t LoraTensor::columns() const {
  int64_t count = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) count *= shape[axis];
  return count;
}

LoraKey parse_lora_key(std::string_view key) {
  for (const Ending& ending : kEndings) {
    if (!key.ends_with(ending.text)) continue;
    std::string path(key.substr(0, key.size() - ending.text.size()));
    std::ranges::replace(path, '.', '_');
    // diffusers' attention processors: "attn1.processor.to_q_lora.down.weight", where "to_out" is the layer 0.
    if (const size_t at = path.find("_processor_"); at != path.npos) path.erase(at, std::string("_processor").size());
    if (ending.text.starts_with("_lora") && path.ends_with("_to_out")) path += "_0";
    for (const Prefix& prefix : kPrefixes) {
      if (!path.starts_with(prefix.text)) continue;
      const std::string of_text = prefix.text_encoder > 0 ? fmt::format("text{}_", prefix.text_encoder) : "";
      return {.layer = of_text + path.substr(prefix.text.size()), .part = std::string(ending.part)};
    }
  }
  return {};
}

namespace {

LoraTensor read_tensor(const std::string& path, const safetensors::TensorInfo& tensor) {
  LoraTensor read{.key = tensor.name, .shape = tensor.shape};
  int64_t count = 1;
  for (const int64_t length : tensor.shape) count *= length;
  if (count == 0) throw bad_input("{}: {}: has no elements", path, tensor.name);
  const DType dtype = tensor.dtype();
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    throw bad_input("{}: {}: is of dtype {}; adapters have F32, F16 or BF16", path, tensor.name, tensor.dtype_name);
  read.values.resize(static_cast<size_t>(count));
  dequantize_row(dtype, tensor.data.data(), read.values.data(), count);
  for (const float value : read.values) {
    if (!std::isfinite(value)) throw bad_input("{}: {}: has values that are not numbers", path, tensor.name);
  }
  return read;
}

LoraFile read_tensors(std::span<const safetensors::TensorInfo> tensors, const std::string& path) {
  LoraFile lora{.path = path};
  for (const safetensors::TensorInfo& tensor : tensors) {
    if (std::ranges::any_of(tensor.name, [](unsigned char c) { return c < ' '; }))
      throw bad_input("{}: {}: a name with control characters", path, quote(tensor.name));
    const LoraKey key = parse_lora_key(tensor.name);
    if (key.part.empty()) throw bad_input("{}: {}: a tensor of no known kind of adapter", path, tensor.name);
    const bool is_new = lora.layers[key.layer].emplace(key.part, read_tensor(path, tensor)).second;
    if (!is_new) throw bad_input("{}: {}: the layer has this tensor twice", path, tensor.name);
  }
  if (lora.layers.empty()) throw bad_input("{}: has no tensors", path);
  return lora;
}

}  // namespace

LoraFile parse_lora(std::span<const std::byte> bytes, const std::string& path) {
  return read_tensors(safetensors::parse(bytes, path).tensors, path);
}

LoraFile read_lora(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".pt" || ending == ".bin" || ending == ".ckpt" || ending == ".pth") {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is a pickle, which can run code, and is not read", path),
                "a safetensors file of the same adapter is read");
  }
  const safetensors::File file(path);
  return read_tensors(file.tensors(), path);
}

}  // namespace gabbro::pictures
