#include "src/pictures/single_file/single_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/single_file/fp8_weights.h"
#include "src/pictures/single_file/other_models.h"
#include "src/pictures/single_file/part_configs.h"
#include "src/pictures/single_file/part_tensors.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

constexpr const char *kVae = "--vae", *kTextEncoder = "--text-encoder", *kTokenizer = "--tokenizer";
constexpr double kScaling = 0.18215, kXlScaling = 0.13025;  // of latents; no tensor has them

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_pickle(const std::string& path) {
  return std::ranges::any_of(std::array{".ckpt", ".pt", ".pth", ".bin"},
                             [&](const char* ending) { return path.ends_with(ending); });
}

void refuse_pickle(const std::string& path) {
  if (is_pickle(path)) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is a pickle, which can run code, and is not read", path),
                "the same model in safetensors is read");
  }
}

Checkpoint open_checkpoint(const std::string& path) {
  if (!is_present(path)) throw bad_input("{}: no such file", path);
  refuse_pickle(path);
  return with_plain_weights(Checkpoint::open(path));
}

// A field of the file's metadata; "": it has none.
std::string metadata_text(const Checkpoint& checkpoint, const char* key) {
  if (checkpoint.layout() == CheckpointLayout::kGguf) return std::string(checkpoint.metadata().string_or(key, ""));
  const safetensors::File file(checkpoint.path());
  const auto found = file.metadata().find(key);
  return found != file.metadata().end() ? found->second : "";
}

Signature recognize(const Checkpoint& checkpoint) {
  return recognize_single_file(checkpoint, metadata_text(checkpoint, "modelspec.prediction_type"));
}

// The field that convert writes; null: the file is another program's.
Json stored_pipeline(const Checkpoint& checkpoint) {
  const std::string text = metadata_text(checkpoint, kPipelineField);
  if (text.empty()) return nullptr;
  Json document = parse_sorted_json(text, checkpoint.path() + ": " + kPipelineField);
  if (!document.is_object()) throw bad_input("{}: {}: is not an object", checkpoint.path(), kPipelineField);
  return document;
}

// Numbers of the tensors of each part of a file.
std::vector<PartSize> part_sizes(const Checkpoint& checkpoint, const Signature& signature) {
  std::vector<PartSize> parts;
  const auto add = [&](const std::string& name, const std::string& prefix) {
    PartSize part{.name = name};
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      if (tensor.name.starts_with(prefix)) part.add(tensor);
    }
    parts.push_back(std::move(part));
  };
  for (const TextSignature& text : signature.text_encoders)
    add(parts.empty() ? "text encoder" : "text encoder 2", text.prefix);
  add("U-Net", signature.unet);
  if (signature.autoencoder) add("autoencoder", *signature.autoencoder);
  return parts;
}

// A configuration of that field, else the one that the shapes give.
template <class Derive>
Json config_of(const Json& stored, const char* part, const Derive& derive) {
  if (stored.is_object() && stored.contains(part)) return stored.at(part);
  return derive();
}

// The states of an empty negative prompt are zeros in SDXL, unless the field says otherwise.
bool stored_zeros(const Checkpoint& checkpoint, const Json& stored) {
  if (!stored.is_object()) return true;
  const JsonNode node(stored, checkpoint.path() + ": " + kPipelineField);
  return node.boolean_or("force_zeros_for_empty_prompt", true);
}

// "FILE: holds no A and no B", with the options for them.
void refuse_missing(const std::string& path, const std::vector<std::pair<std::string, std::string>>& missing) {
  if (missing.empty()) return;
  std::vector<std::string> what, options;
  for (const auto& [part, option] : missing) {
    what.push_back("no " + part);
    options.push_back(option);
  }
  throw Error(ErrorCode::kBadInput, fmt::format("{}: holds {}", path, fmt::join(what, " and ")),
              fmt::format("{}", fmt::join(options, "; ")));
}

size_t wanted_encoders(const Signature& signature) { return signature.family == ModelFamily::kSdxl ? 2 : 1; }

// The parts that a file has not and that are not given, with the options for them.
std::vector<std::pair<std::string, std::string>> missing_parts(const std::string& path, const Signature& signature,
                                                               const GivenParts& given) {
  std::vector<std::pair<std::string, std::string>> missing;
  if (!signature.autoencoder && given.autoencoder.empty())
    missing.emplace_back("autoencoder (VAE)", "--vae FILE takes one of another file");
  if (signature.text_encoders.size() < wanted_encoders(signature) && given.text_encoders.empty()) {
    missing.emplace_back(
        wanted_encoders(signature) == 2 ? "pair of text encoders (CLIP-L, OpenCLIP-G)" : "text encoder (CLIP)",
        wanted_encoders(signature) == 2 ? "--text-encoder FILE, twice, takes encoders of other files"
                                        : "--text-encoder FILE takes one of another file");
  }
  if (given.needs_tokenizer && given.tokenizers.empty() && !is_present(fs::path(path).parent_path() / "tokenizer")) {
    missing.emplace_back("tokenizer",
                         "--tokenizer FOLDER takes one with vocab.json and merges.txt, such as tokenizer/ of a folder "
                         "that diffusers saved");
  }
  return missing;
}

PipelinePart autoencoder_part(const Checkpoint& checkpoint, const std::string& prefix, double scaling,
                              const Json& stored) {
  const std::string name = checkpoint.path() + " (autoencoder)";
  Json config = config_of(stored, "vae", [&] { return autoencoder_config(checkpoint, prefix, scaling); });
  return {.checkpoint = autoencoder_tensors(checkpoint, prefix, name, config), .config = config, .config_name = name};
}

TextPart text_part(const Checkpoint& checkpoint, const TextSignature& signature, size_t index, bool drops_last,
                   const Json& stored) {
  const char* const part = index == 0 ? "text_encoder" : "text_encoder_2";
  const Json config = config_of(stored, part, [&] { return text_encoder_config(checkpoint, signature, drops_last); });
  TextPart text{.checkpoint = text_tensors(checkpoint, signature,
                                           fmt::format("{} (text encoder {})", checkpoint.path(), index + 1), config),
                .tokenizer = "",
                .padding = signature.is_open_clip ? "!" : "<|endoftext|>"};
  if (stored.is_object() && stored.contains("padding")) {
    const Json& padding = stored.at("padding");
    if (!padding.is_array() || index >= padding.size() || !padding[index].is_string())
      throw bad_input("{}: {}.padding: is not a list of tokens", checkpoint.path(), kPipelineField);
    text.padding = padding[index].get<std::string>();
  }
  return text;
}

// The tokenizer of each encoder: those that are given, else the folders next to the file.
void set_tokenizers(std::vector<TextPart>& encoders, const std::string& path, const GivenParts& given) {
  if (given.tokenizers.size() > encoders.size())
    throw bad_input("{} {}: the model has {} text encoder{}", kTokenizer, given.tokenizers.back(), encoders.size(),
                    encoders.size() > 1 ? "s" : "");
  for (size_t i = 0; i < encoders.size(); ++i) {
    if (!given.tokenizers.empty()) {
      encoders[i].tokenizer = given.tokenizers[std::min(i, given.tokenizers.size() - 1)];
      continue;
    }
    const fs::path folder = fs::path(path).parent_path();
    const fs::path first = folder / "tokenizer", second = folder / "tokenizer_2";
    if (is_present(first)) encoders[i].tokenizer = (i > 0 && is_present(second) ? second : first).string();
  }
}

PipelinePart given_autoencoder(const std::string& path, double scaling) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return {.checkpoint = Checkpoint::open(weights_of(path)),
            .config = read_config(path, "config.json"),
            .config_name = path + "/config.json"};
  }
  const Checkpoint checkpoint = open_checkpoint(path);
  return autoencoder_part(checkpoint, find_autoencoder(checkpoint, kVae), scaling, stored_pipeline(checkpoint));
}

std::vector<TextPart> given_encoders(const std::vector<std::string>& paths, size_t wanted, bool drops_last) {
  if (paths.size() != wanted)
    throw bad_input("{} {}: the model takes {} text encoder{}", kTextEncoder, paths.back(), wanted,
                    wanted > 1 ? "s" : "");
  std::vector<TextPart> parts;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      parts.push_back({.checkpoint = Checkpoint::open(path), .tokenizer = ""});
      continue;
    }
    const Checkpoint checkpoint = open_checkpoint(path);
    const TextSignature signature = find_text_encoder(checkpoint, kTextEncoder);
    parts.push_back(text_part(checkpoint, signature, parts.size(), drops_last && signature.is_open_clip, nullptr));
  }
  return parts;
}

}  // namespace

PipelineParts open_single_file(const std::string& path, const GivenParts& given) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const Signature signature = recognize(checkpoint);
  refuse_missing(path, missing_parts(path, signature, given));
  const Json stored = stored_pipeline(checkpoint);
  const bool is_xl = signature.family == ModelFamily::kSdxl, is_sd2 = signature.family == ModelFamily::kSd2;
  const double scaling = is_xl ? kXlScaling : kScaling;
  std::vector<TextPart> encoders;
  if (!given.text_encoders.empty()) {
    encoders = given_encoders(given.text_encoders, wanted_encoders(signature), is_sd2);
  } else {
    if (signature.text_encoders.size() != wanted_encoders(signature))
      throw bad_input("{}: holds {} text encoders, {} takes {}", path, signature.text_encoders.size(), signature.title,
                      wanted_encoders(signature));
    for (const TextSignature& text : signature.text_encoders)
      encoders.push_back(text_part(checkpoint, text, encoders.size(), is_sd2 && text.is_open_clip, stored));
  }
  set_tokenizers(encoders, path, given);
  const Json unet = config_of(stored, "unet", [&] { return unet_config(checkpoint, signature); });
  const std::string unet_name = path + " (U-Net)";
  PipelinePart autoencoder = given.autoencoder.empty()
                                 ? autoencoder_part(checkpoint, *signature.autoencoder, scaling, stored)
                                 : given_autoencoder(given.autoencoder, scaling);
  return {.path = path,
          .name = fs::path(path).stem().string(),
          .class_name = is_xl ? "StableDiffusionXLPipeline" : "StableDiffusionPipeline",
          .unet = {.checkpoint = unet_tensors(checkpoint, signature.unet, unet_name, unet),
                   .config = unet,
                   .config_name = unet_name},
          .autoencoder = std::move(autoencoder),
          .text_encoders = std::move(encoders),
          .scheduler = config_of(stored, "scheduler", [&] { return scheduler_config(signature); }),
          .scheduler_name = path + " (scheduler)",
          .zeros_for_empty = is_xl && stored_zeros(checkpoint, stored)};
}

bool is_picture_model(const std::string& path) {
  if (is_pipeline_folder(find_pipeline(path))) return true;
  if (!is_single_file(path) || !is_present(path)) return false;
  return is_pickle(path) || holds_pictures(Checkpoint::open(path));
}

ExplainedFile explain_single_file(const std::string& path) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const Signature signature = recognize(checkpoint);
  ExplainedFile result{.title = signature.title,
                       .reasons = signature.reasons,
                       .parts = part_sizes(checkpoint, signature),
                       .missing = {}};
  const Json stored = stored_pipeline(checkpoint);
  if (stored.is_object()) {
    result.reasons.push_back(fmt::format("{}: the configurations are stored in the file", kPipelineField));
  } else {
    const Json config = unet_config(checkpoint, signature);
    for (const char* field :
         {"block_out_channels", "transformer_layers_per_block", "attention_head_dim", "cross_attention_dim"})
      result.reasons.push_back(fmt::format("{}: {}", field, config.at(field).dump()));
  }
  for (const auto& [part, option] : missing_parts(path, signature, {}))
    result.missing.push_back(fmt::format("{}: {}", part, option));
  return result;
}

void replace_parts(PipelineParts& parts, const GivenParts& given) {
  const size_t encoders = parts.text_encoders.size();
  if (!given.autoencoder.empty())
    parts.autoencoder = given_autoencoder(given.autoencoder, encoders == 2 ? kXlScaling : kScaling);
  if (!given.text_encoders.empty()) {
    std::vector<TextPart> others = given_encoders(given.text_encoders, encoders, false);
    for (size_t i = 0; i < encoders; ++i) others[i].tokenizer = parts.text_encoders[i].tokenizer;
    parts.text_encoders = std::move(others);
  }
  if (!given.tokenizers.empty()) set_tokenizers(parts.text_encoders, parts.path, given);
}

}  // namespace gabbro::pictures
