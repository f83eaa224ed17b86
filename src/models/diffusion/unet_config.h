// The configuration of a U-Net that a text conditions, as diffusers' UNet2DConditionModel has it.
#pragma once

#include <vector>

#include "src/base/json_node.h"
#include "src/models/diffusion/time_embedding.h"

namespace gabbro::diffusion {

// One resolution of a U-Net.
struct UNetLevel {
  int64_t channels = 320;
  int64_t resnets = 2;             // on the way down; one more on the way up
  int64_t heads = 8;               // of its transformers
  int64_t transformer_layers = 1;  // in each of them
  bool attends_down = true, attends_up = true;
};

struct UNetConfig {
  int64_t in_channels = 4, out_channels = 4, sample_size = 64;
  int64_t context_width = 768;
  int64_t groups = 32;
  double norm_eps = 1e-5;
  double mid_scale = 1;  // that sums of the middle block are divided by
  bool linear_projection = false;
  bool centered_input = false;  // the input is 2 x - 1
  SinusoidOptions time;
  int64_t guidance_features = 0;  // of a guidance that the model was distilled with; 0: none
  // Width of a pooled text with the numbers of a picture's size, and of each number; 0: none.
  int64_t added_features = 0, added_id_features = 0;
  std::vector<UNetLevel> levels;  // from the finest

  int64_t time_width() const { return 4 * levels.front().channels; }
};

// Reads unet/config.json. Throws bad_input that names the file and the field: missing, out of range, or of a kind that
// is not built.
UNetConfig read_unet_config(const JsonNode& config);

}  // namespace gabbro::diffusion
