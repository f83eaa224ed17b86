// Decoding and encoding of a pipeline. f16 holds numbers up to 65504, which some autoencoders exceed: such a picture is
// decoded or encoded once more in f32, and from then on in f32 at once.
#include "gabbro/graph/eval.h"
#include "src/base/error.h"
#include "src/models/diffusion/banded_decoder.h"
#include "src/pictures/decode_choice.h"
#include "src/pictures/picture_tensor.h"
#include "src/pictures/pipeline_state.h"
#include "src/pictures/preview.h"

namespace gabbro::pictures {
namespace {

// The largest activation that is decoded whole: 256 MiB in f32, Stable Diffusion's at 512 x 512, and 512 MiB in f16 and
// bf16, SDXL's at 1024 x 1024. Several of this size are there at once.
constexpr int64_t kMostWhole = int64_t{1} << 26, kMostWholeHalf = int64_t{1} << 28;

}  // namespace

bool decodes_in_bands(const diffusion::AutoencoderConfig& config, DecodeBands bands, int64_t latent_elements,
                      DType dtype) {
  if (bands != DecodeBands::kAuto) return bands == DecodeBands::kOn;
  // The last upsampling has the channels of the level before it.
  const int64_t channels = config.channels[config.channels.size() > 1 ? 1 : 0];
  const int64_t elements = latent_elements * config.factor() * config.factor() * channels;
  return elements > (dtype == DType::f32 ? kMostWhole : kMostWholeHalf);
}

const diffusion::Autoencoder& Pipeline::State::wide_autoencoder() {
  if (autoencoder->dtype() == DType::f32) return *autoencoder;
  if (loaded_wide == nullptr) loaded_wide = load_wide_autoencoder();
  return *loaded_wide;
}

void Pipeline::State::note_overflow(const char* part, std::vector<std::string>& notes) {
  overflows = true;
  notes.push_back(
      fmt::format("the {} exceeds the range of {} and works in f32", part, dtype_name(autoencoder->dtype())));
}

images::Picture Pipeline::State::decode(const Latent& latent, int64_t height, int64_t width,
                                        const PictureRequest& request, std::vector<std::string>& notes) {
  const diffusion::AutoencoderConfig& config = autoencoder->config();
  if (trims) device->trim(abi::MemoryKind::kDevice);
  Latent scaled = latent;
  for (float& value : scaled) value = static_cast<float>(value / config.scaling + config.shift);
  const Tensor z = device->upload(DType::f32, Shape{1, config.latent_channels, height, width}, scaled.data());
  const DType dtype = overflows ? DType::f32 : autoencoder->dtype();
  const DecodeBands asked = request.bands == DecodeBands::kAuto ? bands : request.bands;
  if (decodes_in_bands(config, asked, height * width, dtype))
    return picture_of(diffusion::decode_in_bands(wide_autoencoder(), z, {.cancel = request.cancel}), 0.5f, 0.5f);
  if (dtype != DType::f32) {
    if (auto picture = picture_if_finite(autoencoder->decode(z), 0.5f, 0.5f, request.cancel))
      return *std::move(picture);
    note_overflow("decoder", notes);
    if (decodes_in_bands(config, asked, height * width, DType::f32))
      return decode(latent, height, width, request, notes);
  }
  return picture_of(wide_autoencoder().decode(z), 0.5f, 0.5f, request.cancel);
}

std::vector<float> Pipeline::State::encode_moments(const Tensor& picture, const std::atomic<bool>* cancel,
                                                   std::vector<std::string>& notes) {
  const auto encoded = [&](const diffusion::Autoencoder& model) {
    Tensor moments = model.encode(picture);  // [1, 2 C, h, w]
    eval(std::span(&moments, 1), cancel);
    return to_host<float>(moments);
  };
  if (autoencoder->dtype() != DType::f32 && !overflows) {
    std::vector<float> moments = encoded(*autoencoder);
    if (all_finite(moments)) return moments;
    note_overflow("encoder", notes);
  }
  return encoded(wide_autoencoder());
}

images::Picture Pipeline::preview(const PictureStep& step) const {
  const State& s = *state_;
  if (s.tiny_decoder == nullptr) return linear_preview(step);
  const Tensor z = s.device->upload(DType::f32, Shape{1, step.channels, step.height, step.width}, step.latent.data());
  return picture_of((*s.tiny_decoder)(z), 1, 0);
}

}  // namespace gabbro::pictures
