#include "src/models/diffusion/unet_config.h"

#include "src/base/error.h"
#include "src/models/diffusion/model_fields.h"

namespace gabbro::diffusion {
namespace {

// Fields of models that are not built, with the values that mean "not used".
void refuse_other_kinds(const JsonNode& config) {
  require_field(config, "act_fn", {"\"silu\"", "\"swish\""});
  require_field(config, "mid_block_type", {"\"UNetMidBlock2DCrossAttn\""});
  require_field(config, "resnet_time_scale_shift", {"\"default\""});
  require_field(config, "time_embedding_type", {"\"positional\""});
  require_field(config, "attention_type", {"\"default\""});
  require_field(config, "conv_in_kernel", {"3"});
  require_field(config, "conv_out_kernel", {"3"});
  require_field(config, "downsample_padding", {"1"});
  for (const char* name : {"dual_cross_attention", "only_cross_attention", "mid_block_only_cross_attention",
                           "resnet_skip_time_act", "class_embeddings_concat", "resnet_out_scale_factor"})
    require_field(config, name, {"false", "1.0", "1"});
  require_field(config, "addition_embed_type", {"\"text_time\""});
  for (const char* name :
       {"class_embed_type", "num_class_embeds", "encoder_hid_dim", "encoder_hid_dim_type", "time_embedding_act_fn",
        "timestep_post_act", "time_embedding_dim", "cross_attention_norm", "reverse_transformer_layers_per_block"})
    require_field(config, name, {});
}

std::vector<bool> attends(const JsonNode& config, std::string_view field, size_t count, std::string_view with,
                          std::string_view without) {
  const auto types = config.find(field);
  std::vector<bool> all;
  if (!types) throw bad_input("{}.{}: is missing", config.path(), field);
  for (const JsonNode& type : types->elements()) {
    const std::string& name = type.string();
    if (name != with && name != without) {
      throw Error(ErrorCode::kBadInput, fmt::format("{}: blocks of type '{}' are not supported", type.path(), name),
                  fmt::format("supported: {}, {}", with, without));
    }
    all.push_back(name == with);
  }
  if (all.size() != count) throw bad_input("{}: has {} types for {} levels", types->path(), all.size(), count);
  return all;
}

}  // namespace

UNetConfig read_unet_config(const JsonNode& config) {
  refuse_other_kinds(config);
  UNetConfig c;
  c.in_channels = positive_or(config, "in_channels", 4, kMostChannels);
  c.out_channels = positive_or(config, "out_channels", 4, kMostChannels);
  c.sample_size = positive_or(config, "sample_size", 64, kMostChannels);
  c.groups = positive_or(config, "norm_num_groups", 32, kMostChannels);
  c.norm_eps = number_or(config, "norm_eps", 1e-5);
  c.mid_scale = number_or(config, "mid_block_scale_factor", 1);
  if (!(c.mid_scale > 0)) throw bad_input("{}.mid_block_scale_factor: is not positive", config.path());
  c.linear_projection = config.boolean_or("use_linear_projection", false);
  c.centered_input = config.boolean_or("center_input_sample", false);
  c.guidance_features = positive_or(config, "time_cond_proj_dim", 0, kMostChannels);
  if (config.find("addition_embed_type")) {
    c.added_features = config.at("projection_class_embeddings_input_dim").integer(1, kMostChannels);
    c.added_id_features = config.at("addition_time_embed_dim").integer(2, kMostChannels);
    if (c.added_id_features % 2 != 0)
      throw bad_input("{}.addition_time_embed_dim: {} is odd", config.path(), c.added_id_features);
  }

  const JsonNode widths = config.at("block_out_channels");
  const size_t count = widths.elements().size();
  if (count < 1 || count > static_cast<size_t>(kMostLevels))
    throw bad_input("{}: has {} levels, expected 1 to {}", widths.path(), count, kMostLevels);
  const auto channels = positive_list(config, "block_out_channels", count, 0, kMostChannels);
  const auto resnets = positive_list(config, "layers_per_block", count, 2, kMostLayers);
  const auto depths = positive_list(config, "transformer_layers_per_block", count, 1, kMostLayers);
  const auto contexts = positive_list(config, "cross_attention_dim", count, 1280, kMostChannels);
  // "attention_head_dim" is the number of heads, by a mistake that the published models have kept.
  const bool named = config.find("num_attention_heads").has_value();
  const auto heads =
      positive_list(config, named ? "num_attention_heads" : "attention_head_dim", count, 8, kMostChannels);
  const auto down = attends(config, "down_block_types", count, "CrossAttnDownBlock2D", "DownBlock2D");
  const auto up = attends(config, "up_block_types", count, "CrossAttnUpBlock2D", "UpBlock2D");
  for (size_t i = 0; i < count; ++i) {
    if (contexts[i] != contexts[0])
      throw bad_input("{}.cross_attention_dim: levels with different widths are not supported", config.path());
    if (channels[i] % c.groups != 0)
      throw bad_input("{}.block_out_channels: {} channels are not {} groups", config.path(), channels[i], c.groups);
    const bool attention = down[i] || up[count - 1 - i] || i + 1 == count;
    if (attention && channels[i] % heads[i] != 0)
      throw bad_input("{}.block_out_channels: {} channels are not {} heads", config.path(), channels[i], heads[i]);
    c.levels.push_back({.channels = channels[i],
                        .resnets = resnets[i],
                        .heads = heads[i],
                        .transformer_layers = depths[i],
                        .attends_down = down[i],
                        .attends_up = up[count - 1 - i]});
  }
  c.context_width = contexts[0];
  c.time = {.width = channels[0],
            .cosines_first = config.boolean_or("flip_sin_to_cos", true),
            .shift = number_or(config, "freq_shift", 0)};
  if (c.time.width % 2 != 0) throw bad_input("{}.block_out_channels: {} is odd", config.path(), c.time.width);
  return c;
}

}  // namespace gabbro::diffusion
