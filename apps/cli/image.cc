// `image`: pictures from a text.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/cli/commands.h"
#include "apps/cli/image_arguments.h"
#include "apps/cli/image_preview.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/images/png.h"
#include "src/pictures/pipeline.h"

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

nlohmann::ordered_json document_of(const PictureRequest& request, const PictureResult& result,
                                   const std::string& path) {
  return {{"file", path},
          {"seed", request.seed},
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

int run(ImageArguments& o) {
  if (o.out.empty()) throw Error(ErrorCode::kBadInput, "no file for the picture", "-o picture.png");
  if (is_standard_output(o.out) && (o.common.json || o.count > 1))
    throw bad_input("{} --out {} both write standard output", o.common.json ? "--json and" : "several pictures and",
                    o.out);
  require_output_folder(o.out);
  pictures::PipelineOptions options{.device = o.common.device,
                                    .threads = o.common.threads,
                                    .check_weights = o.common.check_weights,
                                    .embeddings = o.embeddings};
  options.preview_decoder = o.preview_decoder;
  options.encoder = !o.init.empty();
  options.vae = o.vae;
  options.text_encoders = o.text_encoders;
  options.tokenizers = o.tokenizers;
  PictureRequest request = picture_request(o);
  std::shared_ptr<Pipeline> pipeline;
  {
    ProgressBar bar("loading", true);
    options.progress = [&](const std::string&, double done) { bar.show(done); };
    pipeline = Pipeline::load(o.model, options);
  }
  pipeline->check(request);
  const pictures::PipelineFacts& facts = pipeline->facts();
  const uint64_t first_seed = o.seed.value_or(random_seed());
  const Cancelable cancelable;
  request.cancel = cancelable.flag();
  nlohmann::ordered_json pictures_made = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < o.count; ++i) {
    request.seed = first_seed + static_cast<uint64_t>(i);
    PictureResult result;
    {
      ImageProgress progress(*pipeline, o.preview, i, o.count);
      request.on_step = [&](const pictures::PictureStep& step) { progress.show(step); };
      result = pipeline->generate(request);
    }
    for (const std::string& note : result.notes) {
      if (i == 0) report("note", note);
    }
    if (o.metadata) {
      result.picture.texts.emplace_back("parameters",
                                        pictures::write_picture_text(describe_picture(o, request, result, facts)));
    }
    if (o.mark) result.picture.texts.emplace_back(images::kXmpKeyword, kMadeByModel);
    const std::string path = numbered_path(o.out, i + 1, o.count);
    write_output(path, images::encode_png(result.picture));
    pictures_made.push_back(document_of(request, result, path));
    if (o.common.json || is_standard_output(path)) continue;
    say(fmt::format("gabbro: {}  {} x {}, seed {}, {} in {} steps on {}: {:.2f} s + {:.2f} s to decode\n", path,
                    result.width, result.height, request.seed, result.sampler, request.steps, facts.device_id,
                    result.denoise_seconds, result.decode_seconds));
  }
  if (o.common.json) {
    print_json({{"model", facts.name}, {"device", facts.device_id}, {"pictures", std::move(pictures_made)}});
  }
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
  command.option("PROMPT,-p,--prompt", o->prompt, "What to draw").takes_text().required();
  command.option("-o,--out", o->out, "PNG file to write; with --count 2: FILE-1.png, FILE-2.png; -: standard output")
      .placeholder("FILE.png")
      .file(FileUse::kStream);
  command.option("-n,--negative", o->negative, "What not to draw").takes_text().alias("--negative-prompt");
  command.number("--steps", o->steps, "Steps from noise to picture").range(1, 1000);
  command.number("--guidance", o->guidance, "How much the prompt counts; at most 1: the negative prompt has no part")
      .alias("--cfg,--cfg-scale,--guidance-scale");
  command.number("--guidance-rescale", o->guidance_rescale,
                 "Share of the contrast that guidance adds to take back, 0 to 1");
  command.number("-s,--seed", o->seed, "Seed of the noise; picture i has seed + i").default_text("a random number");
  command.number("-W,--width", o->width, "Width in pixels").default_text("the model's").range(1, 1 << 16);
  command.number("-H,--height", o->height, "Height in pixels").default_text("the model's").range(1, 1 << 16);
  command.number("--count", o->count, "Pictures to draw").range(1, 1 << 16);
  command
      .option("--sampler", o->sampler,
              "euler, euler_a, heun, dpmpp_2m, dpmpp_2m_sde, dpmpp_sde, unipc, ddim, pndm, lcm, lms, ddpm, "
              "tcd")
      .placeholder("NAME")
      .default_text("the pipeline's")
      .alias("--sampling-method");
  command
      .option("--schedule", o->schedule,
              "Noise levels by the names of A1111 and ComfyUI: normal, simple, sgm_uniform, ddim_uniform, karras, "
              "exponential, beta, kl_optimal")
      .placeholder("NAME")
      .default_text("the pipeline's")
      .alias("--scheduler");
  command
      .option("--like", o->like,
              "Program whose noise, steps, strength and prompts are taken; options for one of these count more")
      .one_of({"diffusers", "comfyui", "a1111"})
      .placeholder("diffusers|comfyui|a1111")
      .default_text("none");
  Option init = command.option("--init", o->init, "Picture to redraw, PNG or JPEG; resized to the size")
                    .placeholder("PICTURE")
                    .file(FileUse::kInput);
  command.number("--strength", o->strength, "How much of --init is redrawn: 0 keeps the picture, 1 none of it")
      .needs(init)
      .alias("--denoise,--denoising-strength");
  command.number("--eta", o->eta, "New noise in each step, 0 to 1").default_text("the sampler's");
  command.option("--rng", o->noise, "Whose noise a seed gives: PyTorch's on a CPU, or A1111's NV")
      .one_of({"torch", "nv"})
      .placeholder("torch|nv")
      .default_text("torch");
  command
      .option("--weights", o->weights,
              "How a prompt writes weights and may be longer than 75 tokens: as A1111, as ComfyUI, or not at all, as "
              "in diffusers")
      .one_of({"a1111", "comfyui", "none"})
      .placeholder("a1111|comfyui|none")
      .default_text("a1111");
  command.number("--clip-skip", o->clip_skip, "Last layers of the text encoder to leave out; A1111 says one more")
      .range(0, 64);
  command.option("--embedding", o->embeddings, "A textual inversion, which the prompt calls by name; may be repeated")
      .placeholder("[NAME=]FILE");
  command.option("--vae", o->vae, "A file or folder whose autoencoder is used in place of the model's")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option("--text-encoder", o->text_encoders,
              "A file or folder whose text encoder is used in place of the model's; twice for SDXL")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option(
          "--tokenizer", o->tokenizers,
          "Folder with vocab.json and merges.txt, which single files do not have; without it tokenizer/ next to the "
          "file")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
  command.flag("--metadata,!--no-metadata", o->metadata, "Write prompt and settings into the file, as A1111 does");
  command.flag("--mark", o->mark, "Mark the file as made by a model, in the words of IPTC (XMP)");
  command.flag("--preview", o->preview, "Show the picture in the terminal while it is drawn");
  command
      .option("--preview-decoder", o->preview_decoder,
              "Folder of TAESD, an AutoencoderTiny of diffusers, for previews; without it they are rough colors")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
  add_device_options(command, o->common);
  add_check_weights(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro image FOLDER \"a red heart\" -o heart.png");
  command.example(
      "gabbro image FOLDER \"a (red:1.3) heart\" -o heart.png --sampler dpmpp_2m --schedule karras --seed 1");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
