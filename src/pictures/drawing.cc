#include "src/pictures/drawing.h"

#include <chrono>
#include <cmath>

#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/images/resize.h"
#include "src/pictures/latent_resize.h"
#include "src/pictures/masks.h"
#include "src/pictures/picture_tensor.h"
#include "src/pictures/request_schedule.h"
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {

Drawing::Drawing(Pipeline::State& state, const PictureRequest& request)
    : s_(state),
      request_(request),
      rules_(rules_of(request.like)),
      scheduler_(state.scheduler_for(request)),
      channels_(state.autoencoder->config().latent_channels) {
  const images::Picture* const init = request.init.get();
  const int64_t multiple = s_.facts.size_multiple;
  const auto side = [&](int64_t wanted, int64_t of_init, int64_t of_model) {
    if (wanted > 0) return wanted;
    return init != nullptr ? std::max(of_init / multiple * multiple, multiple) : of_model;
  };
  result_.width = side(request.width, init != nullptr ? init->width : 0, s_.facts.width);
  result_.height = side(request.height, init != nullptr ? init->height : 0, s_.facts.height);
  result_.sampler = scheduler_.sampler->name;
  result_.schedule = s_.schedule_name(request);
}

Drawing::Size Drawing::latent_size() const {
  return {.height = result_.height / s_.facts.size_multiple, .width = result_.width / s_.facts.size_multiple};
}

std::unique_ptr<BatchNoise> Drawing::make_noise(uint64_t offset) const {
  return std::make_unique<BatchNoise>(BatchNoiseOptions{.kind = request_.noise,
                                                        .seed = request_.seed + offset,
                                                        .pictures = static_cast<size_t>(request_.batch),
                                                        .one_stream = rules_.one_stream,
                                                        .first = static_cast<size_t>(request_.position)});
}

void Drawing::read_init() {
  if (request_.init == nullptr) return;
  const images::Picture& given = *request_.init;
  init_ = images::resize_lanczos(given, result_.width, result_.height);
  init_.texts.clear();
  if (init_.width != given.width || init_.height != given.height) {
    result_.notes.push_back(fmt::format("the picture of {} x {} pixels is resized to {} x {}", given.width,
                                        given.height, init_.width, init_.height));
  }
  if (request_.mask == nullptr) return;
  const images::Picture blurred = images::blur_gaussian(*request_.mask, request_.mask_blur);
  mask_ = images::resize_lanczos(blurred, result_.width, result_.height);
  const MaskReduction reduction = s_.inpaints() ? MaskReduction::kNearest : mask_reduction(request_.like);
  share_ = reduce_mask(mask_, s_.facts.size_multiple, reduction);
}

Latent Drawing::encode(const Tensor& picture, BatchNoise& noise) {
  const diffusion::AutoencoderConfig& config = s_.autoencoder->config();
  const std::vector<float> values = s_.encode_moments(picture, request_.cancel, result_.notes);
  const size_t count = values.size() / 2;
  Latent latent(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
  if (rules_.samples_encoder) {
    const std::vector<float> drawn = noise.normal_of_each(count);
    for (size_t i = 0; i < count; ++i) {
      // Bounds of the logarithm of a variance, as diffusers has them.
      const float log_variance = std::clamp(values[count + i], -30.0f, 20.0f);
      latent[i] += std::exp(0.5f * log_variance) * drawn[i];
    }
  }
  for (float& value : latent) {
    if (!std::isfinite(value)) throw failed("the encoded picture has values that are not numbers");
    value = static_cast<float>((value - config.shift) * config.scaling);
  }
  return latent;
}

Latent Drawing::call_model(const SamplerModel& model, const Schedule& schedule, const Pass& pass, const Latent& x,
                           double timestep) {
  Latent output = s_.denoise(x, condition_, timestep, prompts_, request_, pass.size.height, pass.size.width);
  ++result_.evaluations;
  if (!all_finite(output)) {
    throw Error(ErrorCode::kFailed,
                fmt::format("step {}: the U-Net's output has values that are not numbers", result_.evaluations),
                s_.facts.precision == "f32" ? "" : "--precision f32 has a larger range");
  }
  if (request_.on_step) {
    const double ratio = schedule.table->sigma_at(timestep);
    const Latent seen =
        request_.step_latents ? model.picture_of(x, output, {.ratio = ratio, .timestep = timestep}) : Latent();
    request_.on_step({.step = result_.evaluations,
                      .steps = std::max(calls_, result_.evaluations),
                      .latent = seen,
                      .channels = channels_,
                      .height = pass.size.height,
                      .width = pass.size.width,
                      .timestep = timestep});
  }
  return output;
}

Latent Drawing::draw(const Pass& pass, BatchNoise& noise) {
  const Schedule schedule = schedule_of({.steps = request_.steps,
                                         .schedule = result_.schedule,
                                         .like = request_.like,
                                         .strength = pass.begin != nullptr ? pass.strength : 1},
                                        scheduler_);
  const int64_t steps = static_cast<int64_t>(schedule.steps());
  calls_ = result_.evaluations + steps * scheduler_.sampler->evaluations;
  const Latent first = noise.normal(numbers(pass.size));
  const NoiseLevel& level = schedule.levels.front();
  Latent x = pass.begin != nullptr ? weighted_sum({{level.alpha(), *pass.begin}, {level.sigma(), first}})
                                   : weighted_sum({{schedule.start_scale, first}});
  const auto keep = [&](Latent& state, const NoiseLevel& at, bool ratio_form) {
    const double picture = ratio_form ? 1 : at.alpha(), added = ratio_form ? at.ratio : at.sigma();
    keep_unmasked(state, weighted_sum({{picture, kept_}, {added, first}}), share_);
  };
  if (!mask_.pixels.empty()) {
    // diffusers encodes the picture without its masked part here, also for models that do not take it.
    const Tensor rest = tensor_of(init_, *s_.device, &mask_);
    if (s_.inpaints()) {
      const Latent encoded = encode(rest, noise);
      condition_ = share_;
      condition_.insert(condition_.end(), encoded.begin(), encoded.end());
    } else if (rules_.samples_encoder) {
      noise.normal_of_each(numbers(pass.size));
    }
    if (!kept_.empty() && rules_.keeps_from_start) keep(x, level, false);
  }
  SamplerModel model{.prediction = scheduler_.prediction};
  model.call = [&](const Latent& at, double timestep) { return call_model(model, schedule, pass, at, timestep); };
  const std::unique_ptr<BatchNoise> step_noise = rules_.separate_step_noise ? make_noise(1) : nullptr;
  SamplerRun run{.schedule = schedule,
                 .model = model,
                 .noise = step_noise != nullptr ? *step_noise : noise,
                 .options = scheduler_.options};
  if (!kept_.empty()) run.after_step = keep;
  return scheduler_.sampler->run(std::move(x), run);
}

Latent Drawing::draw_at_size() {
  const std::unique_ptr<BatchNoise> noise = make_noise(0);
  // At strength 1 the picture counts for nothing, and the noise is that of a picture from a text.
  const bool begins = !init_.pixels.empty() && request_.strength < 1;
  const bool keeps = !mask_.pixels.empty() && !s_.inpaints();
  const Latent encoded = begins || keeps ? encode(tensor_of(init_, *s_.device), *noise) : Latent();
  if (keeps) kept_ = encoded;
  return draw({.size = latent_size(), .strength = request_.strength, .begin = begins ? &encoded : nullptr}, *noise);
}

// "Hires fix" of A1111 with its upscaler "Latent": the same seed at the larger size.
Latent Drawing::draw_larger(const Latent& latent) {
  const Size small = latent_size();
  const auto larger = [&](int64_t side) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(side) * request_.hires));
  };
  const Size size{.height = larger(small.height), .width = larger(small.width)};
  const Latent begin = resize_bilinear(latent, {small.height, small.width}, {size.height, size.width});
  result_.height = size.height * s_.facts.size_multiple;
  result_.width = size.width * s_.facts.size_multiple;
  const std::unique_ptr<BatchNoise> noise = make_noise(0);
  return draw({.size = size, .strength = request_.hires_strength, .begin = &begin}, *noise);
}

void Drawing::decode() {
  const Size size = latent_size();
  if (request_.on_latent) request_.on_latent(result_.latent, size.height, size.width);
  const auto started = std::chrono::steady_clock::now();
  result_.picture = s_.decode(result_.latent, size.height, size.width, request_, result_.notes);
  if (!mask_.pixels.empty()) paste_unmasked(result_.picture, init_, mask_);
  result_.decode_seconds = seconds_since(started);
  s_.files.require_unchanged();
}

PictureResult Drawing::run() {
  if (request_.latent != nullptr) {
    result_.latent = *request_.latent;
    decode();
    return std::move(result_);
  }
  read_init();
  if (!init_.pixels.empty() && request_.strength == 0) {
    result_.picture = std::move(init_);
    return std::move(result_);
  }
  auto started = std::chrono::steady_clock::now();
  prompts_ = s_.encode(request_, result_);
  result_.text_seconds = seconds_since(started);
  if (s_.trims) s_.device->trim(abi::MemoryKind::kDevice);
  started = std::chrono::steady_clock::now();
  result_.latent = draw_at_size();
  if (request_.hires > 1) result_.latent = draw_larger(result_.latent);
  result_.denoise_seconds = seconds_since(started);
  decode();
  return std::move(result_);
}

PictureResult Pipeline::generate(const PictureRequest& request) {
  check(request);
  state_->adapters->use(request.loras);
  return Drawing(*state_, request).run();
}

}  // namespace gabbro::pictures
