#include "apps/cli/image_arguments.h"

#include <cstdlib>

#include "src/images/read_picture.h"

namespace gabbro::cli {

using pictures::NoiseKind;
using pictures::PictureRequest;
using pictures::PictureResult;
using pictures::PromptSyntax;

namespace {

// The decimal number that a float was read from: 0.7 of 10 steps are 7.
double as_written(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

std::string schedule_title(const std::string& name) {
  const std::pair<const char*, const char*> titles[] = {
      {"normal", "Normal"},     {"simple", "Simple"},        {"sgm_uniform", "SGM Uniform"},
      {"ddim_uniform", "DDIM"}, {"karras", "Karras"},        {"exponential", "Exponential"},
      {"beta", "Beta"},         {"kl_optimal", "KL Optimal"}};
  for (const auto& [known, title] : titles) {
    if (name == known) return title;
  }
  return "Automatic";
}

}  // namespace

PictureRequest picture_request(const ImageArguments& o) {
  PictureRequest request{.prompt = o.prompt, .negative = o.negative};
  request.width = o.width;
  request.height = o.height;
  request.steps = o.steps;
  request.guidance = static_cast<double>(o.guidance);
  request.guidance_rescale = static_cast<double>(o.guidance_rescale);
  request.like = pictures::find_program(o.like);
  const pictures::ProgramRules rules = pictures::rules_of(request.like);
  request.noise = !o.noise ? rules.noise : *o.noise == "nv" ? NoiseKind::kNv : NoiseKind::kTorch;
  request.syntax = !o.weights                ? rules.syntax
                   : *o.weights == "a1111"   ? PromptSyntax::kA1111
                   : *o.weights == "comfyui" ? PromptSyntax::kComfyUi
                                             : PromptSyntax::kPlain;
  request.clip_skip = o.clip_skip;
  request.sampler = o.sampler;
  request.schedule = o.schedule;
  if (o.eta) request.eta = static_cast<double>(*o.eta);
  request.strength = as_written(o.strength);
  if (!o.init.empty()) {
    request.init = std::make_shared<images::Picture>(images::to_rgb(images::read_picture(o.init)));
  }
  return request;
}

// A1111 counts the last layer, and diffusers those that are left out.
pictures::PictureText describe_picture(const ImageArguments& o, const PictureRequest& request,
                                       const PictureResult& result, const pictures::PipelineFacts& facts) {
  pictures::PictureText text{.prompt = o.prompt, .negative = o.negative};
  text.settings = {{"Steps", std::to_string(o.steps)},
                   {"Sampler", std::string(pictures::find_sampler(result.sampler).title)},
                   {"Schedule type", schedule_title(result.schedule)},
                   {"CFG scale", fmt::format("{}", o.guidance)},
                   {"Seed", std::to_string(request.seed)},
                   {"Size", fmt::format("{}x{}", result.width, result.height)},
                   {"Model", facts.name}};
  if (o.clip_skip > 0) text.settings.emplace_back("Clip skip", std::to_string(o.clip_skip + 1));
  if (request.init != nullptr) text.settings.emplace_back("Denoising strength", fmt::format("{}", o.strength));
  text.settings.emplace_back("RNG", request.noise == pictures::NoiseKind::kNv ? "NV" : "CPU");
  text.settings.emplace_back("Version", std::string("gabbro ") + GABBRO_VERSION);
  return text;
}

}  // namespace gabbro::cli
