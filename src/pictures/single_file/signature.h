// Recognizes a file that holds a diffusion model by the names and shapes of its tensors, never by its own name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"

namespace gabbro::pictures {

enum class ModelFamily { kSd1, kSd2, kSdxl };

struct TextSignature {
  std::string prefix;         // of the names: "cond_stage_model.transformer."
  bool is_open_clip = false;  // in OpenCLIP's layout, else in that of transformers
  int64_t width = 0;
};

struct Signature {
  ModelFamily family = ModelFamily::kSd1;
  std::string title;                         // "SDXL"
  std::string unet;                          // prefix of the names
  std::optional<std::string> autoencoder;    // likewise; nothing: the file has none
  std::vector<TextSignature> text_encoders;  // from the narrowest; may be empty
  bool predicts_velocity = false, zero_terminal_snr = false;
  std::vector<std::string> reasons;  // a line each, with the tensor that decided
};

const char* family_title(ModelFamily family);  // "Stable Diffusion 1"

// `prediction`: the field modelspec.prediction_type of the file's metadata, which counts where no tensor tells it;
// empty: none. Throws bad_input that names the kind of model for a file of another kind than Stable Diffusion 1, 2 and
// SDXL, and for weights in a form that is not read.
Signature recognize_single_file(const Checkpoint& checkpoint, const std::string& prediction = "");

// A file that holds only a part, or a whole model too: the prefix of the part's names. Throws bad_input that names the
// option if the file has no such part.
std::string find_autoencoder(const Checkpoint& checkpoint, const char* option);
TextSignature find_text_encoder(const Checkpoint& checkpoint, const char* option);

}  // namespace gabbro::pictures
