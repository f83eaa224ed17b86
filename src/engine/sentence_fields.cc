#include "src/engine/sentence_fields.h"

#include <string_view>

#include "src/base/error.h"

namespace gabbro {
namespace {

constexpr const char *kNormalize = "gabbro.embed.normalize", *kMostTokens = "gabbro.embed.max_tokens",
                     *kWithPrompt = "gabbro.embed.include_prompt", *kSigmoid = "gabbro.embed.sigmoid",
                     *kDefault = "gabbro.embed.default_prompt", *kNames = "gabbro.embed.prompt_names",
                     *kTexts = "gabbro.embed.prompt_texts";

}  // namespace

void write_sentence_fields(const SentenceModules& modules, gguf::Writer& writer) {
  if (modules.found) writer.add_bool(kNormalize, modules.normalized);
  if (modules.most_tokens) {
    const int64_t most = std::min<int64_t>(*modules.most_tokens, INT32_MAX);
    writer.add_u32(kMostTokens, static_cast<uint32_t>(most));
  }
  if (!modules.with_prompt) writer.add_bool(kWithPrompt, false);
  if (modules.sigmoid) writer.add_bool(kSigmoid, *modules.sigmoid);
  if (!modules.default_prompt.empty()) writer.add_string(kDefault, modules.default_prompt);
  if (modules.prompts.empty()) return;
  std::vector<std::string_view> names, texts;
  for (const auto& [name, text] : modules.prompts) {
    names.push_back(name);
    texts.push_back(text);
  }
  writer.add_strings(kNames, names);
  writer.add_strings(kTexts, texts);
}

SentenceModules read_sentence_fields(const Metadata& metadata) {
  SentenceModules modules;
  modules.found = metadata.has(kNormalize);
  modules.normalized = metadata.bool_or(kNormalize, false);
  if (metadata.has(kMostTokens)) modules.most_tokens = metadata.require_u32(kMostTokens);
  modules.with_prompt = metadata.bool_or(kWithPrompt, true);
  if (metadata.has(kSigmoid)) modules.sigmoid = metadata.require_bool(kSigmoid);
  modules.default_prompt = metadata.string_or(kDefault, "");
  if (!metadata.has(kNames)) return modules;
  const auto names = metadata.strings(kNames), texts = metadata.strings(kTexts);
  if (names.size() != texts.size())
    throw bad_input("{}: {} has {} entries, {} {}", metadata.path(), kNames, names.size(), kTexts, texts.size());
  for (size_t i = 0; i < names.size(); ++i) modules.prompts.emplace(names[i], texts[i]);
  return modules;
}

}  // namespace gabbro
