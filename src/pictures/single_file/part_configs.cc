#include "src/pictures/single_file/part_configs.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostBlocks = 256, kHeadWidth = 64;

// Names of one part, without its prefix.
class PartTensors {
 public:
  PartTensors(const Checkpoint& checkpoint, std::string prefix) : checkpoint_(checkpoint), prefix_(std::move(prefix)) {}

  bool has(const std::string& name) const { return checkpoint_.tensor(prefix_ + name) != nullptr; }
  // An axis of a tensor. Throws bad_input if the tensor is missing or has fewer axes.
  int64_t length(const std::string& name, size_t axis) const {
    const CheckpointTensor& tensor = checkpoint_.require_tensor(prefix_ + name);
    if (tensor.shape.size() <= axis || tensor.shape[axis] < 1)
      throw bad_input("{}: tensor {}: has another number of axes", checkpoint_.path(), tensor.name);
    return tensor.shape[axis];
  }
  // How many of pattern % 0, pattern % 1, ... are there.
  int64_t count(const std::string& before, const std::string& after) const {
    int64_t n = 0;
    while (n < kMostBlocks && has(before + std::to_string(n) + after)) ++n;
    return n;
  }
  [[noreturn]] void refuse(const std::string& what) const { throw bad_input("{}: {}", checkpoint_.path(), what); }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
};

constexpr const char* kQuery = ".attn2.to_q.weight";

// Layers of a transformer; 0: there is none.
int64_t transformer_depth(const PartTensors& tensors, const std::string& block) {
  return tensors.count(block + ".transformer_blocks.", kQuery);
}

struct FoundUNet {
  int64_t resnets = 0;
  std::vector<int64_t> channels, depths;
  std::vector<bool> down, up;  // whether a level attends
};

FoundUNet find_blocks(const PartTensors& tensors) {
  FoundUNet found;
  const int64_t blocks = [&] {
    int64_t n = 1;
    while (n < kMostBlocks && (tensors.has("input_blocks." + std::to_string(n) + ".0.in_layers.2.weight") ||
                               tensors.has("input_blocks." + std::to_string(n) + ".0.op.weight")))
      ++n;
    return n;
  }();
  const auto is_downsampler = [&](int64_t n) {
    return tensors.has("input_blocks." + std::to_string(n) + ".0.op.weight");
  };
  int64_t first = 1;
  while (first < blocks && !is_downsampler(first)) ++first;
  found.resnets = first - 1;
  if (found.resnets < 1 || (blocks - 1) % (found.resnets + 1) != found.resnets)
    tensors.refuse("its U-Net has levels with different numbers of blocks, which is not supported");
  const int64_t levels = (blocks + found.resnets) / (found.resnets + 1);
  const int64_t middle = transformer_depth(tensors, "middle_block.1");
  if (middle == 0) tensors.refuse("its U-Net has no transformer in the middle block, which is not supported");
  for (int64_t x = 0; x < levels; ++x) {
    const std::string block = "input_blocks." + std::to_string((found.resnets + 1) * x + 1);
    found.channels.push_back(tensors.length(block + ".0.in_layers.2.weight", 0));
    const int64_t below = transformer_depth(tensors, block + ".1");
    std::vector<int64_t> depths;
    for (int64_t i = 0; i < found.resnets; ++i) {
      depths.push_back(
          transformer_depth(tensors, "input_blocks." + std::to_string((found.resnets + 1) * x + i + 1) + ".1"));
    }
    const int64_t up_first = (found.resnets + 1) * (levels - 1 - x);
    const int64_t above = transformer_depth(tensors, "output_blocks." + std::to_string(up_first) + ".1");
    if (std::ranges::any_of(depths, [&](int64_t depth) { return depth != below; }))
      tensors.refuse("its U-Net has transformers of different depth in a level, which is not supported");
    for (int64_t i = 0; i <= found.resnets; ++i) {
      if (transformer_depth(tensors, "output_blocks." + std::to_string(up_first + i) + ".1") != above)
        tensors.refuse("its U-Net has transformers of different depth in a level, which is not supported");
    }
    found.down.push_back(below > 0);
    found.up.push_back(above > 0);
    const int64_t depth = std::max(below, above);
    const bool differs =
        (below > 0 && above > 0 && below != above) || (x + 1 == levels && depth > 0 && depth != middle);
    if (differs) tensors.refuse("its U-Net has transformers of different depth in a level, which is not supported");
    found.depths.push_back(depth > 0 ? depth : x + 1 == levels ? middle : 1);
  }
  return found;
}

}  // namespace

Json unet_config(const Checkpoint& checkpoint, const Signature& signature) {
  const PartTensors tensors(checkpoint, signature.unet);
  const FoundUNet found = find_blocks(tensors);
  const bool is_sd1 = signature.family == ModelFamily::kSd1;
  Json config = {{"_class_name", "UNet2DConditionModel"}};
  config["in_channels"] = tensors.length("input_blocks.0.0.weight", 1);
  config["out_channels"] = tensors.length("out.2.weight", 0);
  config["block_out_channels"] = found.channels;
  config["layers_per_block"] = found.resnets;
  config["transformer_layers_per_block"] = found.depths;
  config["cross_attention_dim"] = tensors.length("middle_block.1.transformer_blocks.0.attn2.to_k.weight", 1);
  config["use_linear_projection"] = !is_sd1;
  std::vector<int64_t> heads;
  for (const int64_t channels : found.channels)
    heads.push_back(is_sd1 ? 8 : std::max<int64_t>(1, channels / kHeadWidth));
  config["attention_head_dim"] = heads;
  std::vector<std::string> down, up;
  for (size_t i = 0; i < found.down.size(); ++i) {
    down.emplace_back(found.down[i] ? "CrossAttnDownBlock2D" : "DownBlock2D");
    up.insert(up.begin(), found.up[i] ? "CrossAttnUpBlock2D" : "UpBlock2D");
  }
  config["down_block_types"] = down;
  config["up_block_types"] = up;
  const int64_t size = signature.family == ModelFamily::kSdxl ? 128 : signature.predicts_velocity && !is_sd1 ? 96 : 64;
  config["sample_size"] = size;
  if (tensors.has("time_embed.cond_proj.weight"))
    config["time_cond_proj_dim"] = tensors.length("time_embed.cond_proj.weight", 1);
  if (signature.family == ModelFamily::kSdxl) {
    config["addition_embed_type"] = "text_time";
    config["addition_time_embed_dim"] = 256;
    config["projection_class_embeddings_input_dim"] = tensors.length("label_emb.0.0.weight", 1);
  }
  return config;
}

UNetLayout unet_layout(const Json& config, const std::string& name) {
  const JsonNode node(config, name);
  UNetLayout layout;
  const JsonNode resnets = node.at("layers_per_block");
  const std::vector<JsonNode> of_levels = resnets.is_array() ? resnets.elements() : std::vector{resnets};
  layout.resnets = of_levels.at(0).integer(1, kMostBlocks);
  for (const JsonNode& level : of_levels) {
    if (level.integer(1, kMostBlocks) != layout.resnets)
      throw bad_input("{}: levels with different numbers of blocks have no names in a single file", resnets.path());
  }
  const std::vector<JsonNode> down = node.at("down_block_types").elements(), up = node.at("up_block_types").elements();
  for (size_t i = 0; i < down.size() && i < up.size(); ++i) {
    layout.levels.push_back({.attends_down = down[i].string().starts_with("CrossAttn"),
                             .attends_up = up[up.size() - 1 - i].string().starts_with("CrossAttn")});
  }
  return layout;
}

Json autoencoder_config(const Checkpoint& checkpoint, const std::string& prefix, double scaling) {
  const PartTensors tensors(checkpoint, prefix);
  const int64_t levels = tensors.count("decoder.up.", ".block.0.conv1.weight");
  if (levels == 0) tensors.refuse("its autoencoder has no decoder.up.0.block.0");
  std::vector<int64_t> channels;
  for (int64_t x = 0; x < levels; ++x)
    channels.push_back(tensors.length("decoder.up." + std::to_string(x) + ".block.0.conv1.weight", 0));
  return {{"_class_name", "AutoencoderKL"},
          {"in_channels", 3},
          {"out_channels", tensors.length("decoder.conv_out.weight", 0)},
          {"latent_channels", tensors.length("decoder.conv_in.weight", 1)},
          {"block_out_channels", channels},
          {"layers_per_block", tensors.count("decoder.up.0.block.", ".conv1.weight") - 1},
          {"down_block_types", std::vector<std::string>(static_cast<size_t>(levels), "DownEncoderBlock2D")},
          {"up_block_types", std::vector<std::string>(static_cast<size_t>(levels), "UpDecoderBlock2D")},
          {"mid_block_add_attention", tensors.has("decoder.mid.attn_1.q.weight")},
          {"use_quant_conv", tensors.has("quant_conv.weight")},
          {"use_post_quant_conv", tensors.has("post_quant_conv.weight")},
          {"scaling_factor", scaling}};
}

Json text_encoder_config(const Checkpoint& checkpoint, const TextSignature& signature, bool drops_last) {
  const PartTensors tensors(checkpoint, signature.prefix);
  const bool open = signature.is_open_clip;
  const std::string model = !open && tensors.has("text_model.embeddings.token_embedding.weight") ? "text_model." : "";
  const std::string layers = open ? "transformer.resblocks." : model + "encoder.layers.";
  const char* const up = open ? ".mlp.c_fc.weight" : ".mlp.fc1.weight";
  const int64_t count = tensors.count(layers, up);
  if (count < 2) tensors.refuse("its text encoder " + signature.prefix + layers + "* has too few layers");
  const std::string positions = open ? "positional_embedding" : model + "embeddings.position_embedding.weight";
  const std::string projection = open ? "text_projection" : "text_projection.weight";
  Json config = {{"model_type", "clip_text_model"}};
  config["hidden_size"] = signature.width;
  config["num_hidden_layers"] = count - (drops_last ? 1 : 0);
  config["num_attention_heads"] = std::max<int64_t>(1, signature.width / kHeadWidth);
  config["intermediate_size"] = tensors.length(layers + "0" + up, 0);
  config["max_position_embeddings"] = tensors.length(positions, 0);
  config["vocab_size"] =
      tensors.length(open ? "token_embedding.weight" : model + "embeddings.token_embedding.weight", 0);
  // OpenAI trained CLIP-L with an approximation, OpenCLIP's models have the error function.
  constexpr int64_t kClipL = 768;
  config["hidden_act"] = open || signature.width > kClipL ? "gelu" : "quick_gelu";
  config["layer_norm_eps"] = 1e-5;
  if (tensors.has(projection)) config["projection_dim"] = tensors.length(projection, open ? 1 : 0);
  return config;
}

Json scheduler_config(const Signature& signature) {
  Json config = {{"num_train_timesteps", 1000},
                 {"beta_start", 0.00085},
                 {"beta_end", 0.012},
                 {"beta_schedule", "scaled_linear"},
                 {"steps_offset", 1},
                 {"timestep_spacing", "leading"},
                 {"prediction_type", signature.predicts_velocity ? "v_prediction" : "epsilon"}};
  switch (signature.family) {
    case ModelFamily::kSd1:
      config["_class_name"] = "PNDMScheduler";
      config["skip_prk_steps"] = true;
      config["set_alpha_to_one"] = false;
      break;
    case ModelFamily::kSd2:
      config["_class_name"] = "DDIMScheduler";
      config["set_alpha_to_one"] = false;
      break;
    case ModelFamily::kSdxl:
      config["_class_name"] = "EulerDiscreteScheduler";
      break;
  }
  if (signature.zero_terminal_snr) {
    config["rescale_betas_zero_snr"] = true;
    config["timestep_spacing"] = "trailing";
  }
  return config;
}

}  // namespace gabbro::pictures
