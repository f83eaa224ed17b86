#include "src/pictures/pipeline_memory.h"

#include <algorithm>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/unet.h"
#include "src/models/encoder/encoder.h"
#include "src/models/encoder/registry.h"
#include "src/models/weights/module_weights.h"
#include "src/models/weights/planned_weights.h"
#include "src/plan/eval.h"
#include "src/plan/plan.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kTokens = 77;  // of a chunk

// Memory of a plan of these results with its inputs.
uint64_t bytes_of_plan(const std::shared_ptr<Device>& device, std::span<const Tensor> inputs,
                       std::span<const Tensor> results) {
  const Plan plan(device, trace_ready(results).program);
  uint64_t bytes = plan.arena_bytes();
  for (const std::span<const Tensor> tensors : {inputs, results}) {
    for (const Tensor& tensor : tensors)
      bytes += dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.shape().elements()));
  }
  return bytes;
}

uint64_t parameters_of(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) sum += static_cast<uint64_t>(tensor.elements());
  return sum;
}

Tensor zero_input(const std::shared_ptr<Device>& device, const Shape& shape) {
  const std::vector<float> values(static_cast<size_t>(shape.elements()));
  return device->upload(DType::f32, shape, values.data());
}

PartMemory text_memory(const TextPart& part, size_t index, bool is_pair, const std::shared_ptr<Device>& device) {
  const encoder::Family& family = encoder::family_of(part.checkpoint);
  llm::PlannedWeights weights(part.checkpoint, family.names, device);
  const encoder::Encoder model(family.read_config(part.checkpoint), weights);
  const int64_t layers = model.config().shape.layers, tokens = model.config().shape.context_trained;
  const encoder::EncoderText text{.ids = std::vector<int32_t>(static_cast<size_t>(tokens))};
  const encoder::EncoderBatch batch = encoder::make_batch(device, std::span(&text, 1));
  Tensor inner;
  encoder::ForwardOptions options{.layers = layers, .norms_fewer = true};
  if (is_pair) options.inner = &inner, options.inner_layers = layers - 1;
  const Tensor last = model.forward(batch, options);
  const std::vector<Tensor> results = inner.defined() ? std::vector{inner, last} : std::vector{last};
  return {.name = index == 0 ? "text encoder" : "text encoder 2",
          .parameters = parameters_of(part.checkpoint),
          .weight_bytes = weights.bytes(),
          .work_bytes = bytes_of_plan(device, {}, results)};
}

PartMemory unet_memory(const PipelinePart& part, const diffusion::UNetConfig& config,
                       const std::shared_ptr<Device>& device, int64_t height, int64_t width) {
  llm::PlannedWeights weights(part.checkpoint, {}, device);
  diffusion::UNet model({.device = device, .weights = std::make_shared<llm::SourcedModuleWeights>(weights)}, config);
  const diffusion::DenoiserFacts& facts = model.facts();
  constexpr int64_t kBatch = 2;  // without and with the prompt
  diffusion::DenoiserInput input{.latent = zero_input(device, Shape{kBatch, facts.in_channels, height, width}),
                                 .time = zero_input(device, Shape{kBatch, facts.time_features}),
                                 .context = zero_input(device, Shape{kBatch, kTokens, facts.context_width})};
  std::vector<Tensor> inputs{input.latent, input.time};
  if (facts.guidance_features > 0)
    inputs.push_back(input.guidance = zero_input(device, Shape{kBatch, facts.guidance_features}));
  if (facts.added_features > 0) inputs.push_back(input.added = zero_input(device, Shape{kBatch, facts.added_features}));
  for (const Tensor& prepared : model.prepare_text(input.context)) {
    input.text.push_back(zero_input(device, prepared.shape()));
    inputs.push_back(input.text.back());
  }
  const Tensor output = model.forward(input);
  return {.name = "U-Net",
          .parameters = parameters_of(part.checkpoint),
          .weight_bytes = weights.bytes(),
          .work_bytes = bytes_of_plan(device, inputs, std::span(&output, 1))};
}

PartMemory autoencoder_memory(const PipelinePart& part, const diffusion::AutoencoderConfig& config,
                              const std::shared_ptr<Device>& device, int64_t height, int64_t width) {
  llm::PlannedWeights weights(part.checkpoint, {}, device);
  const diffusion::Autoencoder model(
      {.device = device, .weights = std::make_shared<llm::SourcedModuleWeights>(weights)}, config, false);
  const Tensor latent = zero_input(device, Shape{1, config.latent_channels, height, width});
  const Tensor picture = model.decode(latent);
  return {.name = "autoencoder",
          .parameters = parameters_of(part.checkpoint),
          .weight_bytes = weights.bytes(),
          .work_bytes = bytes_of_plan(device, std::span(&latent, 1), std::span(&picture, 1))};
}

}  // namespace

PipelineMemory forecast_memory(const PipelineParts& parts, const std::shared_ptr<Device>& device, PictureSize& size) {
  const diffusion::UNetConfig unet = diffusion::read_unet_config(JsonNode(parts.unet.config, parts.unet.config_name));
  const diffusion::AutoencoderConfig autoencoder =
      diffusion::read_autoencoder_config(JsonNode(parts.autoencoder.config, parts.autoencoder.config_name));
  const int64_t factor = autoencoder.factor();
  if (size.width == 0) size.width = unet.sample_size * factor;
  if (size.height == 0) size.height = unet.sample_size * factor;
  for (const auto& [side, name] : {std::pair(size.width, "width"), {size.height, "height"}}) {
    if (side % factor == 0 && side > 0) continue;
    throw Error(ErrorCode::kBadInput, fmt::format("--{} {} is not a multiple of {}", name, side, factor),
                fmt::format("the nearest is {}", std::max(factor, (side + factor / 2) / factor * factor)));
  }
  PipelineMemory memory;
  const bool is_pair = parts.text_encoders.size() > 1;
  for (size_t i = 0; i < parts.text_encoders.size(); ++i)
    memory.parts.push_back(text_memory(parts.text_encoders[i], i, is_pair, device));
  const int64_t height = size.height / factor, width = size.width / factor;
  memory.parts.push_back(unet_memory(parts.unet, unet, device, height, width));
  memory.parts.push_back(autoencoder_memory(parts.autoencoder, autoencoder, device, height, width));
  for (const PartMemory& part : memory.parts) {
    memory.weight_bytes += part.weight_bytes;
    memory.work_bytes = std::max(memory.work_bytes, part.work_bytes);
  }
  return memory;
}

}  // namespace gabbro::pictures
