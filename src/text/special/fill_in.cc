#include "src/text/special/fill_in.h"

#include <string>

#include "src/base/error.h"
#include "src/text/special/special_tokens.h"

namespace gabbro::text {
namespace {

int32_t first_token_of(const Tokenizer& tokenizer, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const int32_t id = tokenizer.find(name); id != kNoToken) return id;
  }
  return kNoToken;
}

}  // namespace

FillInTokens fill_in_tokens(const Tokenizer& tokenizer) {
  const VocabularySpec& spec = tokenizer.vocabulary().spec();
  return {.prefix = first_token_of(tokenizer, fill_in_names(FillInPart::kPrefix)),
          .suffix = first_token_of(tokenizer, fill_in_names(FillInPart::kSuffix)),
          .middle = first_token_of(tokenizer, fill_in_names(FillInPart::kMiddle)),
          .repository = spec.fim_rep,
          .file = spec.fim_sep};
}

std::vector<int32_t> fill_in_prompt(const Tokenizer& tokenizer, const FillInText& given) {
  const FillInTokens tokens = fill_in_tokens(tokenizer);
  if (!tokens.are_known()) throw bad_input("the model has no tokens for text between two texts");
  std::vector<int32_t> prompt(tokenizer.prefix().begin(), tokenizer.prefix().end());
  const auto add = [&](std::string_view text) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    prompt.insert(prompt.end(), ids.begin(), ids.end());
  };
  const auto add_file = [&](std::string_view name) {
    prompt.push_back(tokens.file);
    add(std::string(name) + "\n");
  };
  if (!given.files.empty() && tokens.repository != kNoToken) {
    prompt.push_back(tokens.repository);
    add("project\n");
  }
  for (const auto& [name, text] : given.files) {
    if (tokens.file != kNoToken) {
      add_file(name);
      add(text);
    } else {
      add(std::string(text) + "\n\n");
    }
  }
  if (!given.files.empty() && tokens.file != kNoToken) add_file("file");
  prompt.push_back(tokens.prefix);
  add(given.before);
  prompt.push_back(tokens.suffix);
  add(given.after);
  prompt.push_back(tokens.middle);
  return prompt;
}

}  // namespace gabbro::text
