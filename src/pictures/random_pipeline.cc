#include "src/pictures/random_pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "gabbro/nn/linear.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/random_file.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/unet.h"

namespace gabbro::pictures {
namespace {

// Activations of random weights stay finite in f16: a convolution of 3 x 3 over 1280 channels multiplies their
// deviation by 2.
constexpr float kWeightDeviation = 0.02f;
constexpr uint64_t kWeightSeed = 1;

struct PublishedShape {
  const char* name;
  const char* class_name;
  const char* unet;
  std::vector<const char*> text_encoders;
  const char* scheduler;
};

// SDXL's has another scale of latents, which takes no time.
constexpr const char* kAutoencoder = R"({
  "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "scaling_factor": 0.18215,
  "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"],
  "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]})";

constexpr const char* kSd15UNet = R"({
  "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "sample_size": 64,
  "attention_head_dim": 8, "cross_attention_dim": 768,
  "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]})";

constexpr const char* kSd21UNet = R"({
  "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "sample_size": 96,
  "attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "use_linear_projection": true,
  "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]})";

constexpr const char* kSdxlUNet = R"({
  "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "sample_size": 128,
  "attention_head_dim": [5, 10, 20], "cross_attention_dim": 2048, "use_linear_projection": true,
  "transformer_layers_per_block": [1, 2, 10], "addition_embed_type": "text_time",
  "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
  "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
  "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"]})";

constexpr const char* kClipL = R"({
  "model_type": "clip_text_model", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
  "intermediate_size": 3072, "max_position_embeddings": 77, "vocab_size": 49408, "hidden_act": "quick_gelu",
  "layer_norm_eps": 1e-5})";

constexpr const char* kOpenClipH = R"({
  "model_type": "clip_text_model", "hidden_size": 1024, "num_hidden_layers": 23, "num_attention_heads": 16,
  "intermediate_size": 4096, "max_position_embeddings": 77, "vocab_size": 49408, "hidden_act": "gelu",
  "layer_norm_eps": 1e-5})";

constexpr const char* kOpenClipG = R"({
  "model_type": "clip_text_model", "hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 20,
  "intermediate_size": 5120, "max_position_embeddings": 77, "vocab_size": 49408, "hidden_act": "gelu",
  "layer_norm_eps": 1e-5, "projection_dim": 1280})";

constexpr const char* kPndm = R"({
  "_class_name": "PNDMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "num_train_timesteps": 1000, "skip_prk_steps": true, "steps_offset": 1, "timestep_spacing": "leading"})";

constexpr const char* kVelocity = R"({
  "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "num_train_timesteps": 1000, "steps_offset": 1, "prediction_type": "v_prediction", "clip_sample": false,
  "set_alpha_to_one": false, "timestep_spacing": "leading"})";

constexpr const char* kEuler = R"({
  "_class_name": "EulerDiscreteScheduler", "beta_start": 0.00085, "beta_end": 0.012,
  "beta_schedule": "scaled_linear", "num_train_timesteps": 1000, "steps_offset": 1, "timestep_spacing": "leading"})";

const std::vector<PublishedShape>& published_shapes() {
  static const std::vector<PublishedShape> kShapes = {
      {"sd15", "StableDiffusionPipeline", kSd15UNet, {kClipL}, kPndm},
      {"sd21", "StableDiffusionPipeline", kSd21UNet, {kOpenClipH}, kVelocity},
      {"sdxl", "StableDiffusionXLPipeline", kSdxlUNet, {kClipL, kOpenClipG}, kEuler},
  };
  return kShapes;
}

using NamedShapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// Notes the names and shapes of the tensors that modules ask for. The tensors that it gives are never read.
class NotedWeights : public nn::ModuleWeights {
 public:
  explicit NotedWeights(std::shared_ptr<Device> device)
      : device_(std::move(device)), memory_(std::make_shared<std::vector<std::byte>>(64)) {}

  bool has(const std::string& /*name*/) const override { return false; }
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype) override {
    noted.emplace_back(name, std::vector<int64_t>(shape.lengths().begin(), shape.lengths().end()));
    return device_->tensor_in(memory_, dtype, shape);
  }
  std::shared_ptr<nn::Linear> linear(const std::string& prefix, int64_t rows, int64_t columns) override {
    const Tensor weight = tensor(prefix + ".weight", Shape{rows, columns}, DType::f32);
    if (!has_bias(prefix)) return std::make_shared<nn::Linear>(weight);
    return std::make_shared<nn::Linear>(weight, tensor(prefix + ".bias", Shape{rows}, DType::f32));
  }

  NamedShapes noted;

 private:
  // Queries, keys and values of transformers have none.
  static bool has_bias(const std::string& prefix) {
    return prefix.find(".attn") == prefix.npos || prefix.find(".to_out") != prefix.npos;
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<void> memory_;
};

template <class M, class Config>
NamedShapes tensors_of(const Config& config) {
  const std::shared_ptr<Device> device = open_device("null");
  const auto weights = std::make_shared<NotedWeights>(device);
  const M model(nn::Factory{.device = device, .weights = weights}, config);
  return weights->noted;
}

// As transformers names them.
NamedShapes clip_tensors(const JsonNode& config) {
  constexpr int64_t kMost = 1 << 20;
  const auto field = [&](const char* name) { return config.at(name).integer(1, kMost); };
  const int64_t width = field("hidden_size"), inner = field("intermediate_size");
  const std::string model = "text_model.";
  NamedShapes all{{model + "embeddings.token_embedding.weight", {field("vocab_size"), width}},
                  {model + "embeddings.position_embedding.weight", {field("max_position_embeddings"), width}}};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    all.emplace_back(name + ".bias", std::vector<int64_t>{shape.front()});
    all.emplace_back(name + ".weight", std::move(shape));
  };
  for (int64_t i = 0; i < field("num_hidden_layers"); ++i) {
    const std::string layer = fmt::format("{}encoder.layers.{}.", model, i);
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
      add(layer + "self_attn." + name, {width, width});
    for (const char* name : {"layer_norm1", "layer_norm2"}) add(layer + name, {width});
    add(layer + "mlp.fc1", {inner, width});
    add(layer + "mlp.fc2", {width, inner});
  }
  add(model + "final_layer_norm", {width});
  if (config.find("projection_dim"))
    all.emplace_back("text_projection.weight", std::vector{field("projection_dim"), width});
  return all;
}

// Matrices are random, norms have ones, and biases zeros.
Checkpoint random_part(const std::string& name, const char* config, const NamedShapes& shapes, DType dtype) {
  size_t longest = 1;
  for (const auto& [tensor, shape] : shapes) {
    if (shape.size() == 1) longest = std::max(longest, static_cast<size_t>(shape[0]));
  }
  const std::vector<float> ones(longest, 1.0f), zeros(longest);
  gguf::Writer writer(gguf::kPageAlignment);
  writer.add_string("general.architecture", "pipeline_part");
  for (const auto& [tensor, shape] : shapes) {
    if (shape.size() > 1) {
      writer.declare_tensor(tensor, gguf::ggml_type_number(dtype), shape);
      continue;
    }
    const std::span<const float> values = tensor.ends_with(".weight") ? ones : zeros;
    writer.add_tensor(tensor, gguf::ggml_type_number(DType::f32), shape,
                      std::as_bytes(values.first(static_cast<size_t>(shape[0]))));
  }
  const Checkpoint source(gguf::random_file(name, writer, kWeightDeviation, kWeightSeed));
  std::vector<std::pair<std::string, CheckpointTensor>> tensors;
  for (const CheckpointTensor& tensor : source.tensors()) tensors.emplace_back(tensor.name, tensor);
  return Checkpoint::of_tensors(source, name, config, std::move(tensors));
}

// Single characters of ASCII, in a word and at its end.
std::string ascii_vocabulary() {
  Json tokens = Json::object();
  for (char c = '!'; c <= '~'; ++c) {
    tokens[std::string(1, c)] = tokens.size();
    tokens[std::string(1, c) + "</w>"] = tokens.size();
  }
  tokens["<|startoftext|>"] = tokens.size();
  tokens["<|endoftext|>"] = tokens.size();
  return tokens.dump();
}

}  // namespace

std::vector<std::string> random_pipeline_shapes() {
  std::vector<std::string> names;
  for (const PublishedShape& shape : published_shapes()) names.emplace_back(shape.name);
  return names;
}

PipelineParts random_pipeline(const std::string& name, DType dtype) {
  const auto found = std::ranges::find(published_shapes(), name, &PublishedShape::name);
  if (found == published_shapes().end())
    throw bad_input("--shape: '{}' is none of {}", name, fmt::join(random_pipeline_shapes(), ", "));
  const auto named = [&](const char* part) { return name + "/" + part + "/config.json"; };
  const Json unet = Json::parse(found->unet), autoencoder = Json::parse(kAutoencoder);
  const NamedShapes of_unet = tensors_of<diffusion::UNet>(diffusion::read_unet_config(JsonNode(unet, named("unet"))));
  const NamedShapes of_autoencoder =
      tensors_of<diffusion::Autoencoder>(diffusion::read_autoencoder_config(JsonNode(autoencoder, named("vae"))));
  PipelineParts parts{
      .path = name,
      .name = name,
      .class_name = found->class_name,
      .unet = {random_part(name + "/unet", found->unet, of_unet, dtype), unet, named("unet")},
      .autoencoder = {random_part(name + "/vae", kAutoencoder, of_autoencoder, dtype), autoencoder, named("vae")},
      .text_encoders = {},
      .scheduler = Json::parse(found->scheduler),
      .scheduler_name = name + "/scheduler/scheduler_config.json",
      .zeros_for_empty = found->text_encoders.size() > 1};
  for (const char* const config : found->text_encoders) {
    const Json fields = Json::parse(config);
    const NamedShapes of_text = clip_tensors(JsonNode(fields, named("text_encoder")));
    parts.text_encoders.push_back({.checkpoint = random_part(name + "/text_encoder", config, of_text, dtype),
                                   .tokenizer = name + "/tokenizer",
                                   .padding = "<|endoftext|>",
                                   .vocabulary = ascii_vocabulary()});
  }
  return parts;
}

}  // namespace gabbro::pictures
