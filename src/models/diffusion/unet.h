// The U-Net of Stable Diffusion 1 and 2 (Rombach et al. 2022) and SDXL (Podell et al. 2023), under the names of
// diffusers' UNet2DConditionModel.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/models/diffusion/denoiser.h"
#include "src/models/diffusion/module_list.h"
#include "src/models/diffusion/spatial_transformer.h"
#include "src/models/diffusion/unet_config.h"
#include "src/models/diffusion/weight_segments.h"

namespace gabbro::diffusion {

// Operands of blocks besides the image; each block takes its own from the front.
struct Conditioning {
  TensorQueue shifts;  // of the resnet blocks: [B, O]
  TensorQueue text;    // keys and values of the attentions to the text
  const std::atomic<bool>* cancel = nullptr;
};

// The blocks of one resolution, downward or upward.
class UNetStage : public nn::Module {
 public:
  using Resnets = ModuleList<ResnetBlock>;
  using Attentions = ModuleList<SpatialTransformer>;

  // Resnet block i with its transformer, if the stage attends.
  Tensor block(size_t i, const Tensor& x, Conditioning& conditioning) const;
  // Appends the keys and values of a text for all transformers.
  void append_text(const Tensor& context, std::vector<Tensor>& text) const;

  std::shared_ptr<Resnets> resnets;
  std::shared_ptr<Attentions> attentions;  // null: the stage does not attend
  std::shared_ptr<ModuleList<Downsample>> downsamplers;
  std::shared_ptr<ModuleList<Upsample>> upsamplers;

 protected:
  void add_blocks(const nn::Factory& make, const std::vector<ResnetBlockOptions>& blocks,
                  const SpatialTransformerOptions* attention, const std::shared_ptr<WeightSegments>& segments);
  void move_all(const std::shared_ptr<WeightSegments>& segments);  // all blocks are one segment
  // The result of `compute`, evaluated if weights take turns: the weights of block i are there.
  template <class Compute>
  Tensor in_turn(size_t i, const std::atomic<bool>* cancel, const Compute& compute) const {
    if (segments_ == nullptr) return compute();
    Tensor result;
    segments_->take_turn(*first_segment_ + i, cancel, [&] { return std::vector{result = compute()}; });
    return result;
  }
  bool moves() const { return segments_ != nullptr; }

 private:
  void add_segment(std::span<const nn::Module* const> modules);

  std::shared_ptr<WeightSegments> segments_;  // null: all weights stay on the device
  std::optional<size_t> first_segment_;
};

class DownStage : public UNetStage {
 public:
  DownStage(const nn::Factory& make, const UNetConfig& config, size_t level,
            const std::shared_ptr<WeightSegments>& segments);
  // Appends each result to `skips`.
  Tensor operator()(Tensor x, Conditioning& conditioning, std::vector<Tensor>& skips) const;
};

class UpStage : public UNetStage {
 public:
  UpStage(const nn::Factory& make, const UNetConfig& config, size_t level,
          const std::shared_ptr<WeightSegments>& segments);
  // Takes its skips from the end of the list.
  Tensor operator()(Tensor x, Conditioning& conditioning, std::vector<Tensor>& skips) const;
};

class MidStage : public UNetStage {
 public:
  MidStage(const nn::Factory& make, const UNetConfig& config, const std::shared_ptr<WeightSegments>& segments);
  Tensor operator()(Tensor x, Conditioning& conditioning) const;
};

class UNet : public nn::Module, public Denoiser {
 public:
  // With `segments` the weights of its blocks are moved there as soon as they are loaded.
  UNet(const nn::Factory& make, const UNetConfig& config, const std::shared_ptr<WeightSegments>& segments = nullptr);

  const DenoiserFacts& facts() const override { return facts_; }
  std::vector<float> time_features(double timestep) const override;
  std::vector<float> added_features(std::span<const float> pooled, std::span<const int64_t> ids) const override;
  bool computes_in_parts() const override { return segments_ != nullptr; }
  std::vector<Tensor> prepare_text(const Tensor& context) override;
  Tensor forward(const DenoiserInput& input) override;

  std::shared_ptr<AdaptableConv2d> conv_in, conv_out;
  std::shared_ptr<TimeEmbedding> time_embedding;
  std::shared_ptr<TimeEmbedding> add_embedding;  // of the added features; null: none
  std::shared_ptr<ModuleList<DownStage>> down_blocks;
  std::shared_ptr<MidStage> mid_block;
  std::shared_ptr<ModuleList<UpStage>> up_blocks;
  std::shared_ptr<AdaptableGroupNorm> conv_norm_out;

 private:
  UNetConfig config_;
  DType dtype_;  // of activations
  DenoiserFacts facts_;
  JointLinear time_projections_;  // of all resnet blocks, in their order

  std::shared_ptr<WeightSegments> segments_;

  std::vector<UNetStage*> stages() const;  // in their order
};

}  // namespace gabbro::diffusion
