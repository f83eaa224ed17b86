// vae/config.json.
#include "src/base/error.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/model_fields.h"

namespace gabbro::diffusion {
namespace {

void require_blocks(const JsonNode& config, std::string_view field, size_t count, std::string_view wanted) {
  const auto types = config.find(field);
  if (!types) throw bad_input("{}.{}: is missing", config.path(), field);
  const std::vector<JsonNode> all = types->elements();
  for (const JsonNode& type : all) {
    if (type.string() != wanted)
      throw bad_input("{}: blocks of type '{}' are not supported; expected {}", type.path(), type.string(), wanted);
  }
  if (all.size() != count) throw bad_input("{}: has {} types for {} levels", types->path(), all.size(), count);
}

}  // namespace

AutoencoderConfig read_autoencoder_config(const JsonNode& config) {
  require_field(config, "act_fn", {"\"silu\"", "\"swish\""});
  require_field(config, "latents_mean", {});
  require_field(config, "latents_std", {});
  AutoencoderConfig c;
  c.picture_channels = positive_or(config, "in_channels", 3, 4);
  if (positive_or(config, "out_channels", 3, 4) != 3 || c.picture_channels != 3)
    throw bad_input("{}: pictures have 3 channels, not {}", config.path(), c.picture_channels);
  c.latent_channels = positive_or(config, "latent_channels", 4, kMostChannels);
  c.resnets = positive_or(config, "layers_per_block", 1, kMostLayers);
  c.groups = positive_or(config, "norm_num_groups", 32, kMostChannels);
  c.scaling = number_or(config, "scaling_factor", 0.18215);
  c.shift = number_or(config, "shift_factor", 0);
  if (!(c.scaling > 0)) throw bad_input("{}.scaling_factor: is not positive", config.path());
  c.quant_conv = config.boolean_or("use_quant_conv", true);
  c.post_quant_conv = config.boolean_or("use_post_quant_conv", true);
  c.mid_attention = config.boolean_or("mid_block_add_attention", true);
  const JsonNode widths = config.at("block_out_channels");
  const size_t count = widths.elements().size();
  if (count < 1 || count > static_cast<size_t>(kMostLevels))
    throw bad_input("{}: has {} levels, expected 1 to {}", widths.path(), count, kMostLevels);
  c.channels = positive_list(config, "block_out_channels", count, 0, kMostChannels);
  for (const int64_t channels : c.channels) {
    if (channels % c.groups != 0)
      throw bad_input("{}: {} channels are not {} groups", widths.path(), channels, c.groups);
  }
  require_blocks(config, "down_block_types", count, "DownEncoderBlock2D");
  require_blocks(config, "up_block_types", count, "UpDecoderBlock2D");
  return c;
}

}  // namespace gabbro::diffusion
