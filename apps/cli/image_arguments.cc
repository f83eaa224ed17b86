#include "apps/cli/image_arguments.h"

#include <cstdlib>
#include <filesystem>

#include "src/base/error.h"
#include "src/images/read_picture.h"
#include "src/models/weights/adapter.h"
#include "src/pictures/lora/prompt_loras.h"
#include "src/pictures/masks.h"

namespace gabbro::cli {

using pictures::NoiseKind;
using pictures::PictureRequest;
using pictures::PictureResult;
using pictures::PromptSyntax;

namespace {

// The decimal number that a float was read from: 0.7 of 10 steps are 7.
double as_written(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

// Files that options and the prompt name. Takes their words out of the prompt.
void read_loras(const ImageArguments& o, PictureRequest& request) {
  pictures::PromptLoras found;
  if (request.syntax == PromptSyntax::kA1111) {
    found = pictures::read_prompt_loras(request.prompt);
    request.prompt = std::move(found.prompt);
  }
  for (const pictures::NamedLora& lora : found.loras) {
    if (o.lora_folder.empty()) {
      throw Error(ErrorCode::kBadInput, fmt::format("<lora:{}>: there is no folder of adapters", lora.name),
                  "--lora-folder FOLDER");
    }
    request.loras.push_back({pictures::find_lora(o.lora_folder, lora.name), lora.strength});
  }
  for (const std::string& given : o.loras) {
    const auto [path, strength] = llm::parse_adapter(given);
    request.loras.push_back({path, as_written(strength)});
  }
}

void read_pictures(const ImageArguments& o, PictureRequest& request) {
  if (!o.init.empty()) request.init = std::make_shared<images::Picture>(images::to_rgb(images::read_picture(o.init)));
  if (o.mask.empty()) return;
  const images::Picture mask = images::read_picture(o.mask);
  if (!images::is_opaque(mask)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("--mask {}: has transparent pixels, which are neither white nor black", o.mask),
                "saved without transparency it is read");
  }
  request.mask = std::make_shared<images::Picture>(pictures::to_gray(images::to_rgb(mask)));
}

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
  request.mask_blur = as_written(o.mask_blur);
  request.hires = as_written(o.hires);
  request.hires_strength = as_written(o.hires_strength);
  request.batch = o.batch;
  request.bands = decode_bands_of(o.bands);
  read_loras(o, request);
  read_pictures(o, request);
  return request;
}

// A1111 counts the last layer, and diffusers those that are left out.
pictures::PictureText describe_picture(const ImageArguments& o, const PictureRequest& request,
                                       const PictureResult& result, const pictures::PipelineFacts& facts) {
  pictures::PictureText text{.prompt = o.prompt, .negative = o.negative};
  for (const std::string& given : o.loras) {
    const auto [path, strength] = llm::parse_adapter(given);
    text.prompt += fmt::format(" <lora:{}:{}>", std::filesystem::path(path).stem().string(), strength);
  }
  const bool larger = request.hires > 1;
  const int64_t width = !larger ? result.width : request.width > 0 ? request.width : facts.width;
  const int64_t height = !larger ? result.height : request.height > 0 ? request.height : facts.height;
  // Pictures of one stream have its seed; others have a seed each.
  const bool stream = pictures::rules_of(request.like).one_stream && request.batch > 1;
  const uint64_t seed = request.seed + (stream ? 0 : static_cast<uint64_t>(request.position));
  text.settings = {{"Steps", std::to_string(o.steps)},
                   {"Sampler", std::string(pictures::find_sampler(result.sampler).title)},
                   {"Schedule type", schedule_title(result.schedule)},
                   {"CFG scale", fmt::format("{}", o.guidance)},
                   {"Seed", std::to_string(seed)},
                   {"Size", fmt::format("{}x{}", width, height)},
                   {"Model", facts.name}};
  if (o.clip_skip > 0) text.settings.emplace_back("Clip skip", std::to_string(o.clip_skip + 1));
  if (request.init != nullptr) text.settings.emplace_back("Denoising strength", fmt::format("{}", o.strength));
  const auto add = [&](bool wanted, const char* key, const std::string& value) {
    if (wanted) text.settings.emplace_back(key, value);
  };
  add(request.mask != nullptr, "Mask blur", fmt::format("{}", o.mask_blur));
  add(larger, "Denoising strength", fmt::format("{}", o.hires_strength));
  add(larger, "Hires upscale", fmt::format("{}", o.hires));
  add(larger, "Hires upscaler", "Latent");
  add(stream, "Batch size", std::to_string(request.batch));
  add(stream, "Batch pos", std::to_string(request.position));
  add(o.eta.has_value(), "Eta", fmt::format("{}", o.eta.value_or(0)));
  add(o.guidance_rescale > 0, "Guidance rescale", fmt::format("{}", o.guidance_rescale));
  add(!o.like.empty(), "Like", o.like);
  add(request.syntax != pictures::rules_of(request.like).syntax, "Prompt weights", o.weights.value_or(""));
  text.settings.emplace_back("RNG", request.noise == pictures::NoiseKind::kNv ? "NV" : "CPU");
  text.settings.emplace_back("Version", std::string("gabbro ") + GABBRO_VERSION);
  return text;
}

pictures::DecodeBands decode_bands_of(const std::string& name) {
  if (name == "auto") return pictures::DecodeBands::kAuto;
  return name == "on" ? pictures::DecodeBands::kOn : pictures::DecodeBands::kOff;
}

}  // namespace gabbro::cli
