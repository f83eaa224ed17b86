#include "src/pictures/pipeline.h"

#include "gabbro/graph/eval.h"
#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/pictures/guidance.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/pipeline_parts.h"
#include "src/pictures/pipeline_state.h"
#include "src/pictures/request_schedule.h"

namespace gabbro::pictures {
namespace {

using diffusion::Autoencoder;

constexpr int64_t kMostSide = 16384, kMostSteps = 1000, kMostBatch = 4096;

// A model of modules from a part's folder.
template <class M, class... Options>
std::shared_ptr<M> load_part(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                             const PipelineOptions& options, DType dtype, FilesInUse& files, PipelineFacts& facts,
                             const char* part, const Options&... of_model) {
  llm::WeightOptions weight_options{.check_values = options.check_weights};
  if (options.progress) {
    weight_options.progress = [&options, part](uint64_t done, uint64_t total) {
      options.progress(part, static_cast<double>(done) / static_cast<double>(total));
    };
  }
  llm::CheckpointWeights weights(checkpoint, {}, device, weight_options);
  const nn::Factory make{
      .device = device, .dtype = dtype, .weights = std::make_shared<llm::SourcedModuleWeights>(weights)};
  std::shared_ptr<M> model = std::make_shared<M>(make, of_model...);
  checkpoint.require_unchanged();
  files.add(checkpoint.files());
  facts.file_bytes += checkpoint.file_bytes();
  if (options.progress) options.progress(part, 1);  // also if tensors of the file are not used
  return model;
}

// The numbers that SDXL was trained with for a picture: its size before it was cropped, the crop's corner, its size.
constexpr int64_t kSizeNumbers = 6, kRefinerNumbers = 5;

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

}  // namespace

Pipeline::Pipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pipeline::~Pipeline() = default;
const PipelineFacts& Pipeline::facts() const { return state_->facts; }
const Device& Pipeline::device() const { return *state_->device; }

std::shared_ptr<Pipeline> Pipeline::load(const std::string& path, const PipelineOptions& options) {
  return load(
      open_pipeline(
          path, {.autoencoder = options.vae, .text_encoders = options.text_encoders, .tokenizers = options.tokenizers}),
      options);
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
  s.text = std::make_unique<PromptEncoder>(parts, s.device, options.check_weights, options.embeddings);
  require_texts(path, *s.text, unet);
  const DType dtype = dtype_of(options.precision, s.device->facts());
  s.unet = load_part<diffusion::UNet>(parts.unet.checkpoint, s.device, options, dtype, s.files, s.facts, "U-Net", unet);
  const auto load_autoencoder = [&s, checkpoint = parts.autoencoder.checkpoint, autoencoder](
                                    const PipelineOptions& o, DType computed, PipelineFacts& facts) {
    return load_part<Autoencoder>(checkpoint, s.device, o, computed, s.files, facts, "autoencoder", autoencoder,
                                  o.encoder);
  };
  s.autoencoder = load_autoencoder(options, dtype, s.facts);
  s.load_wide_autoencoder = [load_autoencoder, encoder = options.encoder] {
    PipelineFacts counted;
    return load_autoencoder({.check_weights = false, .encoder = encoder}, DType::f32, counted);
  };
  s.has_encoder = options.encoder;
  if (!options.preview_decoder.empty()) {
    const Json config = read_config(options.preview_decoder, "config.json");
    const diffusion::TinyDecoderConfig tiny =
        diffusion::read_tiny_decoder_config(JsonNode(config, options.preview_decoder + "/config.json"));
    if (tiny.latent_channels != autoencoder.latent_channels) {
      throw bad_input("{}: decodes latents of {} channels, the pipeline's have {}", options.preview_decoder,
                      tiny.latent_channels, autoencoder.latent_channels);
    }
    s.tiny_decoder = load_part<diffusion::TinyDecoder>(Checkpoint::open(weights_of(options.preview_decoder)), s.device,
                                                       options, DType::f32, s.files, s.facts, "preview decoder", tiny);
  }
  std::vector<AdaptedText> texts;
  for (size_t i = 0; i < parts.text_encoders.size(); ++i)
    texts.push_back({&s.text->encoder(i), reader_of(parts.text_encoders[i].checkpoint, "text_model.")});
  s.adapters = std::make_unique<Adapters>(AdaptedModel{.device = s.device,
                                                       .unet = s.unet,
                                                       .resnets = unet.levels.front().resnets,
                                                       .texts = std::move(texts),
                                                       .unet_weight = reader_of(parts.unet.checkpoint, "")});
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

SchedulerConfig Pipeline::State::scheduler_for(const PictureRequest& request) const {
  const JsonNode config(scheduler, scheduler_name);
  const std::string name = request.sampler.empty() ? std::string(default_sampler(request.like)) : request.sampler;
  const Sampler* const sampler = name.empty() ? nullptr : &find_sampler(name);
  SchedulerConfig chosen = read_scheduler_config(config, sampler);
  if (chosen.sampler == nullptr) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: no sampler of {} is built", config.path(), chosen.class_name),
                "--sampler NAME takes another one");
  }
  if (request.eta) chosen.options.eta = request.eta;
  return chosen;
}

std::string Pipeline::State::schedule_name(const PictureRequest& request) const {
  if (!request.schedule.empty()) return request.schedule;
  return std::string(default_schedule(request.like, scheduler_for(request).sampler->name));
}

void Pipeline::check(const PictureRequest& request) const {
  const PipelineFacts& facts = state_->facts;
  for (const auto& [side, name] : {std::pair(request.width, "width"), {request.height, "height"}}) {
    if (side == 0) continue;
    const int64_t multiple = facts.size_multiple;
    if (side % multiple != 0 || side < multiple || side > kMostSide) {
      const int64_t nearest = std::clamp((side + multiple / 2) / multiple * multiple, multiple, kMostSide);
      throw Error(ErrorCode::kBadInput,
                  fmt::format("--{} {} is not a multiple of {} up to {}", name, side, multiple, kMostSide),
                  fmt::format("the nearest is {}", nearest));
    }
  }
  if (request.steps < 1 || request.steps > kMostSteps)
    throw bad_input("--steps {} is not in 1 to {}", request.steps, kMostSteps);
  if (!std::isfinite(request.guidance) || request.guidance < 0 || request.guidance > 100)
    throw bad_input("--guidance {} is not in 0 to 100", request.guidance);
  if (!(request.guidance_rescale >= 0 && request.guidance_rescale <= 1))
    throw bad_input("--guidance-rescale {} is not in 0 to 1", request.guidance_rescale);
  if (request.eta && !(*request.eta >= 0 && *request.eta <= 1))
    throw bad_input("--eta {} is not in 0 to 1", *request.eta);
  if (request.clip_skip < 0 || request.clip_skip > state_->text->most_skipped())
    throw bad_input("--clip-skip {}: the text encoder has {} layers", request.clip_skip, state_->text->layers());
  if (!(request.strength >= 0 && request.strength <= 1))
    throw bad_input("--strength {} is not in 0 to 1", request.strength);
  const SchedulerConfig scheduler = state_->scheduler_for(request);
  const bool begins = request.init != nullptr && request.strength > 0 && request.strength < 1;
  schedule_of({.steps = request.steps,
               .schedule = state_->schedule_name(request),
               .like = request.like,
               .strength = begins ? request.strength : 1},
              scheduler);
  const bool own_timesteps =
      scheduler.sampler->style == TimestepStyle::kDiscrete || scheduler.sampler->style == TimestepStyle::kConsistency;
  if (!request.schedule.empty() && own_timesteps)
    throw bad_input("--schedule {}: the sampler {} has its own timesteps", request.schedule, scheduler.sampler->name);
  if (request.batch < 1 || request.batch > kMostBatch)
    throw bad_input("--batch {} is not in 1 to {}", request.batch, kMostBatch);
  if (request.position < 0 || request.position >= request.batch)
    throw bad_input("picture {} of a batch of {}", request.position, request.batch);
  if (request.latent != nullptr) {
    const int64_t multiple = facts.size_multiple, channels = state_->autoencoder->config().latent_channels;
    if (std::ssize(*request.latent) != channels * (request.width / multiple) * (request.height / multiple))
      throw bad_input("--resume-latent: a latent of {} numbers for {} x {} pixels", request.latent->size(),
                      request.width, request.height);
  }
  check_hires(request);
  check_init(request);
}

void Pipeline::check_hires(const PictureRequest& request) const {
  if (!(request.hires >= 1 && request.hires <= 8)) throw bad_input("--hires {} is not in 1 to 8", request.hires);
  if (request.hires == 1) return;
  if (request.init != nullptr) throw bad_input("--hires: not of a picture that is there already (--init)");
  if (!(request.hires_strength > 0 && request.hires_strength <= 1))
    throw bad_input("--hires-strength {} is not above 0 and up to 1", request.hires_strength);
  schedule_of({.steps = request.steps,
               .schedule = state_->schedule_name(request),
               .like = request.like,
               .strength = request.hires_strength},
              state_->scheduler_for(request));
}

void Pipeline::check_init(const PictureRequest& request) const {
  if (request.mask != nullptr && request.init == nullptr) throw bad_input("--mask: there is no picture (--init)");
  if (state_->inpaints() && request.mask == nullptr && request.latent == nullptr) {
    throw Error(ErrorCode::kBadInput, "the model is made for inpainting, and there is no mask",
                "--init PICTURE --mask PICTURE");
  }
  if (request.init == nullptr) return;
  const images::Picture& init = *request.init;
  if (init.channels != 3) throw bad_input("--init: a picture of {} channels", init.channels);
  if (!state_->has_encoder) throw bad_input("--init: the pipeline was loaded without its encoder");
  if (request.mask == nullptr) return;
  const images::Picture& mask = *request.mask;
  if (mask.channels != 1) throw bad_input("--mask: a picture of {} channels", mask.channels);
  if (mask.width != init.width || mask.height != init.height) {
    throw bad_input("--mask: {} x {} pixels, and the picture has {} x {}", mask.width, mask.height, init.width,
                    init.height);
  }
  if (!(request.mask_blur >= 0 && request.mask_blur <= 256))
    throw bad_input("--mask-blur {} is not in 0 to 256", request.mask_blur);
}

EncodedPrompts Pipeline::State::encode(const PictureRequest& request, PictureResult& result) const {
  return text->encode({.prompt = request.prompt,
                       .negative = request.negative,
                       .syntax = request.syntax,
                       .skipped = request.clip_skip,
                       .guides = request.guidance > 1 && unet->facts().guidance_features == 0,
                       .cancel = request.cancel},
                      result.notes);
}

// The pooled texts of a batch with the numbers of the picture's size, [B, added_features].
std::vector<float> Pipeline::State::added_features(const EncodedPrompts& prompts, int64_t height, int64_t width) const {
  const int64_t sizes[kSizeNumbers] = {height, width, 0, 0, height, width};
  const auto length = static_cast<size_t>(text->pooled_width());
  std::vector<float> all;
  for (size_t first = 0; first < prompts.pooled.size(); first += length) {
    const std::vector<float> features = unet->added_features(std::span(prompts.pooled).subspan(first, length), sizes);
    all.insert(all.end(), features.begin(), features.end());
  }
  return all;
}

// Computed again where the texts or the adapters are others than at the last call.
const std::vector<Tensor>& Pipeline::State::prepare_text(const EncodedPrompts& prompts) {
  PreparedText& last = prepared_text;
  const Tensor& strengths = adapters->strengths();
  const bool same_strengths = strengths.defined() == last.strengths.defined() &&
                              (!strengths.defined() || strengths.shared_state() == last.strengths.shared_state());
  if (!last.tensors.empty() && same_strengths && last.adapters == adapters->plan_key() && last.states == prompts.states)
    return last.tensors;
  last.tensors.clear();
  const Shape shape{prompts.guides ? 2 : 1, prompts.length, unet->facts().context_width};
  std::vector<Tensor> tensors = unet->prepare_text(device->upload(DType::f32, shape, prompts.states.data()));
  eval(tensors);
  last = {.states = prompts.states, .strengths = strengths, .adapters = adapters->plan_key(), .tensors = tensors};
  return last.tensors;
}

std::vector<float> Pipeline::State::denoise(const Latent& x, const Latent& condition, double timestep,
                                            const EncodedPrompts& prompts, const PictureRequest& request,
                                            int64_t height, int64_t width) {
  const diffusion::DenoiserFacts& model = unet->facts();
  const int64_t batch = prompts.guides ? 2 : 1;
  const std::vector<float> features = unet->time_features(timestep);
  std::vector<float> latents, times, guidance;
  for (int64_t i = 0; i < batch; ++i) {
    latents.insert(latents.end(), x.begin(), x.end());
    latents.insert(latents.end(), condition.begin(), condition.end());
    times.insert(times.end(), features.begin(), features.end());
  }
  std::vector<Tensor> inputs{device->upload(DType::f32, Shape{batch, model.in_channels, height, width}, latents.data()),
                             device->upload(DType::f32, Shape{batch, model.time_features}, times.data())};
  if (model.guidance_features > 0) {
    // Models that were distilled with guidance take 1000 times its excess over 1 (Luo et al. 2023).
    guidance = diffusion::sinusoid_features(1000 * (request.guidance - 1),
                                            {.width = model.guidance_features, .cosines_first = false, .shift = 1});
    inputs.push_back(device->upload(DType::f32, Shape{batch, model.guidance_features}, guidance.data()));
  }
  const size_t at_added = inputs.size();
  if (model.added_features > 0) {
    const std::vector<float> added = added_features(prompts, height * facts.size_multiple, width * facts.size_multiple);
    inputs.push_back(device->upload(DType::f32, Shape{batch, model.added_features}, added.data()));
  }
  const std::vector<Tensor>& prepared = prepare_text(prompts);
  inputs.insert(inputs.end(), prepared.begin(), prepared.end());
  if (adapters->strengths().defined()) inputs.push_back(adapters->strengths());
  std::vector<int64_t> shape{batch, height, width, prompts.length};
  for (const int64_t part : adapters->plan_key()) shape.push_back(part);
  if (compiled == nullptr || compiled_for != shape) {
    compiled = std::make_unique<Compiled>(
        [&] {
          return std::vector<Tensor>{unet->forward({.latent = inputs[0],
                                                    .time = inputs[1],
                                                    .context = {},
                                                    .guidance = model.guidance_features > 0 ? inputs[2] : Tensor(),
                                                    .added = model.added_features > 0 ? inputs[at_added] : Tensor(),
                                                    .text = prepared})};
        },
        inputs);
    compiled_for = shape;
    compiled->forget_inputs();
  }
  const std::vector<Tensor> outputs = (*compiled)(inputs, request.cancel);
  std::vector<float> output = to_host<float>(outputs[0]);
  if (!prompts.guides) return output;
  const std::span all(output);
  return guided(all.first(x.size()), all.subspan(x.size()), request.guidance, request.guidance_rescale);
}

}  // namespace gabbro::pictures
