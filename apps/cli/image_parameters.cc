#include "apps/cli/image_parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/images/read_picture.h"
#include "src/pictures/comfy_graph.h"

namespace gabbro::cli {
namespace {

using pictures::PictureText;

struct FoundText {
  PictureText text;
  bool of_comfyui = false;
};

FoundText read_text(const std::string& path) {
  const images::Picture picture = images::read_picture(path);
  for (const auto& [keyword, text] : picture.texts) {
    if (keyword == "parameters") return {pictures::read_picture_text(text), false};
  }
  for (const auto& [keyword, text] : picture.texts) {
    if (keyword == "prompt") return {pictures::read_comfy_graph(text, path), true};
  }
  throw bad_input("--parameters {}: the picture does not say how it was drawn", path);
}

// Names of samplers and schedules elsewhere: "DPM++ 2M Karras" has both.
struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName kSamplers[] = {{"euler_ancestral", "euler_a"}, {"uni_pc", "unipc"}, {"uni_pc_bh2", "unipc"}};
constexpr OtherName kSchedules[] = {
    {"Uniform", "normal"},        {"Normal", "normal"}, {"Simple", "simple"},           {"SGM Uniform", "sgm_uniform"},
    {"DDIM", "ddim_uniform"},     {"Karras", "karras"}, {"Exponential", "exponential"}, {"Beta", "beta"},
    {"KL Optimal", "kl_optimal"}, {"Automatic", ""}};

template <size_t N>
std::string translated(const OtherName (&names)[N], const std::string& name) {
  const auto* const found = std::ranges::find(names, name, &OtherName::theirs);
  return found != std::end(names) ? std::string(found->ours) : name;
}

class Settings {
 public:
  Settings(ImageArguments& o, const std::set<std::string>& given, const FoundText& found)
      : o_(o), given_(given), text_(found.text), of_comfyui_(found.of_comfyui) {}

  void apply() {
    refuse_others();
    note_others();
    const std::string* const version = text_.setting("Version");
    const bool ours = version != nullptr && version->starts_with("gabbro");
    if (is_free("PROMPT")) o_.prompt = text_.prompt;
    if (is_free("--negative")) o_.negative = text_.negative;
    if (is_free("--like")) o_.like = ours ? value_or("Like", "") : of_comfyui_ ? "comfyui" : "a1111";
    number("--steps", "Steps", o_.steps);
    number("--guidance", "CFG scale", o_.guidance);
    number("--guidance-rescale", "Guidance rescale", o_.guidance_rescale);
    number("--mask-blur", "Mask blur", o_.mask_blur);
    read_seed();
    read_sampler();
    read_size();
    int64_t last_layer = 1;
    number("--clip-skip", "Clip skip", last_layer);
    if (last_layer < 0) throw bad_input("--parameters {}: Clip skip: '{}'", o_.parameters, last_layer);
    if (last_layer > 1) o_.clip_skip = last_layer - 1;
    if (is_free("--eta") && text_.setting("Eta") != nullptr) o_.eta = parsed<float>("Eta");
    if (is_free("--weights") && text_.setting("Prompt weights") != nullptr)
      o_.weights = one_of("Prompt weights", {{"a1111", "a1111"}, {"comfyui", "comfyui"}, {"none", "none"}});
    if (is_free("--rng") && text_.setting("RNG") != nullptr)
      o_.noise = one_of("RNG", {{"CPU", "torch"}, {"GPU", "nv"}, {"NV", "nv"}});
    const std::string model = value_or("Model", "");
    o_.said_model = of_comfyui_ ? std::filesystem::path(model).stem().string() : model;
    read_strengths();
  }

 private:
  bool is_free(const char* option) const { return !given_.contains(option); }
  std::string value_or(const char* key, const char* other) const {
    const std::string* const value = text_.setting(key);
    return value != nullptr ? *value : other;
  }

  // The meaning of a value here.
  std::string one_of(const char* key, std::initializer_list<OtherName> meanings) const {
    const std::string& value = *text_.setting(key);
    const auto* const found = std::ranges::find(meanings, value, &OtherName::theirs);
    if (found == meanings.end()) throw bad_input("--parameters {}: {}: '{}' is not known", o_.parameters, key, value);
    return std::string(found->ours);
  }

  template <class T>
  T parsed(const char* key) const {
    const std::string& value = *text_.setting(key);
    T number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      throw bad_input("--parameters {}: {}: '{}' is not a number", o_.parameters, key, value);
    return number;
  }
  template <class T>
  void number(const char* option, const char* key, T& value) const {
    if (is_free(option) && text_.setting(key) != nullptr) value = parsed<T>(key);
  }

  // Settings that change a picture and are not built here.
  void refuse_others() const {
    for (const char* const key : {"Variation seed", "ENSD", "Token merging ratio", "Refiner", "Hires steps", "NGMS",
                                  "Face restoration", "Tiling", "Script", "Schedule max sigma", "Schedule min sigma"}) {
      if (text_.setting(key) != nullptr)
        throw bad_input("--parameters {}: '{}' cannot be repeated", o_.parameters, key);
    }
    const std::string upscaler = value_or("Hires upscaler", "Latent");
    if (upscaler != "Latent")
      throw bad_input("--parameters {}: 'Hires upscaler: {}' cannot be repeated", o_.parameters, upscaler);
  }

  // Settings that may change a picture and are not read; the others say what it was.
  void note_others() const {
    constexpr std::string_view kRead[] = {"Steps",
                                          "Sampler",
                                          "Schedule type",
                                          "CFG scale",
                                          "Seed",
                                          "Size",
                                          "Model",
                                          "Model hash",
                                          "Clip skip",
                                          "Denoising strength",
                                          "Mask blur",
                                          "Hires upscale",
                                          "Hires upscaler",
                                          "Batch size",
                                          "Batch pos",
                                          "Eta",
                                          "Guidance rescale",
                                          "Like",
                                          "Prompt weights",
                                          "RNG",
                                          "Version"};
    std::vector<std::string_view> others;
    for (const auto& [key, value] : text_.settings) {
      if (std::ranges::find(kRead, key) == std::end(kRead)) others.push_back(key);
    }
    if (text_.setting("Batch size") != nullptr && text_.setting("Batch pos") == nullptr)
      report("note", fmt::format("--parameters {}: one of a batch; the first is drawn", o_.parameters));
    if (!others.empty())
      report("note", fmt::format("--parameters {}: not read: {}", o_.parameters, fmt::join(others, ", ")));
  }

  void read_seed() {
    if (!is_free("--seed") || text_.setting("Seed") == nullptr) return;
    o_.seed = parsed<uint64_t>("Seed");
    if (text_.setting("Batch pos") == nullptr || text_.setting("Batch size") == nullptr || !is_free("--batch")) return;
    // Elsewhere each picture of a batch has its own seed, which is the one that it says.
    if (!pictures::rules_of(pictures::find_program(o_.like)).one_stream) return;
    o_.batch = parsed<int64_t>("Batch size");
    o_.only_position = parsed<int64_t>("Batch pos");
  }

  void read_sampler() {
    std::string sampler = value_or("Sampler", ""), schedule = value_or("Schedule type", "Automatic");
    for (const OtherName& name : kSchedules) {  // of before 2024
      const std::string ending = " " + std::string(name.theirs);
      if (sampler.size() > ending.size() && sampler.ends_with(ending)) {
        schedule = name.theirs;
        sampler.resize(sampler.size() - ending.size());
      }
    }
    if (is_free("--sampler")) o_.sampler = translated(kSamplers, sampler);
    if (is_free("--schedule")) o_.schedule = translated(kSchedules, schedule);
  }

  void read_size() {
    const std::string* const size = text_.setting("Size");
    if (size == nullptr) return;
    int64_t width = 0, height = 0;
    const char* const end = size->data() + size->size();
    const auto first = std::from_chars(size->data(), end, width);
    const bool fits = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x' &&
                      std::from_chars(first.ptr + 1, end, height).ptr == end;
    if (!fits || width < 1 || height < 1) throw bad_input("--parameters {}: Size: '{}'", o_.parameters, *size);
    if (is_free("--width")) o_.width = width;
    if (is_free("--height")) o_.height = height;
  }

  void read_strengths() {
    number("--hires", "Hires upscale", o_.hires);
    if (text_.setting("Denoising strength") == nullptr) return;
    if (text_.setting("Hires upscale") != nullptr)
      return number("--hires-strength", "Denoising strength", o_.hires_strength);
    if (o_.init.empty()) {
      throw Error(ErrorCode::kBadInput,
                  fmt::format("--parameters {}: the picture was drawn from another one", o_.parameters),
                  "--init PICTURE");
    }
    number("--strength", "Denoising strength", o_.strength);
  }

  ImageArguments& o_;
  const std::set<std::string>& given_;
  const PictureText& text_;
  bool of_comfyui_;
};

}  // namespace

void apply_parameters(ImageArguments& o, const std::set<std::string>& given) {
  const FoundText found = read_text(o.parameters);
  Settings(o, given, found).apply();
}

}  // namespace gabbro::cli
