// Loading of a pipeline: its parts onto the device, as placement.h places them.
#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/pipeline_parts.h"
#include "src/pictures/pipeline_state.h"
#include "src/pictures/placement.h"

namespace gabbro::pictures {
namespace {

using diffusion::Autoencoder;

struct PartLoading {
  const Checkpoint& checkpoint;
  const std::shared_ptr<Device>& device;
  const PipelineOptions& options;
  DType dtype = DType::f32;
  const char* name = "";
  bool separate = false;  // each matrix has its own memory
};

// A model of modules from a part's folder.
template <class M, class... Options>
std::shared_ptr<M> load_part(const PartLoading& part, FilesInUse& files, PipelineFacts& facts,
                             const Options&... of_model) {
  const PipelineOptions& options = part.options;
  const Checkpoint& checkpoint = part.checkpoint;
  llm::WeightOptions weight_options{.check_values = options.check_weights};
  if (options.progress) {
    weight_options.progress = [&options, name = part.name](uint64_t done, uint64_t total) {
      options.progress(name, static_cast<double>(done) / static_cast<double>(total));
    };
  }
  if (part.separate) weight_options.resident_bytes = 0;
  llm::CheckpointWeights weights(checkpoint, {}, part.device, weight_options);
  const nn::Factory make{
      .device = part.device, .dtype = part.dtype, .weights = std::make_shared<llm::SourcedModuleWeights>(weights)};
  std::shared_ptr<M> model = std::make_shared<M>(make, of_model...);
  checkpoint.require_unchanged();
  files.add(checkpoint.files());
  facts.file_bytes += checkpoint.file_bytes();
  if (options.progress) options.progress(part.name, 1);  // also if tensors of the file are not used
  return model;
}

constexpr int64_t kRefinerNumbers = 5;  // in place of kSizeNumbers

// Throws where the denoiser wants other texts than the encoders give.
void require_texts(const std::string& path, const PromptEncoder& text, const diffusion::UNetConfig& unet) {
  const int64_t pooled = text.pooled_width();
  if ((unet.added_features > 0) != (pooled > 0)) {
    throw bad_input("{}: the U-Net takes {} pooled text, the pipeline has {}", path,
                    unet.added_features > 0 ? "a" : "no", pooled > 0 ? "one" : "none");
  }
  if (unet.added_features == pooled + kRefinerNumbers * unet.added_id_features && pooled > 0)
    throw bad_input("{}: is a refiner of SDXL, which is not supported", path);
  if (pooled > 0 && unet.added_features != pooled + kSizeNumbers * unet.added_id_features) {
    throw bad_input("{}: the U-Net takes {} added numbers, a pooled text of {} and {} sizes of {} have {}", path,
                    unet.added_features, pooled, kSizeNumbers, unet.added_id_features,
                    pooled + kSizeNumbers * unet.added_id_features);
  }
  if (text.width() != unet.context_width) {
    throw bad_input("{}: the text encoder's states have {} numbers, the U-Net wants {}", path, text.width(),
                    unet.context_width);
  }
}

// Throws where the denoiser takes or gives other latents than the autoencoder has.
void require_latents(const std::string& path, const diffusion::UNetConfig& unet,
                     const diffusion::AutoencoderConfig& autoencoder) {
  // A model for inpainting takes a mask and a picture too.
  const bool takes_latents =
      unet.in_channels == autoencoder.latent_channels || unet.in_channels == 2 * autoencoder.latent_channels + 1;
  if (!takes_latents || unet.out_channels != autoencoder.latent_channels) {
    throw bad_input("{}: the U-Net takes {} channels and gives {}, the autoencoder's latents have {}", path,
                    unet.in_channels, unet.out_channels, autoencoder.latent_channels);
  }
}

Placement placement_of(const PipelineParts& parts, const std::shared_ptr<Device>& device,
                       const PipelineOptions& options, const diffusion::UNetConfig& unet, int64_t factor) {
  if (options.memory == 0) return {};
  constexpr int64_t kMostPlanned = 1 << 15;  // larger ones are refused when a picture is drawn
  const auto side = [&](int64_t given) {
    const int64_t first = std::min(given > 0 ? given : unet.sample_size * factor, kMostPlanned);
    return static_cast<int64_t>(std::ceil(static_cast<double>(first) * options.hires / static_cast<double>(factor))) *
           factor;
  };
  return place_pipeline(parts, device,
                        {.size = {.width = side(options.width), .height = side(options.height)},
                         .precision = options.precision,
                         .bands = options.bands},
                        options.memory);
}

// Reads a part's tensors in f32, whose names may have the prefix.
WeightReader reader_of(const Checkpoint& checkpoint, const std::string& prefix) {
  return [checkpoint, prefix](const std::string& name) {
    const bool prefixed = !prefix.empty() && checkpoint.tensor(prefix + name) != nullptr;
    const CheckpointTensor& tensor = checkpoint.require_tensor(prefixed ? prefix + name : name);
    tensor.prepare();
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    dequantize_row(tensor.dtype(), tensor.data.data(), values.data(), tensor.elements());
    return values;
  };
}

std::vector<AdaptedText> adapted_texts(const PipelineParts& parts, const PromptEncoder& text) {
  std::vector<AdaptedText> texts;
  for (size_t i = 0; i < parts.text_encoders.size(); ++i)
    texts.push_back({&text.encoder(i), reader_of(parts.text_encoders[i].checkpoint, "text_model.")});
  return texts;
}

}  // namespace

std::shared_ptr<Pipeline> Pipeline::load(const std::string& path, const PipelineOptions& options) {
  return load(
      open_pipeline(
          path, {.autoencoder = options.vae, .text_encoders = options.text_encoders, .tokenizers = options.tokenizers}),
      options);
}

void Pipeline::State::load_preview_decoder(const PipelineOptions& options, int64_t latent_channels) {
  const std::string& folder = options.preview_decoder;
  const Json config = read_config(folder, "config.json");
  const diffusion::TinyDecoderConfig tiny =
      diffusion::read_tiny_decoder_config(JsonNode(config, folder + "/config.json"));
  if (tiny.latent_channels != latent_channels) {
    throw bad_input("{}: decodes latents of {} channels, the pipeline's have {}", folder, tiny.latent_channels,
                    latent_channels);
  }
  const Checkpoint checkpoint = Checkpoint::open(weights_of(folder));
  const PartLoading part{.checkpoint = checkpoint, .device = device, .options = options, .name = "preview decoder"};
  tiny_decoder = load_part<diffusion::TinyDecoder>(part, files, facts, tiny);
}

std::shared_ptr<Pipeline> Pipeline::load(const PipelineParts& parts, const PipelineOptions& options) {
  const std::string& path = parts.path;
  auto state = std::make_unique<State>();
  State& s = *state;
  s.scheduler_name = parts.scheduler_name;
  s.scheduler = parts.scheduler;
  const SchedulerConfig scheduler = read_scheduler_config(JsonNode(s.scheduler, s.scheduler_name));
  const diffusion::UNetConfig unet = diffusion::read_unet_config(JsonNode(parts.unet.config, parts.unet.config_name));
  const diffusion::AutoencoderConfig autoencoder =
      diffusion::read_autoencoder_config(JsonNode(parts.autoencoder.config, parts.autoencoder.config_name));
  require_latents(path, unet, autoencoder);
  s.device = open_device(options.device, {.threads = options.threads});
  const Placement placement = placement_of(parts, s.device, options, unet, autoencoder.factor());
  s.trims = options.memory > 0;
  s.bands = placement.bands;
  s.facts.placement = placement.describe();
  s.text = std::make_unique<PromptEncoder>(
      parts, placement.text_on_cpu ? open_device("cpu", {.threads = options.threads}) : s.device, options.check_weights,
      options.embeddings);
  require_texts(path, *s.text, unet);
  const DType dtype = dtype_of(options.precision, s.device->facts());
  const auto segments = placement.resident_bytes
                            ? std::make_shared<diffusion::WeightSegments>(s.device, *placement.resident_bytes)
                            : nullptr;
  const PartLoading of_unet{.checkpoint = parts.unet.checkpoint,
                            .device = s.device,
                            .options = options,
                            .dtype = dtype,
                            .name = "U-Net",
                            .separate = options.memory > 0};
  s.unet = load_part<diffusion::UNet>(of_unet, s.files, s.facts, unet, segments);
  const auto load_autoencoder = [&s, checkpoint = parts.autoencoder.checkpoint, autoencoder](
                                    const PipelineOptions& o, DType computed, PipelineFacts& facts) {
    const PartLoading part{
        .checkpoint = checkpoint, .device = s.device, .options = o, .dtype = computed, .name = "autoencoder"};
    return load_part<Autoencoder>(part, s.files, facts, autoencoder, o.encoder);
  };
  s.autoencoder = load_autoencoder(options, dtype, s.facts);
  s.load_wide_autoencoder = [load_autoencoder, encoder = options.encoder] {
    PipelineFacts counted;
    return load_autoencoder({.check_weights = false, .encoder = encoder}, DType::f32, counted);
  };
  s.has_encoder = options.encoder;
  if (!options.preview_decoder.empty()) s.load_preview_decoder(options, autoencoder.latent_channels);
  s.adapters = std::make_unique<Adapters>(AdaptedModel{.device = s.device,
                                                       .unet = s.unet,
                                                       .resnets = unet.levels.front().resnets,
                                                       .texts = adapted_texts(parts, *s.text),
                                                       .unet_weight = reader_of(parts.unet.checkpoint, "")});
  s.device->trim(abi::MemoryKind::kDevice);  // what converted weights were made of
  s.facts.name = parts.name;
  s.facts.precision = dtype_name(dtype);
  s.facts.class_name = parts.class_name;
  s.facts.device_id = s.device->facts().id;
  s.facts.device_name = s.device->facts().name;
  if (scheduler.sampler != nullptr) s.facts.sampler = scheduler.sampler->name;
  s.facts.size_multiple = autoencoder.factor();
  s.facts.width = s.facts.height = unet.sample_size * autoencoder.factor();
  return std::shared_ptr<Pipeline>(new Pipeline(std::move(state)));
}

}  // namespace gabbro::pictures
