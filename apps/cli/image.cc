// `image`: pictures from a text.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "apps/cli/commands.h"
#include "apps/cli/image_arguments.h"
#include "apps/cli/image_latent.h"
#include "apps/cli/image_options.h"
#include "apps/cli/image_parameters.h"
#include "apps/cli/image_preview.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/images/png.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_memory.h"

namespace gabbro::cli {
namespace {

using pictures::PictureRequest;
using pictures::PictureResult;
using pictures::Pipeline;

// "out.png" of picture 2 of 4: "out-2.png".
std::string numbered_path(const std::string& path, int64_t number, int64_t count) {
  if (count == 1) return path;
  const std::filesystem::path whole(path);
  const std::string name = fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string());
  return (whole.parent_path() / name).string();
}

nlohmann::ordered_json document_of(const PictureRequest& request, const PictureResult& result, const std::string& path,
                                   const std::string& seed) {
  return {{"file", path},
          {"seed", std::strtoull(seed.c_str(), nullptr, 10)},
          {"width", result.width},
          {"height", result.height},
          {"sampler", result.sampler},
          {"steps", request.steps},
          {"evaluations", result.evaluations},
          {"seconds",
           {{"text", result.text_seconds}, {"denoise", result.denoise_seconds}, {"decode", result.decode_seconds}}}};
}

// Before minutes of work, and as an error of the arguments.
void require_output_folder(const std::string& out) {
  if (is_standard_output(out)) return;
  const std::filesystem::path path(out), folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw bad_input("{}: is a folder, not a file", out);
  if (!std::filesystem::is_directory(folder, ignored))
    throw bad_input("{}: there is no folder {}", out, folder.string());
  if (::access(folder.c_str(), W_OK) != 0) throw bad_input("{}: its folder cannot be written to", out);
}

uint64_t random_seed() { return std::random_device()(); }

// The pictures of a run: --count times --batch.
class ImageRun {
 public:
  ImageRun(const ImageArguments& o, std::shared_ptr<Pipeline> pipeline, PictureRequest request)
      : o_(o), pipeline_(std::move(pipeline)), request_(std::move(request)) {
    request_.cancel = cancelable_.flag();
    request_.on_latent = [this](const pictures::Latent& latent, int64_t height, int64_t width) {
      latent_ = {.latent = std::make_shared<pictures::Latent>(latent), .height = height, .width = width};
    };
  }

  void draw_all() {
    const bool stream = pictures::rules_of(request_.like).one_stream;
    const uint64_t first = o_.seed.value_or(random_seed());
    const int64_t from = o_.only_position.value_or(0), to = o_.only_position ? from + 1 : o_.batch;
    count_ = o_.count * (to - from);
    for (int64_t i = 0; i < o_.count; ++i) {
      request_.seed = first + static_cast<uint64_t>(stream ? i : i * o_.batch);
      for (request_.position = from; request_.position < to; ++request_.position) draw_one();
    }
    if (!o_.common.json) return;
    const pictures::PipelineFacts& facts = pipeline_->facts();
    print_json({{"model", facts.name}, {"device", facts.device_id}, {"pictures", std::move(made_)}});
  }

 private:
  void draw_one() {
    const std::string path = numbered_path(o_.out, ++number_, count_);
    PictureResult result = generate(path);
    for (const std::string& note : result.notes) {
      if (noted_.insert(note).second) report("note", note);
    }
    const pictures::PipelineFacts& facts = pipeline_->facts();
    const pictures::PictureText text = describe_picture(o_, request_, result, facts);
    if (o_.metadata) result.picture.texts.emplace_back("parameters", pictures::write_picture_text(text));
    if (o_.mark) result.picture.texts.emplace_back(images::kXmpKeyword, kMadeByModel);
    write_output(path, images::encode_png(result.picture));
    made_.push_back(document_of(request_, result, path, *text.setting("Seed")));
    if (o_.common.json || is_standard_output(path)) return;
    say(fmt::format("gabbro: {}  {} x {}, seed {}, {} in {} steps on {}: {:.2f} s + {:.2f} s to decode\n", path,
                    result.width, result.height, *text.setting("Seed"), result.sampler, request_.steps, facts.device_id,
                    result.denoise_seconds, result.decode_seconds));
  }

  // Keeps the latent where the picture cannot be decoded.
  PictureResult generate(const std::string& path) {
    latent_ = {};
    ImageProgress progress(*pipeline_, o_.preview, number_ - 1, count_);
    request_.on_step = [&](const pictures::PictureStep& step) { progress.show(step); };
    request_.step_latents = o_.preview;
    try {
      return pipeline_->generate(request_);
    } catch (const Error& error) {
      const bool keeps = latent_.latent != nullptr && request_.latent == nullptr && !is_standard_output(path);
      if (!keeps || error.code() == ErrorCode::kInterrupted) throw;
      const std::string kept = latent_path(path);
      write_latent_file(kept, latent_);
      throw Error(error.code(), error.what(), fmt::format("the latent is kept: --resume-latent {}", kept));
    }
  }

  const ImageArguments& o_;
  std::shared_ptr<Pipeline> pipeline_;
  PictureRequest request_;
  const Cancelable cancelable_;
  LatentFile latent_;
  int64_t number_ = 0, count_ = 1;
  std::set<std::string> noted_;  // each note is reported once
  nlohmann::ordered_json made_ = nlohmann::ordered_json::array();
};

// The sides of a request's pictures before --hires; 0: the model's.
pictures::PictureSize first_size(const PictureRequest& request, const LatentFile& latent) {
  constexpr int64_t kMultiple = 8;  // of all autoencoders up to now
  if (latent.latent != nullptr) return {.width = latent.width * kMultiple, .height = latent.height * kMultiple};
  const images::Picture* const init = request.init.get();
  return {.width = request.width > 0 || init == nullptr ? request.width : init->width,
          .height = request.height > 0 || init == nullptr ? request.height : init->height};
}

std::shared_ptr<Pipeline> load_pipeline(const ImageArguments& o, const PictureRequest& request,
                                        const LatentFile& latent) {
  pictures::PipelineOptions options{.device = o.common.device,
                                    .threads = o.common.threads,
                                    .check_weights = o.common.check_weights,
                                    .embeddings = o.embeddings};
  options.preview_decoder = o.preview_decoder;
  options.encoder = !o.init.empty();
  options.precision = pictures::parse_precision(o.precision);
  if (!o.common.memory.empty()) options.memory = parse_size(o.common.memory, "--memory");
  const pictures::PictureSize size = first_size(request, latent);
  options.width = size.width;
  options.height = size.height;
  const bool enlarges = latent.latent == nullptr && request.hires >= 1 && request.hires <= 8;  // else check() refuses
  options.hires = enlarges ? request.hires : 1;
  options.bands = request.bands;
  options.vae = o.vae;
  options.text_encoders = o.text_encoders;
  options.tokenizers = o.tokenizers;
  ProgressBar bar("loading", true);
  options.progress = [&](const std::string&, double done) { bar.show(done); };
  std::shared_ptr<Pipeline> pipeline = Pipeline::load(o.model, options);
  if (const std::string& placement = pipeline->facts().placement; !placement.empty()) report("note", placement);
  return pipeline;
}

// Sides that are given next to a latent have to be its own.
void require_latent_sides(const ImageArguments& o, const std::set<std::string>& given, const LatentFile& latent,
                          int64_t multiple) {
  for (const auto& [side, own, name] :
       {std::tuple(o.width, latent.width, "width"), {o.height, latent.height, "height"}}) {
    if (given.contains(fmt::format("--{}", name)) && side != own * multiple)
      throw bad_input("--{} {}: the latent of --resume-latent has {} pixels", name, side, own * multiple);
  }
}

int run(ImageArguments& o, const std::set<std::string>& given) {
  if (o.out.empty()) throw Error(ErrorCode::kBadInput, "no file for the picture", "-o picture.png");
  if (!o.parameters.empty()) apply_parameters(o, given);
  if (o.parameters.empty() && o.resume_latent.empty() && !given.contains("PROMPT"))
    throw Error(ErrorCode::kBadInput, "no PROMPT: what to draw", "gabbro image MODEL \"a red heart\" -o heart.png");
  if (is_standard_output(o.out) && (o.common.json || o.count * o.batch > 1))
    throw bad_input("{} --out {} both write standard output", o.common.json ? "--json and" : "several pictures and",
                    o.out);
  if (given.contains("--hires-strength") && o.hires == 1) {
    throw Error(ErrorCode::kBadInput, "--hires-strength: nothing is drawn at a larger size", "--hires 2");
  }
  require_output_folder(o.out);
  PictureRequest request = picture_request(o);
  const LatentFile latent = o.resume_latent.empty() ? LatentFile() : read_latent_file(o.resume_latent);
  const std::shared_ptr<Pipeline> pipeline = load_pipeline(o, request, latent);
  if (latent.latent != nullptr) {
    require_latent_sides(o, given, latent, pipeline->facts().size_multiple);
    request.latent = latent.latent;
    request.height = latent.height * pipeline->facts().size_multiple;
    request.width = latent.width * pipeline->facts().size_multiple;
  }
  if (!o.said_model.empty() && o.said_model != pipeline->facts().name)
    report("note", fmt::format("the picture was drawn with the model {}", printable(o.said_model)));
  pipeline->check(request);
  ImageRun(o, pipeline, std::move(request)).draw_all();
  return 0;
}

}  // namespace

void add_image(Command root) {
  Command command = root.subcommand("image", "Draw pictures from a text with Stable Diffusion");
  const auto o = std::make_shared<ImageArguments>();
  command
      .option("MODEL,-m,--model", o->model,
              "Stable Diffusion 1, 2 or SDXL: a folder as diffusers saves it, or a single safetensors or GGUF file")
      .required()
      .file(FileUse::kInput);
  const auto options = std::make_shared<NamedOptions>(add_image_options(command, *o));
  add_device_options(command, o->common);
  add_picture_memory(command, o->common);
  add_check_weights(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro image FOLDER \"a red heart\" -o heart.png");
  command.example(
      "gabbro image FOLDER \"a (red:1.3) heart\" -o heart.png --sampler dpmpp_2m --schedule karras --seed 1");
  command.example("gabbro image FOLDER \"a blue heart\" --init heart.png --strength 0.6 -o blue.png");
  command.runs([o, options] {
    std::set<std::string> given;
    for (const auto& [name, option] : *options) {
      if (option.given()) given.insert(name);
    }
    return run(*o, given);
  });
}

}  // namespace gabbro::cli
