#include "apps/cli/image_options.h"

namespace gabbro::cli {
namespace {

void add_texts(Command& command, ImageArguments& o, NamedOptions& named) {
  named.emplace_back("PROMPT", command
                                   .option("PROMPT,-p,--prompt", o.prompt,
                                           "What to draw; <lora:NAME:STRENGTH> adds an adapter of --lora-folder")
                                   .takes_text());
  command.option("-o,--out", o.out, "PNG file to write; of several pictures FILE-1.png, FILE-2.png; -: standard output")
      .placeholder("FILE.png")
      .file(FileUse::kStream);
  named.emplace_back(
      "--negative",
      command.option("-n,--negative", o.negative, "What not to draw").takes_text().alias("--negative-prompt"));
  named.emplace_back(
      "--weights",
      command
          .option("--weights", o.weights,
                  "How a prompt writes weights and may be longer than 75 tokens: as A1111, as ComfyUI, or not at all, "
                  "as in diffusers")
          .one_of({"a1111", "comfyui", "none"})
          .placeholder("a1111|comfyui|none")
          .default_text("a1111"));
  named.emplace_back(
      "--clip-skip",
      command.number("--clip-skip", o.clip_skip, "Last layers of the text encoder to leave out; A1111 says one more")
          .range(0, 64));
  command.option("--embedding", o.embeddings, "A textual inversion, which the prompt calls by name; may be repeated")
      .placeholder("[NAME=]FILE");
  command
      .option("--lora", o.loras,
              "An adapter (LoRA, LoHa, LoKr, DoRA, ...) as safetensors, and its strength; may be repeated")
      .placeholder("FILE[:STRENGTH]")
      .file(FileUse::kAdapter);
  command.option("--lora-folder", o.lora_folder, "Folder of the adapters that the prompt names")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
}

void add_steps(Command& command, ImageArguments& o, NamedOptions& named) {
  named.emplace_back("--steps", command.number("--steps", o.steps, "Steps from noise to picture").range(1, 1000));
  named.emplace_back(
      "--guidance",
      command.number("--guidance", o.guidance, "How much the prompt counts; at most 1: the negative prompt has no part")
          .alias("--cfg,--cfg-scale,--guidance-scale"));
  named.emplace_back("--guidance-rescale",
                     command.number("--guidance-rescale", o.guidance_rescale,
                                    "Share of the contrast that guidance adds to take back, 0 to 1"));
  named.emplace_back("--sampler",
                     command
                         .option("--sampler", o.sampler,
                                 "euler, euler_a, heun, dpmpp_2m, dpmpp_2m_sde, dpmpp_sde, unipc, ddim, pndm, lcm, "
                                 "lms, ddpm, tcd")
                         .placeholder("NAME")
                         .default_text("the pipeline's")
                         .alias("--sampling-method"));
  named.emplace_back("--schedule",
                     command
                         .option("--schedule", o.schedule,
                                 "Noise levels by the names of A1111 and ComfyUI: normal, simple, sgm_uniform, "
                                 "ddim_uniform, karras, exponential, beta, kl_optimal")
                         .placeholder("NAME")
                         .default_text("the pipeline's")
                         .alias("--scheduler"));
  named.emplace_back("--eta",
                     command.number("--eta", o.eta, "New noise in each step, 0 to 1").default_text("the sampler's"));
  named.emplace_back("--like",
                     command
                         .option("--like", o.like,
                                 "Program whose noise, steps, strength and prompts are taken; options for one of these "
                                 "count more")
                         .one_of({"diffusers", "comfyui", "a1111"})
                         .placeholder("diffusers|comfyui|a1111")
                         .default_text("none"));
}

void add_noise(Command& command, ImageArguments& o, NamedOptions& named) {
  named.emplace_back(
      "--seed",
      command.number("-s,--seed", o.seed, "Seed of the noise; picture i has seed + i").default_text("a random number"));
  named.emplace_back("--rng",
                     command.option("--rng", o.noise, "Whose noise a seed gives: PyTorch's on a CPU, or A1111's NV")
                         .one_of({"torch", "nv"})
                         .placeholder("torch|nv")
                         .default_text("torch"));
  named.emplace_back(
      "--width",
      command.number("-W,--width", o.width, "Width in pixels").default_text("the model's").range(1, 1 << 16));
  named.emplace_back(
      "--height",
      command.number("-H,--height", o.height, "Height in pixels").default_text("the model's").range(1, 1 << 16));
  command.number("--count", o.count, "Pictures to draw, each with the next seed").range(1, 1 << 16);
  named.emplace_back("--batch",
                     command
                         .number("--batch", o.batch,
                                 "Pictures of a seed: with --like diffusers and comfyui they continue its noise, else "
                                 "they have the next seeds")
                         .range(1, 1 << 12));
  command
      .option("--parameters", o.parameters,
              "Draw as this picture says that it was drawn (PNG or JPEG of A1111, ComfyUI or Gabbro); other options "
              "count more")
      .placeholder("PICTURE")
      .file(FileUse::kInput);
}

void add_pictures(Command& command, ImageArguments& o, NamedOptions& named) {
  Option init = command.option("--init", o.init, "Picture to redraw, PNG or JPEG; resized to the size")
                    .placeholder("PICTURE")
                    .file(FileUse::kInput);
  named.emplace_back(
      "--strength",
      command.number("--strength", o.strength, "How much of --init is redrawn: 0 keeps the picture, 1 none of it")
          .needs(init)
          .alias("--denoise,--denoising-strength"));
  Option mask = command.option("--mask", o.mask, "Picture that is white where --init is redrawn, and black elsewhere")
                    .placeholder("PICTURE")
                    .file(FileUse::kInput)
                    .needs(init);
  named.emplace_back("--mask-blur",
                     command.number("--mask-blur", o.mask_blur, "Radius in pixels that blurs the mask").needs(mask));
  Option hires = command.number("--hires", o.hires, "Draw once more at this multiple of the size, from the latent")
                     .excludes(init)
                     .default_text("1: not");
  named.emplace_back("--hires", hires);
  named.emplace_back("--hires-strength",
                     command.number("--hires-strength", o.hires_strength, "How much is redrawn at the larger size"));
  command
      .option("--decode-bands", o.bands,
              "Decode in bands of rows, with a quarter of the memory and the picture within 1 of 255 levels; auto: "
              "pictures above 512 x 512")
      .one_of({"auto", "on", "off"})
      .placeholder("auto|on|off");
  add_precision(command, o.precision);
  command
      .option("--resume-latent", o.resume_latent,
              "Only decode this latent, which was kept where a picture could not be decoded")
      .placeholder("FILE")
      .file(FileUse::kInput);
}

void add_parts(Command& command, ImageArguments& o) {
  command.option("--vae", o.vae, "A file or folder whose autoencoder is used in place of the model's")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option("--text-encoder", o.text_encoders,
              "A file or folder whose text encoder is used in place of the model's; twice for SDXL")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option(
          "--tokenizer", o.tokenizers,
          "Folder with vocab.json and merges.txt, which single files do not have; without it tokenizer/ next to the "
          "file")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
}

}  // namespace

void add_precision(Command& command, std::string& precision) {
  command
      .option("--precision", precision,
              "Format that the U-Net and the autoencoder compute in: f16 and bf16 are fast on GPUs and round; auto: "
              "f16 on a GPU, f32 on a CPU")
      .one_of({"auto", "f32", "f16", "bf16"})
      .placeholder("auto|f32|f16|bf16")
      .alias("--dtype");
}

void add_picture_memory(Command& command, CommonOptions& options) {
  command
      .option("--memory", options.memory,
              "Memory of a GPU that the pipeline may take, such as 8GB: what does not fit waits in host memory")
      .placeholder("SIZE")
      .default_text("as much as there is");
}

NamedOptions add_image_options(Command& command, ImageArguments& o) {
  NamedOptions named;
  add_texts(command, o, named);
  add_steps(command, o, named);
  add_noise(command, o, named);
  add_pictures(command, o, named);
  add_parts(command, o);
  command.flag("--metadata,!--no-metadata", o.metadata, "Write prompt and settings into the file, as A1111 does");
  command.flag("--mark", o.mark, "Mark the file as made by a model, in the words of IPTC (XMP)");
  command.flag("--preview", o.preview, "Show the picture in the terminal while it is drawn");
  command
      .option("--preview-decoder", o.preview_decoder,
              "Folder of TAESD, an AutoencoderTiny of diffusers, for previews; without it they are rough colors")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
  return named;
}

}  // namespace gabbro::cli
