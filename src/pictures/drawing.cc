#include "src/pictures/drawing.h"

#include <chrono>
#include <cmath>

#include "gabbro/graph/eval.h"
#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/images/resize.h"
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

std::unique_ptr<BatchNoise> Drawing::make_noise(uint64_t offset) const {
  return std::make_unique<BatchNoise>(
      BatchNoiseOptions{.kind = request_.noise, .seed = request_.seed + offset, .one_stream = rules_.one_stream});
}

Latent Drawing::encode(const images::Picture& picture, BatchNoise& noise) const {
  const diffusion::AutoencoderConfig& config = s_.autoencoder->config();
  Tensor moments = s_.autoencoder->encode(tensor_of(picture, *s_.device));  // [1, 2 C, h, w]
  eval(std::span(&moments, 1), request_.cancel);
  const std::vector<float> values = to_host<float>(moments);
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
  Latent output = s_.denoise(x, timestep, prompts_, request_, pass.size.height, pass.size.width);
  ++result_.evaluations;
  for (const float value : output) {
    if (!std::isfinite(value))
      throw failed("step {}: the U-Net's output has values that are not numbers", result_.evaluations);
  }
  if (request_.on_step) {
    const double ratio = schedule.table->sigma_at(timestep);
    const Latent seen = model.picture_of(x, output, {.ratio = ratio, .timestep = timestep});
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
  calls_ += static_cast<int64_t>(schedule.steps()) * scheduler_.sampler->evaluations;
  const Latent first = noise.normal(numbers(pass.size));
  const NoiseLevel& level = schedule.levels.front();
  Latent x = pass.begin != nullptr ? weighted_sum({{level.alpha(), *pass.begin}, {level.sigma(), first}})
                                   : weighted_sum({{schedule.start_scale, first}});
  SamplerModel model{.prediction = scheduler_.prediction};
  model.call = [&](const Latent& at, double timestep) { return call_model(model, schedule, pass, at, timestep); };
  const std::unique_ptr<BatchNoise> step_noise = rules_.separate_step_noise ? make_noise(1) : nullptr;
  return scheduler_.sampler->run(std::move(x), {.schedule = schedule,
                                                .model = model,
                                                .noise = step_noise != nullptr ? *step_noise : noise,
                                                .options = scheduler_.options});
}

PictureResult Drawing::run() {
  const int64_t multiple = s_.facts.size_multiple;
  const Size size{.height = result_.height / multiple, .width = result_.width / multiple};
  images::Picture init;
  if (request_.init != nullptr) {
    init = images::resize_lanczos(*request_.init, result_.width, result_.height);
    init.texts.clear();
    if (init.width != request_.init->width || init.height != request_.init->height) {
      result_.notes.push_back(fmt::format("the picture of {} x {} pixels is resized to {} x {}", request_.init->width,
                                          request_.init->height, init.width, init.height));
    }
    if (request_.strength == 0) {
      result_.picture = std::move(init);
      return std::move(result_);
    }
  }
  auto started = std::chrono::steady_clock::now();
  prompts_ = s_.encode(request_, result_);
  result_.text_seconds = seconds_since(started);

  started = std::chrono::steady_clock::now();
  const std::unique_ptr<BatchNoise> noise = make_noise(0);
  // At strength 1 the picture counts for nothing, and the noise is that of a picture from a text.
  const bool begins = request_.init != nullptr && request_.strength < 1;
  const Latent begin = begins ? encode(init, *noise) : Latent();
  result_.latent = draw({.size = size, .strength = request_.strength, .begin = begins ? &begin : nullptr}, *noise);
  result_.denoise_seconds = seconds_since(started);

  started = std::chrono::steady_clock::now();
  result_.picture = s_.decode(result_.latent, size.height, size.width, request_.cancel);
  result_.decode_seconds = seconds_since(started);
  s_.files.require_unchanged();
  return std::move(result_);
}

PictureResult Pipeline::generate(const PictureRequest& request) {
  check(request);
  state_->adapters->use(request.loras);
  return Drawing(*state_, request).run();
}

}  // namespace gabbro::pictures
