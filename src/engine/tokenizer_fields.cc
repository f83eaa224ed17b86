#include "src/engine/tokenizer_fields.h"

#include "src/engine/model_text.h"
#include "src/text/readers/gguf_vocabulary.h"

namespace gabbro {
namespace {

void write(const text::VocabularySpec& spec, gguf::Writer& writer) {
  writer.add_string("tokenizer.ggml.model", spec.model);
  writer.add_string("tokenizer.ggml.pre", spec.pre.empty() ? "default" : spec.pre);
  const std::vector<std::string_view> tokens(spec.tokens.begin(), spec.tokens.end());
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  if (!spec.scores.empty()) writer.add_f32s("tokenizer.ggml.scores", spec.scores);
  writer.add_i32s("tokenizer.ggml.token_type", spec.types);
  const std::vector<std::string_view> merges(spec.merges.begin(), spec.merges.end());
  if (!merges.empty()) writer.add_strings("tokenizer.ggml.merges", merges);
  const std::pair<const char*, int32_t> ids[] = {
      {"bos_token_id", spec.bos}, {"eos_token_id", spec.eos},         {"eot_token_id", spec.eot},
      {"eom_token_id", spec.eom}, {"unknown_token_id", spec.unknown}, {"padding_token_id", spec.padding}};
  for (const auto& [name, id] : ids) {
    if (id != text::kNoToken) writer.add_u32(std::string("tokenizer.ggml.") + name, static_cast<uint32_t>(id));
  }
  // Ollama's key. llama.cpp knows those above and some texts of tokens.
  if (spec.end_of_generation.size() > 1) writer.add_i32s("tokenizer.ggml.eos_token_ids", spec.end_of_generation);
  const std::pair<const char*, std::optional<bool>> flags[] = {
      {"add_bos_token", spec.add_bos},
      {"add_eos_token", spec.add_eos},
      {"add_space_prefix", spec.add_space_prefix},
      {"remove_extra_whitespaces", spec.remove_extra_whitespaces}};
  for (const auto& [name, flag] : flags) {
    if (flag) writer.add_bool(std::string("tokenizer.ggml.") + name, *flag);
  }
  if (spec.precompiled_charsmap.empty()) return;
  const std::vector<int32_t> bytes(spec.precompiled_charsmap.begin(), spec.precompiled_charsmap.end());
  writer.add_i32s("tokenizer.ggml.precompiled_charsmap", bytes);
}

}  // namespace

std::vector<std::string> write_tokenizer_fields(const Checkpoint& checkpoint, int64_t vocabulary,
                                                gguf::Writer& writer) {
  const bool there = has_vocabulary(checkpoint);
  const auto written =
      there ? text::gguf_vocabulary(tokenizer_files_of(checkpoint), static_cast<int32_t>(vocabulary)) : std::nullopt;
  if (!written) {
    writer.add_string("tokenizer.ggml.model", "none");
    const std::string why = there ? "its tokenizer is of a kind that GGUF does not have" : "it has no tokenizer";
    return {checkpoint.path() + ": " + why + "; the new file takes token ids alone"};
  }
  write(written->spec, writer);
  if (written->exact) return {};
  return {checkpoint.path() + ": its tokenizer is not one that GGUF describes exactly; some texts get other tokens"};
}

}  // namespace gabbro
