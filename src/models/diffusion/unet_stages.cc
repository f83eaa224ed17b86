// The stages of a U-Net: resnet blocks with transformers, and the change of resolution.
#include "gabbro/graph/eval.h"
#include "src/models/diffusion/image_layout.h"
#include "src/models/diffusion/unet.h"

namespace gabbro::diffusion {
namespace {

ResnetBlockOptions block_options(const UNetConfig& config, int64_t in, int64_t out) {
  return {.in_channels = in,
          .out_channels = out,
          .time_width = config.time_width(),
          .groups = config.groups,
          .eps = config.norm_eps};
}

SpatialTransformerOptions attention_options(const UNetConfig& config, const UNetLevel& level) {
  return {.channels = level.channels,
          .heads = level.heads,
          .context = config.context_width,
          .layers = level.transformer_layers,
          .groups = config.groups,
          .linear_projection = config.linear_projection};
}

}  // namespace

void UNetStage::add_blocks(const nn::Factory& make, const std::vector<ResnetBlockOptions>& blocks,
                           const SpatialTransformerOptions* attention,
                           const std::shared_ptr<WeightSegments>& segments) {
  segments_ = segments;
  if (attention != nullptr) add_module("attentions", attentions, std::make_shared<Attentions>());
  add_module("resnets", resnets, std::make_shared<Resnets>());
  for (const ResnetBlockOptions& block : blocks) {
    std::vector<const nn::Module*> modules{&resnets->append(make.at("resnets"), block)};
    if (attention != nullptr) modules.push_back(&attentions->append(make.at("attentions"), *attention));
    if (segments != nullptr) add_segment(modules);
  }
}

// Block i with all that it computes is a segment.
Tensor UNetStage::block(size_t i, const Tensor& x, Conditioning& conditioning) const {
  return in_turn(i, conditioning.cancel, [&] {
    const Tensor y = (*resnets)[i].shifted(x, conditioning.shifts.take(1).front());
    return attentions != nullptr ? (*attentions)[i](y, conditioning.text) : y;
  });
}

void UNetStage::move_all(const std::shared_ptr<WeightSegments>& segments) {
  segments_ = segments;
  const nn::Module* const all[] = {resnets.get(), attentions.get()};
  if (segments != nullptr) add_segment(all);
}

void UNetStage::add_segment(std::span<const nn::Module* const> modules) {
  const size_t number = segments_->add(modules);
  if (!first_segment_) first_segment_ = number;
}

void UNetStage::append_text(const Tensor& context, std::vector<Tensor>& text) const {
  if (attentions == nullptr) return;
  for (size_t i = 0; i < attentions->size(); ++i) {
    if (segments_ == nullptr) {
      (*attentions)[i].append_text(context, text);
      continue;
    }
    segments_->take_turn(*first_segment_ + i, nullptr, [&] {
      std::vector<Tensor> added;
      (*attentions)[i].append_text(context, added);
      text.insert(text.end(), added.begin(), added.end());
      return added;
    });
  }
}

DownStage::DownStage(const nn::Factory& make, const UNetConfig& config, size_t level,
                     const std::shared_ptr<WeightSegments>& segments) {
  const UNetLevel& here = config.levels[level];
  std::vector<ResnetBlockOptions> blocks;
  for (int64_t i = 0; i < here.resnets; ++i) {
    const int64_t in = i > 0 ? here.channels : config.levels[level > 0 ? level - 1 : 0].channels;
    blocks.push_back(block_options(config, in, here.channels));
  }
  const SpatialTransformerOptions attention = attention_options(config, here);
  add_blocks(make, blocks, here.attends_down ? &attention : nullptr, segments);
  if (level + 1 == config.levels.size()) return;
  add_module("downsamplers", downsamplers, std::make_shared<ModuleList<Downsample>>());
  downsamplers->append(make.at("downsamplers"), here.channels, Downsample::Padding::kAround);
}

Tensor DownStage::operator()(Tensor x, Conditioning& conditioning, std::vector<Tensor>& skips) const {
  for (size_t i = 0; i < resnets->size(); ++i) {
    x = block(i, x, conditioning);
    skips.push_back(x);
  }
  if (downsamplers == nullptr) return x;
  skips.push_back((*downsamplers)[0](x));
  if (moves()) eval(std::span(&skips.back(), 1), conditioning.cancel);
  return skips.back();
}

UpStage::UpStage(const nn::Factory& make, const UNetConfig& config, size_t level,
                 const std::shared_ptr<WeightSegments>& segments) {
  const UNetLevel& here = config.levels[level];
  const int64_t below = config.levels[level + 1 < config.levels.size() ? level + 1 : level].channels;
  const int64_t above = config.levels[level > 0 ? level - 1 : 0].channels;
  std::vector<ResnetBlockOptions> blocks;
  for (int64_t i = 0; i <= here.resnets; ++i) {
    // The last skip is what the level began with: the result of the level above.
    const int64_t skip = i == here.resnets ? above : here.channels;
    blocks.push_back(block_options(config, (i == 0 ? below : here.channels) + skip, here.channels));
  }
  const SpatialTransformerOptions attention = attention_options(config, here);
  add_blocks(make, blocks, here.attends_up ? &attention : nullptr, segments);
  if (level == 0) return;
  add_module("upsamplers", upsamplers, std::make_shared<ModuleList<Upsample>>());
  upsamplers->append(make.at("upsamplers"), here.channels);
}

Tensor UpStage::operator()(Tensor x, Conditioning& conditioning, std::vector<Tensor>& skips) const {
  for (size_t i = 0; i < resnets->size(); ++i) {
    x = block(i, concat_channels(x, skips.back()), conditioning);
    skips.pop_back();
  }
  if (upsamplers == nullptr) return x;
  // To the size of the next skip, which is odd where a side did not halve evenly.
  const ImageSides size = sides_of(skips.back());
  x = (*upsamplers)[0](x, size.height, size.width);
  if (moves()) eval(std::span(&x, 1), conditioning.cancel);
  return x;
}

MidStage::MidStage(const nn::Factory& make, const UNetConfig& config, const std::shared_ptr<WeightSegments>& segments) {
  const UNetLevel& last = config.levels.back();
  ResnetBlockOptions options = block_options(config, last.channels, last.channels);
  options.output_scale = config.mid_scale;
  const SpatialTransformerOptions attention = attention_options(config, last);
  add_module("attentions", attentions, std::make_shared<Attentions>());
  add_module("resnets", resnets, std::make_shared<Resnets>());
  resnets->append(make.at("resnets"), options);
  attentions->append(make.at("attentions"), attention);
  resnets->append(make.at("resnets"), options);
  move_all(segments);
}

Tensor MidStage::operator()(Tensor x, Conditioning& conditioning) const {
  return in_turn(0, conditioning.cancel, [&] {
    const Tensor before = (*resnets)[0].shifted(x, conditioning.shifts.take(1).front());
    return (*resnets)[1].shifted((*attentions)[0](before, conditioning.text), conditioning.shifts.take(1).front());
  });
}

}  // namespace gabbro::diffusion
