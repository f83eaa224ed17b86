#include "src/pictures/pipeline.h"

#include "gabbro/graph/eval.h"
#include "gabbro/ops/shapes.h"
#include "src/base/error.h"
#include "src/pictures/guidance.h"
#include "src/pictures/pipeline_state.h"
#include "src/pictures/request_schedule.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostSide = 16384, kMostSteps = 1000, kMostBatch = 4096;

}  // namespace

Pipeline::Pipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pipeline::~Pipeline() = default;
const PipelineFacts& Pipeline::facts() const { return state_->facts; }
const Device& Pipeline::device() const { return *state_->device; }

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
  for (const auto& [given, own] : {std::pair(request.width, facts().width), {request.height, facts().height}}) {
    const double side = static_cast<double>(given > 0 ? given : own) * request.hires;
    if (side > kMostSide)
      throw bad_input("--hires {}: {:.0f} pixels are more than {} a side", request.hires, side, kMostSide);
  }
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
  if ((request.width == 0 && init.width > kMostSide) || (request.height == 0 && init.height > kMostSide)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("--init: {} x {} pixels are more than {} a side", init.width, init.height, kMostSide),
                "--width and --height resize it");
  }
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

// Lines for options that have no effect.
void Pipeline::State::note_unused(const PictureRequest& request, std::vector<std::string>& notes) const {
  const bool distilled = unet->facts().guidance_features > 0;
  if (request.guidance <= 1 || distilled) {
    const std::string reason =
        distilled ? "the model was trained with guidance" : fmt::format("--guidance is {:g}", request.guidance);
    if (!request.negative.empty()) notes.push_back(fmt::format("{}: the negative prompt has no part", reason));
    if (request.guidance_rescale > 0) notes.push_back(fmt::format("{}: --guidance-rescale has no part", reason));
  }
  const Sampler& sampler = *scheduler_for(request).sampler;
  if (request.eta && !sampler.takes_eta)
    notes.push_back(fmt::format("--eta has no part in the sampler {}", sampler.name));
}

EncodedPrompts Pipeline::State::encode(const PictureRequest& request, PictureResult& result) const {
  note_unused(request, result.notes);
  EncodedPrompts prompts = text->encode({.prompt = request.prompt,
                                         .negative = request.negative,
                                         .syntax = request.syntax,
                                         .skipped = request.clip_skip,
                                         .guides = request.guidance > 1 && unet->facts().guidance_features == 0,
                                         .cancel = request.cancel},
                                        result.notes);
  // Tensors of equal states are there since the last picture.
  const PreparedText& last = prepared_text;
  if (last.states != nullptr && last.length == prompts.length && *last.states == *prompts.states)
    prompts.states = last.states;
  return prompts;
}

// The pooled texts of a batch with the numbers of the picture's size, [B, added_features]; computed once a picture.
const Tensor& Pipeline::State::added_features(const EncodedPrompts& prompts, int64_t height, int64_t width) {
  AddedFeatures& last = last_added;
  if (last.tensor.defined() && last.pooled == prompts.pooled && last.height == height && last.width == width)
    return last.tensor;
  const int64_t sizes[kSizeNumbers] = {height, width, 0, 0, height, width};
  const auto length = static_cast<size_t>(text->pooled_width());
  std::vector<float> all;
  for (size_t first = 0; first < prompts.pooled.size(); first += length) {
    const std::vector<float> features = unet->added_features(std::span(prompts.pooled).subspan(first, length), sizes);
    all.insert(all.end(), features.begin(), features.end());
  }
  const Shape shape{prompts.guides ? 2 : 1, unet->facts().added_features};
  last = {.pooled = prompts.pooled,
          .height = height,
          .width = width,
          .tensor = device->upload(DType::f32, shape, all.data())};
  return last.tensor;
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
  std::vector<Tensor> tensors = unet->prepare_text(device->upload(DType::f32, shape, prompts.states->data()));
  eval(tensors);
  last = {.states = prompts.states,
          .length = prompts.length,
          .strengths = strengths,
          .adapters = adapters->plan_key(),
          .tensors = tensors};
  return last.tensors;
}

// The scale of guidance as an input of the step's plan, [].
const Tensor& Pipeline::State::guidance_scale(double scale) {
  LastGuidance& last = last_guidance;
  if (!last.tensor.defined() || last.scale != scale) {
    const auto factor = static_cast<float>(scale);
    last = {.scale = scale, .tensor = device->upload(DType::f32, Shape{}, &factor)};
  }
  return last.tensor;
}

namespace {

// guided() without rescaling of a batch, [2, C, H, W], on the device.
Tensor guided_pair(const Tensor& pair, const Tensor& scale) {
  const Tensor without = slice(pair, 0, 0, 1), with = slice(pair, 0, 1, 1);  // [1, C, H, W]
  return without + (with - without) * scale;
}

}  // namespace

// The inputs of a step that depend on its state: one latent with the condition's channels, times, and the guidance of
// models that were distilled with it.
std::vector<Tensor> Pipeline::State::step_inputs(const Latent& x, const Latent& condition, double timestep,
                                                 int64_t batch, double guidance, int64_t height, int64_t width) const {
  const diffusion::DenoiserFacts& model = unet->facts();
  std::vector<float> times = unet->time_features(timestep), joined;
  if (batch == 2) times.insert(times.end(), times.begin(), times.begin() + model.time_features);
  if (!condition.empty()) {
    joined = x;
    joined.insert(joined.end(), condition.begin(), condition.end());
  }
  const Shape one{1, model.in_channels, height, width};
  std::vector<Tensor> inputs{device->upload(DType::f32, one, condition.empty() ? x.data() : joined.data()),
                             device->upload(DType::f32, Shape{batch, model.time_features}, times.data())};
  if (model.guidance_features > 0) {
    // Models that were distilled with guidance take 1000 times its excess over 1 (Luo et al. 2023).
    const std::vector<float> features = diffusion::sinusoid_features(
        1000 * (guidance - 1), {.width = model.guidance_features, .cosines_first = false, .shift = 1});
    inputs.push_back(device->upload(DType::f32, Shape{batch, model.guidance_features}, features.data()));
  }
  return inputs;
}

// One latent goes to the device, and one prediction comes back: with guidance the plan makes a batch of two of the
// latent. Rescaled guidance takes deviations on the host.
std::vector<float> Pipeline::State::denoise(const Latent& x, const Latent& condition, double timestep,
                                            const EncodedPrompts& prompts, const PictureRequest& request,
                                            int64_t height, int64_t width) {
  const diffusion::DenoiserFacts& model = unet->facts();
  const int64_t batch = prompts.guides ? 2 : 1;
  const bool guides_here = prompts.guides && request.guidance_rescale == 0;
  std::vector<Tensor> inputs = step_inputs(x, condition, timestep, batch, request.guidance, height, width);
  const size_t at_added = inputs.size();
  if (model.added_features > 0)
    inputs.push_back(added_features(prompts, height * facts.size_multiple, width * facts.size_multiple));
  const std::vector<Tensor>& prepared = prepare_text(prompts);
  inputs.insert(inputs.end(), prepared.begin(), prepared.end());
  if (adapters->strengths().defined()) inputs.push_back(adapters->strengths());
  if (guides_here) inputs.push_back(guidance_scale(request.guidance));
  std::vector<int64_t> shape{batch, height, width, prompts.length, guides_here};
  for (const int64_t part : adapters->plan_key()) shape.push_back(part);
  const Shape all{batch, model.in_channels, height, width};
  const auto forward = [&] {
    const Tensor output = unet->forward({.latent = prompts.guides ? broadcast_to(inputs[0], all) : inputs[0],
                                         .time = inputs[1],
                                         .context = {},
                                         .guidance = model.guidance_features > 0 ? inputs[2] : Tensor(),
                                         .added = model.added_features > 0 ? inputs[at_added] : Tensor(),
                                         .text = prepared,
                                         .cancel = request.cancel});
    return std::vector<Tensor>{guides_here ? guided_pair(output, inputs.back()) : output};
  };
  const bool compiles = !unet->computes_in_parts();
  if (compiles && (compiled == nullptr || compiled_for != shape)) {
    compiled = std::make_unique<Compiled>(forward, inputs);
    compiled_for = shape;
    compiled->forget_inputs();
  }
  const std::vector<Tensor> outputs = compiles ? (*compiled)(inputs, request.cancel) : forward();
  eval(outputs, request.cancel);
  std::vector<float> output = to_host<float>(outputs[0]);
  if (!prompts.guides || guides_here) return output;
  const std::span pair(output);
  return guided(pair.first(x.size()), pair.subspan(x.size()), request.guidance, request.guidance_rescale);
}

}  // namespace gabbro::pictures
