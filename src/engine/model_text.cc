#include "src/engine/model_text.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/error.h"

namespace gabbro {
namespace {

int32_t token_or_none(const Metadata& file, std::string_view name) {
  const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
  const MetadataValue* value = file.find(key);
  if (value == nullptr) return text::kNoToken;
  const auto id = value->as<int64_t>();
  if (!id) throw bad_input("{}: field '{}' is {}, not a token id", file.path(), key, value->describe());
  // Some writers say "none" with -1, as u32 too.
  if (*id == -1 || *id == 0xffffffffll) return text::kNoToken;
  if (*id < 0 || *id > INT32_MAX) throw bad_input("{}: field '{}' is {}, not a token id", file.path(), key, *id);
  return static_cast<int32_t>(*id);
}

std::optional<bool> bool_or_none(const Metadata& file, std::string_view key) {
  if (file.find(key) == nullptr) return std::nullopt;
  return file.require_bool(key);
}

std::vector<std::string> strings_or_none(const Metadata& file, std::string_view key) {
  if (file.find(key) == nullptr) return {};
  const auto views = file.strings(key);
  return {views.begin(), views.end()};
}

// The field eos_token_id, one id or a list, of generation_config.json, else of config.json, else of its text_config.
std::vector<int32_t> end_tokens(const Metadata& fields) {
  for (const char* key : {"generation_config.eos_token_id", "eos_token_id", "text_config.eos_token_id"}) {
    const MetadataValue* value = fields.find(key);
    const auto is_member = [members = std::string(key) + "."](const MetadataField& f) {
      return f.key.starts_with(members);
    };
    if (value == nullptr && std::ranges::none_of(fields.fields(), is_member)) continue;
    if (value != nullptr) {
      if (const auto id = value->as<int32_t>()) return {*id};
      if (const auto ids = value->as_vector<int32_t>()) return *ids;
    }
    throw bad_input("{}: field '{}' is {}, not a token id or a list of token ids", fields.path(), key,
                    value != nullptr ? value->describe() : "an object");
  }
  return {};
}

}  // namespace

text::VocabularySpec read_vocabulary(const Checkpoint& checkpoint) {
  const Metadata& file = checkpoint.metadata();
  if (file.find("tokenizer.ggml.model") == nullptr || file.find("tokenizer.ggml.tokens") == nullptr) {
    throw bad_input("{}: the file has no vocabulary (tokenizer.ggml.model and tokenizer.ggml.tokens)", file.path());
  }
  text::VocabularySpec spec;
  spec.model = file.require_string("tokenizer.ggml.model");
  spec.pre = file.string_or("tokenizer.ggml.pre", "");
  spec.name = file.string_or("general.name", "");
  spec.architecture = file.string_or("general.architecture", "");
  spec.tokens = strings_or_none(file, "tokenizer.ggml.tokens");
  spec.merges = strings_or_none(file, "tokenizer.ggml.merges");
  if (file.find("tokenizer.ggml.scores") != nullptr) spec.scores = file.f32s("tokenizer.ggml.scores");
  if (file.find("tokenizer.ggml.token_type") != nullptr) spec.types = file.i32s("tokenizer.ggml.token_type");
  spec.bos = token_or_none(file, "bos");
  spec.eos = token_or_none(file, "eos");
  spec.eot = token_or_none(file, "eot");
  spec.eom = token_or_none(file, "eom");
  if (file.has("tokenizer.ggml.eos_token_ids")) spec.end_of_generation = file.i32s("tokenizer.ggml.eos_token_ids");
  spec.unknown = token_or_none(file, "unknown");
  spec.padding = token_or_none(file, "padding");
  spec.fim_pad = token_or_none(file, "fim_pad");
  spec.fim_rep = token_or_none(file, "fim_rep");
  spec.fim_sep = token_or_none(file, "fim_sep");
  spec.add_bos = bool_or_none(file, "tokenizer.ggml.add_bos_token");
  spec.add_eos = bool_or_none(file, "tokenizer.ggml.add_eos_token");
  spec.add_space_prefix = bool_or_none(file, "tokenizer.ggml.add_space_prefix");
  spec.remove_extra_whitespaces = bool_or_none(file, "tokenizer.ggml.remove_extra_whitespaces");
  if (file.find("tokenizer.ggml.precompiled_charsmap") != nullptr) {
    for (const int32_t byte : file.i32s("tokenizer.ggml.precompiled_charsmap"))
      spec.precompiled_charsmap += static_cast<char>(byte);
  }
  return spec;
}

bool has_vocabulary(const Checkpoint& checkpoint) {
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) {
    std::error_code ignored;
    const std::filesystem::path path(checkpoint.path());
    return is_tokenizer_path((std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string());
  }
  const std::string_view model = checkpoint.metadata().string_or("tokenizer.ggml.model", "");
  return model != "none" && model != "no_vocab";
}

namespace {

text::TokenizerFiles text_files(TokenizerFiles files, std::vector<int32_t> end_of_generation) {
  return {.name = files.folder,
          .tokenizer_json = std::move(files.tokenizer_json),
          .sentencepiece_model = std::move(files.sentencepiece_model),
          .tokenizer_config = std::move(files.tokenizer_config),
          .special_tokens_map = std::move(files.special_tokens_map),
          .added_tokens = std::move(files.added_tokens),
          .end_of_generation = std::move(end_of_generation)};
}

}  // namespace

text::TokenizerFiles tokenizer_files_of(const Checkpoint& checkpoint) {
  return text_files(checkpoint.tokenizer_files(), end_tokens(checkpoint.metadata()));
}

text::Tokenizer read_tokenizer(TokenizerFiles files, std::vector<int32_t> end_of_generation) {
  return text::Tokenizer(text::read_tokenizer_files(text_files(std::move(files), std::move(end_of_generation))));
}

text::Tokenizer read_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace)
    return read_tokenizer(checkpoint.tokenizer_files(), end_tokens(checkpoint.metadata()));
  text::VocabularySpec spec = read_vocabulary(checkpoint);
  try {
    return text::Tokenizer(std::move(spec));
  } catch (const Error& error) {
    throw Error(error.code(), checkpoint.path() + ": " + error.what(), error.hint());
  }
}

std::unique_ptr<text::Tokenizer> read_tokenizer_if_any(const Checkpoint& checkpoint, std::string& missing) {
  missing = checkpoint.layout() == CheckpointLayout::kHuggingFace
                ? "the folder has no tokenizer (tokenizer.json or tokenizer.model)"
                : "the model has no vocabulary";
  try {
    if (has_vocabulary(checkpoint)) return std::make_unique<text::Tokenizer>(read_tokenizer(checkpoint));
  } catch (const Error& error) {
    if (checkpoint.layout() == CheckpointLayout::kGguf) throw;
    missing = error.what();  // token ids do without
  }
  return nullptr;
}

nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer) {
  auto variables = nlohmann::ordered_json::object();
  const std::pair<const char*, int32_t> tokens[] = {{"bos_token", tokenizer.bos()},
                                                    {"eos_token", tokenizer.eos()},
                                                    {"unk_token", tokenizer.unknown()},
                                                    {"pad_token", tokenizer.padding()}};
  for (const auto& [name, id] : tokens) {
    if (id != text::kNoToken) variables[name] = std::string(tokenizer.piece(id));
  }
  return variables;
}

std::vector<int32_t> encode_prompt(const text::Tokenizer& tokenizer, const jinja::MarkedText& prompt) {
  std::vector<int32_t> tokens = tokenizer.encode_marked(prompt, {.add_special = false});
  const bool begins_with_bos = !tokens.empty() && tokens.front() == tokenizer.bos();
  if (tokenizer.adds_bos() && !begins_with_bos) tokens.insert(tokens.begin(), tokenizer.bos());
  return tokens;
}

}  // namespace gabbro
