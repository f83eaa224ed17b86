// Hostile vocabularies and texts. A vocabulary that knows every byte must decode to the text that it encoded.
#include <cstdlib>

#include "src/base/error.h"
#include "src/text/models/byte_alphabet.h"
#include "src/text/pipeline/pretokenizer_table.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8.h"
#include "tests/fuzz/input.h"

namespace {

using namespace gabbro::text;

VocabularySpec any_spec(gabbro::fuzz::Input& data) {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const PreTokenizerRule& rule : pretokenizer_rules()) all.push_back(rule.names.front());
    return all;
  }();
  VocabularySpec spec;
  spec.model = data.pick({"gpt2", "llama", "gemma4"});
  spec.pre = data.boolean() ? std::string(names[data.index(names.size())]) : "gpt-2";
  spec.name = data.pick({"", "phi-3", "modern-bert"});
  if (data.boolean()) {
    for (int byte = 0; byte < 256; ++byte) spec.tokens.emplace_back(byte_spelling(static_cast<uint8_t>(byte)));
  }
  for (int64_t i = data.number(0, 40); i > 0; --i) spec.tokens.push_back(data.text(12));
  for (int64_t i = data.number(0, 20); i > 0; --i) spec.merges.push_back(data.text(12));
  if (data.boolean()) {
    for (size_t i = 0; i < spec.tokens.size(); ++i)
      spec.types.push_back(i < 256 ? 1 : static_cast<int32_t>(data.number(-1, 7)));
  }
  if (data.boolean()) {
    for (size_t i = 0; i < spec.tokens.size(); ++i) spec.scores.push_back(i < 256 ? 0 : data.any_float());
  }
  spec.bos = static_cast<int32_t>(data.number(-2, 8));
  spec.eos = static_cast<int32_t>(data.number(-2, 8));
  if (data.boolean()) spec.add_eos = data.boolean();
  if (data.boolean()) spec.add_space_prefix = data.boolean();
  return spec;
}

void check_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  std::string buffer;
  const EncodeOptions plain{.add_special = false, .parse_special = false};
  if (tokenizer.decode(tokenizer.encode(text, plain), {.remove_special = false, .show_control = true}) !=
      repair_utf8(text, buffer))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  gabbro::fuzz::Input data(bytes, size);
  VocabularySpec spec = any_spec(data);
  const std::string text = data.rest();
  // Only ordinary tokens, all spelled in the alphabet of bytes, and merges among them: then nothing can be lost.
  bool lossless = spec.model == "gpt2" && spec.tokens.size() == 256 && spec.pre != "whitespace" &&
                  spec.pre != "gemma4" && spec.pre != "sarvam-moe" && !spec.add_space_prefix.value_or(false);
  for (const std::string& merge : spec.merges) lossless = lossless && merge.empty();
  if (lossless) spec.merges = {"a b"};
  try {
    const Tokenizer tokenizer(std::move(spec));
    const std::vector<int32_t> ids = tokenizer.encode(text);
    const std::string decoded = tokenizer.decode(ids);
    for (int32_t id = 0; id < tokenizer.size(); ++id) (void)tokenizer.piece(id);
    (void)tokenizer.encode(text, {.add_special = false, .parse_special = false});
    if (lossless) check_round_trip(tokenizer, text);
  } catch (const gabbro::Error& error) {
    if (error.code() != gabbro::ErrorCode::kBadInput) throw;
  }
  return 0;
}
