#include "src/pictures/pipeline_memory.h"

#include <algorithm>
#include <optional>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/banded_decoder.h"
#include "src/models/diffusion/unet.h"
#include "src/models/encoder/encoder.h"
#include "src/models/encoder/registry.h"
#include "src/models/weights/module_weights.h"
#include "src/models/weights/planned_weights.h"
#include "src/pictures/decode_choice.h"
#include "src/pictures/picture_tensor.h"
#include "src/plan/eval.h"
#include "src/plan/planned_memory.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kTokens = 77;  // of a chunk

uint64_t parameters_of(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) sum += static_cast<uint64_t>(tensor.elements());
  return sum;
}

// One part of a pipeline whose work is planned on a device.
class PlannedPart {
 public:
  explicit PlannedPart(std::shared_ptr<Device> device)
      : device_(std::move(device)), memory_(*device_), scope_(*device_, memory_) {}

  PlannedMemory& memory() { return memory_; }
  Tensor input(const Shape& shape) {
    const size_t bytes = dtype_bytes(DType::f32, static_cast<size_t>(shape.elements()));
    return device_->tensor_in(memory_.allocate(bytes), DType::f32, shape);
  }
  // The model is made: what is counted from here on is work.
  void begin_work() {
    weight_bytes_ = memory_.bytes();
    memory_.reset_peaks();
  }
  PartMemory result(std::string name, const Checkpoint& checkpoint) const {
    return {.name = std::move(name),
            .parameters = parameters_of(checkpoint),
            .weight_bytes = weight_bytes_,
            .work_bytes = memory_.peak_bytes() - weight_bytes_ + memory_.arena_bytes()};
  }

 private:
  std::shared_ptr<Device> device_;
  PlannedMemory memory_;
  PlanningScope scope_;
  uint64_t weight_bytes_ = 0;
};

PartMemory text_memory(const TextPart& part, size_t index, bool is_pair, const std::shared_ptr<Device>& device) {
  PlannedPart planned(device);
  const encoder::Family& family = encoder::family_of(part.checkpoint);
  llm::PlannedWeights weights(part.checkpoint, family.names, device, planned.memory());
  const encoder::Encoder model(family.read_config(part.checkpoint), weights);
  planned.begin_work();
  const int64_t layers = model.config().shape.layers, tokens = model.config().shape.context_trained;
  const encoder::EncoderText text{.ids = std::vector<int32_t>(static_cast<size_t>(tokens))};
  const encoder::EncoderBatch batch = encoder::make_batch(device, std::span(&text, 1));
  Tensor inner;
  encoder::ForwardOptions options{.layers = layers, .norms_fewer = true};
  if (is_pair) options.inner = &inner, options.inner_layers = layers - 1;
  const Tensor last = model.forward(batch, options);
  eval(inner.defined() ? std::vector{inner, last} : std::vector{last});
  return planned.result(index == 0 ? "text encoder" : "text encoder 2", part.checkpoint);
}

struct DenoisedLatent {
  int64_t height = 0, width = 0;
  std::optional<uint64_t> resident_bytes{};
  bool separate = false;
};

PartMemory unet_memory(const PipelinePart& part, const diffusion::UNetConfig& config,
                       const std::shared_ptr<Device>& device, DType dtype, const DenoisedLatent& latent) {
  PlannedPart planned(device);
  llm::PlannedWeights weights(part.checkpoint, {}, device, planned.memory(),
                              latent.separate || latent.resident_bytes.has_value());
  std::shared_ptr<diffusion::WeightSegments> segments;
  if (latent.resident_bytes)
    segments = std::make_shared<diffusion::WeightSegments>(device, *latent.resident_bytes, &planned.memory());
  diffusion::UNet model(
      {.device = device, .dtype = dtype, .weights = std::make_shared<llm::SourcedModuleWeights>(weights)}, config,
      segments);
  planned.begin_work();
  const diffusion::DenoiserFacts& facts = model.facts();
  constexpr int64_t kBatch = 2;  // without and with the prompt
  const Shape shape{kBatch, facts.in_channels, latent.height, latent.width};
  diffusion::DenoiserInput input{.latent = planned.input(shape),
                                 .time = planned.input(Shape{kBatch, facts.time_features}),
                                 .context = planned.input(Shape{kBatch, kTokens, facts.context_width}),
                                 .guidance = {}};
  if (facts.guidance_features > 0) input.guidance = planned.input(Shape{kBatch, facts.guidance_features});
  if (facts.added_features > 0) input.added = planned.input(Shape{kBatch, facts.added_features});
  input.text = model.prepare_text(input.context);
  eval(input.text);
  eval(std::vector{model.forward(input)});
  PartMemory memory = planned.result("U-Net", part.checkpoint);
  if (segments != nullptr) memory.moved_bytes = segments->moved_bytes();
  return memory;
}

struct DecodedLatent {
  int64_t height = 0, width = 0;
  DType dtype = DType::f32;
  bool in_bands = false;
};

PartMemory autoencoder_memory(const PipelinePart& part, const diffusion::AutoencoderConfig& config,
                              const std::shared_ptr<Device>& device, const DecodedLatent& decoded) {
  PlannedPart planned(device);
  llm::PlannedWeights weights(part.checkpoint, {}, device, planned.memory());
  const auto source = std::make_shared<llm::SourcedModuleWeights>(weights);
  const diffusion::Autoencoder model({.device = device, .dtype = decoded.dtype, .weights = source}, config, false);
  std::optional<llm::PlannedWeights> wide_weights;  // bands are in f32
  std::optional<diffusion::Autoencoder> wide;
  if (decoded.in_bands && decoded.dtype != DType::f32) {
    wide_weights.emplace(part.checkpoint, std::span<const llm::WeightName>(), device, planned.memory());
    wide.emplace(nn::Factory{.device = device, .weights = std::make_shared<llm::SourcedModuleWeights>(*wide_weights)},
                 config, false);
  }
  planned.begin_work();
  const Tensor latent = planned.input(Shape{1, config.latent_channels, decoded.height, decoded.width});
  const Tensor picture =
      decoded.in_bands ? diffusion::decode_in_bands(wide ? *wide : model, latent, {}) : model.decode(latent);
  eval(pixels_of(picture, 0.5f, 0.5f));
  return planned.result("autoencoder", part.checkpoint);
}

}  // namespace

PipelineMemory forecast_memory(const PipelineParts& parts, const std::shared_ptr<Device>& device,
                               MemoryQuestion& question) {
  PictureSize& size = question.size;
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
  const DType dtype = dtype_of(question.precision, device->facts());
  PipelineMemory memory{.parts = {}, .precision = std::string(dtype_name(dtype))};
  const bool is_pair = parts.text_encoders.size() > 1;
  for (size_t i = 0; question.text && i < parts.text_encoders.size(); ++i)
    memory.parts.push_back(text_memory(parts.text_encoders[i], i, is_pair, device));
  const int64_t height = size.height / factor, width = size.width / factor;
  memory.parts.push_back(
      unet_memory(parts.unet, unet, device, dtype, {height, width, question.resident_bytes, question.separate}));
  memory.decodes_in_bands = decodes_in_bands(autoencoder, question.bands, height * width, dtype);
  memory.parts.push_back(
      autoencoder_memory(parts.autoencoder, autoencoder, device,
                         {.height = height, .width = width, .dtype = dtype, .in_bands = memory.decodes_in_bands}));
  for (const PartMemory& part : memory.parts) {
    memory.weight_bytes += part.weight_bytes;
    memory.work_bytes = std::max(memory.work_bytes, part.work_bytes);
  }
  return memory;
}

}  // namespace gabbro::pictures
