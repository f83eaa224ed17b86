#include "src/engine/conversion.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/engine/sentence_modules.h"
#include "src/models/encoder/conversion.h"
#include "src/models/encoder/registry.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

std::string folder_with(const Checkpoint& checkpoint) {
  std::error_code ignored;
  const std::filesystem::path path(checkpoint.path());
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string();
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
  const bool modules = std::filesystem::exists(folder_with(checkpoint) + "/modules.json", ignored);
  return modules || checkpoint.tensor("embed_tokens.weight") != nullptr;
}

llm::Convertible convertible_of(const Checkpoint& checkpoint) {
  if (!is_encoder(checkpoint)) return llm::convertible(checkpoint);
  const encoder::EncoderConfig config = encoder::family_of(checkpoint).read_config(checkpoint);
  encoder::Pooling pooling = config.head.labels > 0 ? encoder::Pooling::kRank : config.pooling;
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) {
    const SentenceModules modules = read_sentence_modules(folder_with(checkpoint));
    if (!modules.dense.empty())
      throw bad_input("{}: modules.json: GGUF has no place for a Dense module", checkpoint.path());
    pooling = modules.pooling.value_or(pooling);
  }
  return encoder::convertible(checkpoint, pooling);
}

}  // namespace gabbro
