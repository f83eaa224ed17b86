#include "src/pictures/single_file/other_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

constexpr const char* kBuilt = "supported: Stable Diffusion 1, 2 and SDXL in safetensors or GGUF";

// A part of a tensor's name that no other kind of model has.
struct Marker {
  const char* part;
  const char* title;
  bool of_pictures = true;  // else language models have it too
};

// In the order of the questions: the first match decides, since later models keep names of earlier ones.
constexpr Marker kMarkers[] = {
    {"lora_unet_", "a LoRA"},
    {"lora_te", "a LoRA"},
    {".lora_A.", "a LoRA", false},
    {".lora_down.", "a LoRA"},
    {".lora.down.", "a LoRA"},
    {"hada_w1_a", "a LoHa"},
    {"lokr_w", "a LoKr"},
    {"control_model.", "a ControlNet"},
    {"controlnet_cond_embedding.", "a ControlNet"},
    {"lora_controlnet", "a ControlNet"},
    {"controlnet_blocks.", "a ControlNet"},
    {"control_all_x_embedder.", "a ControlNet of Z-Image"},
    {"ip_adapter.", "an IP-Adapter"},
    {"image_proj.", "an IP-Adapter"},
    {"adapter.body.", "a T2I-Adapter"},
    {"body.0.in_conv.", "a T2I-Adapter"},
    {"motion_modules.", "a motion module of AnimateDiff"},
    {"time_stack.", "Stable Video Diffusion"},
    {"llm_adapter.", "Anima"},
    {"single_stream_modulation.lin", "FLUX.2"},
    {"double_stream_modulation_img.", "FLUX.2"},
    {"distilled_guidance_layer.", "Chroma"},
    {"txt_in.individual_token_refiner.", "HunyuanVideo"},
    {"double_blocks.0.img_attn.norm.key_norm.", "FLUX.1"},
    {"single_transformer_blocks.0.attn.norm_q.", "FLUX.1"},
    {"time_text_embed.guidance_embedder.", "FLUX.1"},
    {"txt_in.in_layer", "Qwen-Image 2.1"},
    {"transformer_blocks.0.img_mod.", "Qwen-Image"},
    {"layers.0.adaLN_modulation.0.", "Z-Image"},
    {"cap_embedder.0.", "Lumina 2"},
    {"joint_blocks.", "Stable Diffusion 3"},
    {"transformer_blocks.0.attn.add_q_proj.", "Stable Diffusion 3 in the layout of diffusers"},
    {"double_stream_blocks.", "HiDream"},
    {"head.modulation", "Wan"},
    {"patchify_proj.", "LTX-Video"},
    {"attention_y_norm.", "Sana"},
    {"caption_norm.", "Sana"},
    {"cross_attn.kv_linear.", "PixArt"},
    {"adaln_single.", "PixArt"},
    {"t5_y_embedder.", "Mochi"},
    {"style_embedder.", "Hunyuan-DiT"},
    {"visual_embeddings.", "Kandinsky 5"},
    {"encoder_hid_proj.", "a U-Net with states of another text encoder, such as Kolors"},
    {"double_layers.0.attn.w1q.", "AuraFlow"},
    {"clip_txt_mapper.", "Stable Cascade"},
    {"clip_txt_pooled_mapper.", "Stable Cascade"},
    {"net.blocks.0.", "Cosmos"},
    {"emb_params", "a textual inversion, which --embedding takes"},
    {"string_to_param.", "a textual inversion, which --embedding takes"},
    {"RRDB_trunk.", "an upscaler (ESRGAN)"},
    {"body.0.rdb1.", "an upscaler (ESRGAN)"},
    {"model.layers.0.self_attn.q_proj.", "a language model, which `gabbro run` takes", false},
    {"blk.0.attn_q.", "a language model, which `gabbro run` takes", false},
};

// Weights in forms that need more than their own numbers.
constexpr Marker kForms[] = {
    {".comfy_quant", "weights in a quantized form of ComfyUI"},
    {".scale_weight", "FP8 weights with scales"},
    {".weight_scale", "quantized weights with scales"},
    {"scaled_fp8", "FP8 weights with scales"},
    {".wscales", "weights in the form of SVDQuant"},
    {".qweight", "weights in a packed form"},
};

const CheckpointTensor* find_part(const Checkpoint& checkpoint, std::string_view part) {
  const auto tensors = checkpoint.tensors();
  const auto found = std::ranges::find_if(
      tensors, [&](const CheckpointTensor& tensor) { return tensor.name.find(part) != tensor.name.npos; });
  return found != tensors.end() ? &*found : nullptr;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::kBadInput, fmt::format("{}: {}", path, what), hint);
}

}  // namespace

void refuse_model(const std::string& path, const std::string& title) {
  refuse(path, fmt::format("holds {}, which is not supported here", title), kBuilt);
}

void refuse_other_models(const Checkpoint& checkpoint) {
  for (const Marker& marker : kMarkers) {
    const CheckpointTensor* const found = find_part(checkpoint, marker.part);
    if (found != nullptr) refuse_model(checkpoint.path(), fmt::format("{} ({})", marker.title, found->name));
  }
  for (const Marker& form : kForms) {
    const CheckpointTensor* const found = find_part(checkpoint, form.part);
    if (found == nullptr) continue;
    refuse(checkpoint.path(), fmt::format("has {} ({}), which are not supported here", form.title, found->name),
           "the same model in f16, or in a format of GGUF, is read");
  }
}

bool holds_pictures(const Checkpoint& checkpoint) {
  for (const char* part : {"input_blocks.0.0.weight", "first_stage_model."}) {
    if (find_part(checkpoint, part) != nullptr) return true;
  }
  return std::ranges::any_of(kMarkers, [&](const Marker& marker) {
    return marker.of_pictures && find_part(checkpoint, marker.part) != nullptr;
  });
}

void refuse_without_unet(const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.path();
  if (find_part(checkpoint, "down_blocks.0.resnets.0.") != nullptr ||
      find_part(checkpoint, "encoder.down_blocks.0.") != nullptr) {
    refuse(path, "is one part of a pipeline in the layout of diffusers", "name the folder with model_index.json");
  }
  if (find_part(checkpoint, "decoder.conv_in.weight") != nullptr)
    refuse(path, "holds an autoencoder and no U-Net", "--vae takes it next to a model");
  if (find_part(checkpoint, "token_embedding.weight") != nullptr)
    refuse(path, "holds a text encoder and no U-Net", "--text-encoder takes it next to a model");
  refuse(path, "holds no model of pictures that is known here (no input_blocks.0.0.weight)", kBuilt);
}

}  // namespace gabbro::pictures
