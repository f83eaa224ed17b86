#include "src/pictures/converted_folder.h"

#include <fstream>
#include <utility>

#include "src/base/error.h"
#include "src/pictures/pipeline_folder.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

// Files of a part besides its weights.
void copy_part(const fs::path& from, const fs::path& to) {
  fs::create_directory(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool is_description = name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".md");
    if (entry.is_regular_file() && is_description && !name.ends_with(".safetensors.index.json"))
      fs::copy_file(entry.path(), to / name);
  }
}

void write_json(const fs::path& path, const Json& document) {
  std::ofstream out(path, std::ios::binary);
  out << document.dump(2) << "\n";
  if (!out.flush()) throw bad_input("{}: cannot be written", path.string());
}

// A tokenizer that other files were made for may pad with another token.
void write_tokenizer(const TextPart& text, const fs::path& to) {
  const fs::path from(text.tokenizer);
  const bool has_vocabulary = fs::exists(from / "vocab.json") && fs::exists(from / "merges.txt");
  if (!has_vocabulary && !fs::exists(from / "tokenizer.json"))
    throw bad_input("{}: has neither vocab.json and merges.txt nor tokenizer.json", text.tokenizer);
  fs::create_directory(to);
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"}) {
    if (fs::exists(from / name)) fs::copy_file(from / name, to / name);
  }
  Json config = {{"tokenizer_class", "CLIPTokenizer"}, {"model_max_length", 77},       {"bos_token", "<|startoftext|>"},
                 {"eos_token", "<|endoftext|>"},       {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
  if (fs::exists(from / "tokenizer_config.json")) config = read_config(text.tokenizer, "tokenizer_config.json");
  if (!config.is_object()) throw bad_input("{}/tokenizer_config.json: is not an object", text.tokenizer);
  if (!text.padding.empty()) config["pad_token"] = text.padding;
  write_json(to / "tokenizer_config.json", config);
}

Json index_of(const PipelineParts& parts) {
  const auto entry = [](const char* library, const std::string& name) { return Json::array({library, name}); };
  const JsonNode scheduler(parts.scheduler, parts.scheduler_name);
  Json index = {{"_class_name", parts.class_name},
                {"_diffusers_version", "0.39.0"},
                {"feature_extractor", Json::array({nullptr, nullptr})},
                {"scheduler", entry("diffusers", scheduler.at("_class_name").string())},
                {"text_encoder", entry("transformers", "CLIPTextModel")},
                {"tokenizer", entry("transformers", "CLIPTokenizer")},
                {"unet", entry("diffusers", "UNet2DConditionModel")},
                {"vae", entry("diffusers", "AutoencoderKL")}};
  if (parts.text_encoders.size() == 2) {
    index["text_encoder_2"] = entry("transformers", "CLIPTextModelWithProjection");
    index["tokenizer_2"] = entry("transformers", "CLIPTokenizer");
    index["image_encoder"] = Json::array({nullptr, nullptr});
    index["force_zeros_for_empty_prompt"] = parts.zeros_for_empty;
  } else {
    index["safety_checker"] = Json::array({nullptr, nullptr});
    index["requires_safety_checker"] = false;
  }
  return index;
}

}  // namespace

void copy_descriptions(const std::string& folder, const fs::path& out) {
  const PipelineFolder source = read_pipeline_folder(folder);
  copy_part(source.path, out);
  copy_part(source.scheduler, out / "scheduler");
  copy_part(source.unet, out / "unet");
  copy_part(source.vae, out / "vae");
  const char* ending = "";
  for (const auto& [encoder, tokenizer] : source.text_encoders) {
    copy_part(tokenizer, out / (std::string("tokenizer") + ending));
    copy_part(encoder, out / (std::string("text_encoder") + std::exchange(ending, "_2")));
  }
}

void write_descriptions(const PipelineParts& parts, const fs::path& out) {
  fs::create_directory(out);
  for (const char* name : {"scheduler", "unet", "vae"}) fs::create_directory(out / name);
  write_json(out / "model_index.json", index_of(parts));
  write_json(out / "scheduler" / "scheduler_config.json", parts.scheduler);
  write_json(out / "unet" / "config.json", parts.unet.config);
  write_json(out / "vae" / "config.json", parts.autoencoder.config);
  const char* ending = "";
  for (const TextPart& text : parts.text_encoders) {
    const fs::path folder = out / (std::string("text_encoder") + ending);
    fs::create_directory(folder);
    const auto* config = text.checkpoint.config();
    if (config == nullptr) throw bad_input("{}: has no configuration", text.checkpoint.path());
    write_json(folder / "config.json", Json::parse(config->dump()));
    write_tokenizer(text, out / (std::string("tokenizer") + std::exchange(ending, "_2")));
  }
}

}  // namespace gabbro::pictures
