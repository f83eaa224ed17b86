#include "src/models/diffusion/unet.h"

#include "gabbro/graph/eval.h"
#include "src/models/diffusion/image_layout.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

UNet::UNet(const nn::Factory& make, const UNetConfig& config, const std::shared_ptr<WeightSegments>& segments)
    : config_(config),
      dtype_(make.dtype),
      facts_{.in_channels = config.in_channels,
             .out_channels = config.out_channels,
             .context_width = config.context_width,
             .time_features = config.time.width,
             .guidance_features = config.guidance_features,
             .added_features = config.added_features,
             .added_id_features = config.added_id_features,
             .sample_size = config.sample_size},
      segments_(segments) {
  const int64_t first = config.levels.front().channels;
  add_module("conv_in", conv_in, make_conv(make.at("conv_in"), {.in = config.in_channels, .out = first}));
  const TimeEmbeddingOptions time{
      .features = config.time.width, .width = config.time_width(), .guidance = config.guidance_features};
  add_module("time_embedding", time_embedding, std::make_shared<TimeEmbedding>(make.at("time_embedding"), time));
  if (config.added_features > 0) {
    const TimeEmbeddingOptions added{.features = config.added_features, .width = config.time_width()};
    add_module("add_embedding", add_embedding, std::make_shared<TimeEmbedding>(make.at("add_embedding"), added));
  }
  add_module("down_blocks", down_blocks, std::make_shared<ModuleList<DownStage>>());
  for (size_t level = 0; level < config.levels.size(); ++level)
    down_blocks->append(make.at("down_blocks"), config, level, segments);
  add_module("up_blocks", up_blocks, std::make_shared<ModuleList<UpStage>>());
  for (size_t level = config.levels.size(); level > 0; --level)
    up_blocks->append(make.at("up_blocks"), config, level - 1, segments);
  add_module("mid_block", mid_block, std::make_shared<MidStage>(make.at("mid_block"), config, segments));
  add_module("conv_norm_out", conv_norm_out,
             make_group_norm(make.at("conv_norm_out"), config.groups, first, config.norm_eps));
  add_module("conv_out", conv_out, make_conv(make.at("conv_out"), {.in = first, .out = config.out_channels}));
  std::vector<std::shared_ptr<AdaptableLinear>> projections;
  for (UNetStage* const stage : stages()) {
    for (const auto& block : *stage->resnets) projections.push_back(block->time_emb_proj);
  }
  time_projections_ = JointLinear(std::move(projections));
  if (segments_ != nullptr) segments_->finish();
}

std::vector<UNetStage*> UNet::stages() const {
  std::vector<UNetStage*> all;
  for (const auto& stage : *down_blocks) all.push_back(stage.get());
  all.push_back(mid_block.get());
  for (const auto& stage : *up_blocks) all.push_back(stage.get());
  return all;
}

std::vector<float> UNet::time_features(double timestep) const { return sinusoid_features(timestep, config_.time); }

std::vector<float> UNet::added_features(std::span<const float> pooled, std::span<const int64_t> ids) const {
  std::vector<float> features(pooled.begin(), pooled.end());
  SinusoidOptions options = config_.time;
  options.width = config_.added_id_features;
  for (const int64_t id : ids) {
    const std::vector<float> sines = sinusoid_features(static_cast<double>(id), options);
    features.insert(features.end(), sines.begin(), sines.end());
  }
  return features;
}

std::vector<Tensor> UNet::prepare_text(const Tensor& context) {
  const Tensor states = cast(context, dtype_);  // [B, S, C]
  std::vector<Tensor> text;
  for (const UNetStage* const stage : stages()) stage->append_text(states, text);
  return text;
}

Tensor UNet::forward(const DenoiserInput& input) {
  // The time is in f32 in any case: each block adds it to all of its pixels.
  Tensor time = (*time_embedding)(input.time, input.guidance);  // [B, T]
  if (add_embedding != nullptr) time = time + (*add_embedding)(input.added, Tensor());
  std::vector<Tensor> shifts = time_projections_(cast(silu(time), dtype_));
  if (segments_ != nullptr) eval(shifts, input.cancel);
  Conditioning conditioning{.shifts = TensorQueue(std::move(shifts)),
                            .text = TensorQueue(input.text.empty() ? prepare_text(input.context) : input.text),
                            .cancel = input.cancel};
  const Tensor latent = config_.centered_input ? input.latent * 2.0 - 1.0 : input.latent;
  Tensor x = (*conv_in)(image_in(latent, dtype_));  // [B, C, H, W]
  if (segments_ != nullptr) eval(std::span(&x, 1), input.cancel);
  std::vector<Tensor> skips{x};
  for (const auto& stage : *down_blocks) x = (*stage)(x, conditioning, skips);
  x = (*mid_block)(x, conditioning);
  for (const auto& stage : *up_blocks) x = (*stage)(x, conditioning, skips);
  return contiguous_planes_of((*conv_out)(conv_norm_out->then_silu(x)));
}

}  // namespace gabbro::diffusion
