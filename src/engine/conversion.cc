#include "src/engine/conversion.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/convert/encoder_conversion.h"
#include "src/engine/model_text.h"
#include "src/engine/sentence_fields.h"
#include "src/engine/sentence_modules.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/models/encoder/registry.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

std::string folder_with(const Checkpoint& checkpoint) {
  std::error_code ignored;
  const std::filesystem::path path(checkpoint.path());
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string();
}

// GGUF readers change the text of word pieces to lower case, unless the vocabulary has capitals.
bool has_word_pieces(const Checkpoint& checkpoint) {
  const TokenizerFiles files = checkpoint.tokenizer_files();
  if (!files.tokenizer_json) return false;
  const auto document = parse_json(*files.tokenizer_json, files.folder + "/tokenizer.json");
  const auto model = document.is_object() ? document.find("model") : document.end();
  return document.is_object() && model != document.end() && model->is_object() && model->contains("type") &&
         (*model)["type"] == "WordPiece";
}

}  // namespace

bool has_encoder_alone(const Checkpoint& checkpoint) {
  const std::string architecture = llm::architecture_of(checkpoint);
  return llm::find_family(architecture) == nullptr && encoder::find_family(checkpoint) != nullptr;
}

bool is_encoder(const Checkpoint& checkpoint) {
  if (encoder::find_family(checkpoint) == nullptr) return false;
  if (has_encoder_alone(checkpoint)) return true;
  const std::string architecture = llm::architecture_of(checkpoint);
  if (checkpoint.layout() == CheckpointLayout::kGguf) return checkpoint.metadata().has(architecture + ".pooling_type");
  std::error_code ignored;
  if (std::filesystem::exists(folder_with(checkpoint) + "/modules.json", ignored)) return true;
  // A language model may be saved without the prefix of its names, too.
  const auto classes = checkpoint.metadata().find("architectures") != nullptr
                           ? checkpoint.metadata().strings("architectures")
                           : std::vector<std::string_view>();
  const bool writes_text =
      checkpoint.tensor("lm_head.weight") != nullptr || (!classes.empty() && classes.front().ends_with("ForCausalLM"));
  return checkpoint.tensor("embed_tokens.weight") != nullptr && !writes_text;
}

llm::Convertible convertible_of(const Checkpoint& checkpoint) {
  if (!is_encoder(checkpoint)) return llm::convertible(checkpoint);
  const encoder::EncoderConfig config = encoder::family_of(checkpoint).read_config(checkpoint);
  encoder::Pooling pooling = config.head.labels > 0 ? encoder::Pooling::kRank : config.pooling;
  SentenceModules modules;
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) {
    modules = read_sentence_modules(folder_with(checkpoint));
    if (!modules.dense.empty())
      throw bad_input("{}: modules.json: GGUF has no place for a Dense module", checkpoint.path());
    if (modules.lower_case && !has_word_pieces(checkpoint))
      throw bad_input("{}: do_lower_case: GGUF has no place for it with this tokenizer", checkpoint.path());
    pooling = modules.pooling.value_or(pooling);
  }
  llm::Convertible model = encoder::convertible(checkpoint, pooling);
  model.write_fields = [write = std::move(model.write_fields), modules](llm::GgufFields& fields) {
    write(fields);
    write_sentence_fields(modules, fields.writer);
  };
  return model;
}

void check_converted(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  const llm::Convertible model = convertible_of(checkpoint);
  llm::check_tensors(checkpoint, model);
  if (!has_vocabulary(checkpoint)) return;
  const text::Tokenizer tokenizer = read_tokenizer(checkpoint);
  if (tokenizer.size() > model.plan.sizes.vocabulary) {
    throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", path, tokenizer.size(),
                    model.plan.sizes.vocabulary);
  }
}

}  // namespace gabbro
