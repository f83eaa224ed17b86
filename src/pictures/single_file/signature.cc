#include "src/pictures/single_file/signature.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/pictures/single_file/other_models.h"

namespace gabbro::pictures {
namespace {

constexpr std::string_view kFirstConvolution = "input_blocks.0.0.weight";
constexpr std::string_view kDecoder = "decoder.conv_in.weight";
constexpr std::string_view kTransformers = "embeddings.token_embedding.weight", kModel = "text_model.";
constexpr std::string_view kOpenClip = "token_embedding.weight";

// The parts of names before `ending`, each once, in the order of the file.
std::vector<std::string> prefixes_of(const Checkpoint& checkpoint, std::string_view ending) {
  std::vector<std::string> prefixes;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.name.ends_with(ending)) continue;
    std::string prefix(tensor.name.substr(0, tensor.name.size() - ending.size()));
    if (!prefix.empty() && !prefix.ends_with('.')) continue;
    if (std::ranges::find(prefixes, prefix) == prefixes.end()) prefixes.push_back(std::move(prefix));
  }
  return prefixes;
}

std::string shape_text(const CheckpointTensor& tensor) {
  return fmt::format("{} [{}]", tensor.name, fmt::join(tensor.shape, ", "));
}

std::vector<TextSignature> find_text_encoders(const Checkpoint& checkpoint) {
  std::vector<TextSignature> found;
  for (std::string prefix : prefixes_of(checkpoint, kTransformers)) {
    const auto width = checkpoint.require_tensor(prefix + std::string(kTransformers)).shape.back();
    if (prefix.ends_with(kModel)) prefix.resize(prefix.size() - kModel.size());
    found.push_back({.prefix = prefix, .width = width});
  }
  for (const std::string& prefix : prefixes_of(checkpoint, kOpenClip)) {
    if (checkpoint.tensor(prefix + "positional_embedding") == nullptr) continue;
    const auto width = checkpoint.require_tensor(prefix + std::string(kOpenClip)).shape.back();
    found.push_back({.prefix = prefix, .is_open_clip = true, .width = width});
  }
  std::ranges::stable_sort(found, {}, &TextSignature::width);
  return found;
}

const CheckpointTensor& require_rank(const Checkpoint& checkpoint, const std::string& name, size_t rank) {
  const CheckpointTensor& tensor = checkpoint.require_tensor(name);
  if (tensor.shape.size() != rank || std::ranges::find(tensor.shape, 0) != tensor.shape.end())
    throw bad_input("{}: tensor {}: expected {} axes", checkpoint.path(), shape_text(tensor), rank);
  return tensor;
}

// The kinds of U-Net in this layout that are not built, by the channels of their input.
void refuse_channels(const Checkpoint& checkpoint, const CheckpointTensor& first) {
  constexpr std::pair<int64_t, const char*> kKinds[] = {{5, "a model that is guided by depth"},
                                                        {7, "an upscaler (x4) of Stable Diffusion 2"},
                                                        {8, "a model that edits pictures (InstructPix2Pix)"},
                                                        {9, "an inpainting model"}};
  for (const auto& [channels, title] : kKinds) {
    if (first.shape[1] == channels) refuse_model(checkpoint.path(), fmt::format("{} ({})", title, shape_text(first)));
  }
}

// Rows of a weight of the last transformer's norm spread more in models of Stable Diffusion 2 that predict velocity.
// ComfyUI decides so too.
std::optional<double> norm_spread(const Checkpoint& checkpoint, const std::string& unet) {
  const CheckpointTensor* const bias = checkpoint.tensor(unet + "output_blocks.11.1.transformer_blocks.0.norm1.bias");
  if (bias == nullptr || !bias->known_dtype || bias->elements() < 1) return std::nullopt;
  bias->prepare();
  std::vector<float> values(static_cast<size_t>(bias->elements()));
  dequantize_row(bias->dtype(), bias->data.data(), values.data(), bias->elements());
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

void find_prediction(const Checkpoint& checkpoint, const std::string& prediction, Signature& s) {
  const auto has = [&](const char* name) { return checkpoint.tensor(name) != nullptr; };
  if (has("edm_vpred.sigma_max")) refuse_model(checkpoint.path(), "CosXL (edm_vpred.sigma_max)");
  if (has("edm_mean") || has("edm_std")) refuse_model(checkpoint.path(), "Playground 2.5 (edm_mean)");
  if (has("v_pred")) {
    s.predicts_velocity = true;
    s.zero_terminal_snr = has("ztsnr");
    s.reasons.push_back(
        fmt::format("v_pred: predicts velocity{}", s.zero_terminal_snr ? "; ztsnr: the last step is noise alone" : ""));
  } else if (prediction == "v" || prediction == "v_prediction" || prediction == "epsilon") {
    s.predicts_velocity = prediction != "epsilon";
    s.zero_terminal_snr = s.predicts_velocity && has("ztsnr");
    s.reasons.push_back(fmt::format("modelspec.prediction_type {}: predicts {}", prediction,
                                    s.predicts_velocity ? "velocity" : "noise"));
    return;
  } else if (s.family == ModelFamily::kSd2) {
    constexpr double kVelocity = 0.09;
    if (const auto spread = norm_spread(checkpoint, s.unet)) {
      s.predicts_velocity = *spread > kVelocity;
      s.reasons.push_back(
          fmt::format("output_blocks.11.1.transformer_blocks.0.norm1.bias spreads by {:.3f}, {} {}: "
                      "predicts {}",
                      *spread, s.predicts_velocity ? "more than" : "at most", kVelocity,
                      s.predicts_velocity ? "velocity" : "noise"));
      return;
    }
  }
  if (!s.predicts_velocity) s.reasons.emplace_back("no v_pred: predicts noise");
}

// The family of a U-Net, and what its text encoder has to be.
void find_family(const Checkpoint& checkpoint, Signature& s) {
  const CheckpointTensor& first = require_rank(checkpoint, s.unet + std::string(kFirstConvolution), 4);
  s.reasons.push_back(shape_text(first) + ": a U-Net in the original layout");
  if (checkpoint.tensor(s.unet + "label_emb.weight") != nullptr)
    refuse_model(checkpoint.path(), "an upscaler (x4) of Stable Diffusion 2 (label_emb.weight)");
  refuse_channels(checkpoint, first);
  if (checkpoint.tensor(s.unet + "label_emb.0.0.weight") != nullptr) {
    const CheckpointTensor& label = require_rank(checkpoint, s.unet + "label_emb.0.0.weight", 2);
    constexpr int64_t kRefiner = 2560, kRefinerChannels = 384;  // 1280 + 5 · 256
    if (label.shape[1] == kRefiner || first.shape[0] == kRefinerChannels)
      refuse_model(checkpoint.path(), fmt::format("SDXL's refiner ({})", shape_text(label)));
    s.family = ModelFamily::kSdxl;
    s.reasons.push_back(shape_text(label) + ": SDXL");
    return;
  }
  const std::string projection = "proj_in.weight";
  const CheckpointTensor* linear = nullptr;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (linear == nullptr && tensor.name.starts_with(s.unet) && tensor.name.ends_with(projection)) linear = &tensor;
  }
  if (linear == nullptr) refuse_model(checkpoint.path(), "a U-Net that no text conditions");
  s.family = linear->shape.size() == 2 ? ModelFamily::kSd2 : ModelFamily::kSd1;
  s.reasons.push_back(fmt::format("{}: {}", shape_text(*linear),
                                  s.family == ModelFamily::kSd2 ? "a matrix, as in Stable Diffusion 2"
                                                                : "a convolution, as in Stable Diffusion 1"));
}

}  // namespace

const char* family_title(ModelFamily family) {
  switch (family) {
    case ModelFamily::kSd1:
      return "Stable Diffusion 1";
    case ModelFamily::kSd2:
      return "Stable Diffusion 2";
    case ModelFamily::kSdxl:
      return "SDXL";
  }
  return "";
}

Signature recognize_single_file(const Checkpoint& checkpoint, const std::string& prediction) {
  refuse_other_models(checkpoint);
  Signature s;
  const std::vector<std::string> unets = prefixes_of(checkpoint, kFirstConvolution);
  if (unets.empty()) refuse_without_unet(checkpoint);
  s.unet = *std::ranges::min_element(unets, {}, &std::string::size);
  find_family(checkpoint, s);
  s.title = family_title(s.family);
  find_prediction(checkpoint, prediction, s);
  const std::vector<std::string> autoencoders = prefixes_of(checkpoint, kDecoder);
  if (!autoencoders.empty()) {
    s.autoencoder = autoencoders.front();
    s.reasons.push_back(fmt::format("{}{}: an autoencoder", *s.autoencoder, kDecoder));
  }
  constexpr std::string_view kAveraged = "model_ema.";
  if (std::ranges::any_of(checkpoint.tensors(),
                          [&](const CheckpointTensor& t) { return t.name.starts_with(kAveraged); }))
    s.reasons.push_back(fmt::format("{}*: averaged weights, which are not used", kAveraged));
  s.text_encoders = find_text_encoders(checkpoint);
  for (const TextSignature& text : s.text_encoders) {
    s.reasons.push_back(fmt::format("{}*: a text encoder of {} channels in the layout of {}", text.prefix, text.width,
                                    text.is_open_clip ? "OpenCLIP" : "transformers"));
  }
  return s;
}

std::string find_autoencoder(const Checkpoint& checkpoint, const char* option) {
  const std::vector<std::string> found = prefixes_of(checkpoint, kDecoder);
  if (found.empty()) throw bad_input("{} {}: holds no autoencoder ({})", option, checkpoint.path(), kDecoder);
  return found.front();
}

TextSignature find_text_encoder(const Checkpoint& checkpoint, const char* option) {
  const std::vector<TextSignature> found = find_text_encoders(checkpoint);
  if (found.empty()) throw bad_input("{} {}: holds no text encoder of CLIP ({})", option, checkpoint.path(), kOpenClip);
  if (found.size() > 1) throw bad_input("{} {}: holds {} text encoders", option, checkpoint.path(), found.size());
  return found.front();
}

}  // namespace gabbro::pictures
