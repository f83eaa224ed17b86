#include "src/text/special/special_tokens.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>
#include <span>
#include <string>

namespace gabbro::text {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view kEndOfMessage[] = {"<|eom_id|>"};
constexpr std::string_view kFimPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr std::string_view kFimRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFimSeparator[] = {"<|file_sep|>"};
constexpr std::string_view kFimPrefix[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<｜fim▁begin｜>",
                                           "<PRE>",          "▁<PRE>",       "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view kFimSuffix[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<｜fim▁hole｜>",
                                           "<SUF>",          "▁<SUF>",       "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view kFimMiddle[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<｜fim▁end｜>",
                                           "<MID>",          "▁<MID>",       "<|code_middle|>", "<|middle|>"};

constexpr std::string_view kEndOfGeneration[] = {"<|eot_id|>",
                                                 "<|im_end|>",
                                                 "<|end|>",
                                                 "<|return|>",
                                                 "<|call|>",
                                                 "<|flush|>",
                                                 "<|calls|>",
                                                 "<end_of_turn>",
                                                 "<|endoftext|>",
                                                 "</s>",
                                                 "<|eom_id|>",
                                                 "<EOT>",
                                                 "_<EOT>",
                                                 "[EOT]",
                                                 "[EOS]",
                                                 "<|end_of_text|>",
                                                 "<end_of_utterance>",
                                                 "<eos>",
                                                 "<turn|>",
                                                 "<|tool_response>",
                                                 "<｜end▁of▁sentence｜>",
                                                 "[e~["};

// gpt-oss renders these, so they are text to the user of the model.
constexpr std::string_view kAlwaysShown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

class Deriver {
 public:
  Deriver(const StringTable& table, std::vector<uint8_t>& attributes) : table_(table), attributes_(attributes) {}

  int32_t find(std::string_view name) const { return table_.find(name); }
  bool ends(std::string_view name) const { return ends_.contains(find(name)); }
  uint8_t& attribute(int32_t id) { return attributes_[static_cast<size_t>(id)]; }

  // The first of `names` that is in the vocabulary becomes a control token and `id`, unless the file names one.
  void detect(int32_t& id, Names names) {
    if (id != kNoToken) return;
    const auto name = std::find_if(names.begin(), names.end(), [&](auto n) { return find(n) != kNoToken; });
    if (name == names.end()) return;
    id = find(*name);
    attribute(id) |= kControlToken;
  }
  void add_end(int32_t id) {
    if (id != kNoToken) ends_.insert(id);
  }
  void retract_end(std::string_view name, uint8_t attributes) {
    const int32_t id = find(name);
    if (ends_.erase(id) != 0) attribute(id) = attributes;
  }
  std::vector<int32_t> ends() const { return {ends_.begin(), ends_.end()}; }

 private:
  const StringTable& table_;
  std::vector<uint8_t>& attributes_;
  std::set<int32_t> ends_;
};

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](auto part) { return text.find(part) != text.npos; });
}

void derive_stripping(Deriver& deriver, const VocabularySpec& spec, std::vector<uint8_t>& attributes) {
  std::string name = spec.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto mark = [&](std::string_view text, uint8_t bit) {
    if (const int32_t id = deriver.find(text); id != kNoToken) deriver.attribute(id) |= bit;
  };
  if (contains_any(spec.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"})) {
    mark("<mask>", kStripLeft);
  } else if (contains_any(name, {"phi-3", "phi3"})) {
    for (uint8_t& bits : attributes) {
      if ((bits & (kControlToken | kUserDefinedToken | kUnknownToken)) != 0) bits |= kStripRight;
    }
    mark("</s>", kStripRight);
    for (const std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) {
      if (const int32_t id = deriver.find(text); id != kNoToken)
        deriver.attribute(id) &= static_cast<uint8_t>(~kStripRight);
    }
  } else if (contains_any(name, {"modern-bert"})) {
    mark("[MASK]", kStripLeft);
  }
}

}  // namespace

std::span<const std::string_view> fill_in_names(FillInPart part) {
  switch (part) {
    case FillInPart::kPrefix:
      return kFimPrefix;
    case FillInPart::kSuffix:
      return kFimSuffix;
    case FillInPart::kMiddle:
      return kFimMiddle;
  }
  return {};
}

std::vector<int32_t> derive_special_tokens(const StringTable& table, VocabularySpec& spec,
                                           std::vector<uint8_t>& attributes) {
  Deriver deriver(table, attributes);
  int32_t fim_part = kNoToken;
  deriver.detect(spec.eot, kEndOfTurn);
  deriver.detect(spec.eom, kEndOfMessage);
  for (const Names names : {Names(kFimPrefix), Names(kFimSuffix), Names(kFimMiddle)})
    deriver.detect(fim_part = kNoToken, names);
  deriver.detect(spec.fim_pad, kFimPad);
  deriver.detect(spec.fim_rep, kFimRepository);
  deriver.detect(spec.fim_sep, kFimSeparator);

  for (const int32_t id : {spec.fim_pad, spec.fim_rep, spec.fim_sep, spec.eos, spec.eot, spec.eom}) deriver.add_end(id);
  for (const std::string_view name : kEndOfGeneration) {
    const int32_t id = deriver.find(name);
    if (id == kNoToken) continue;
    deriver.add_end(id);
    deriver.attribute(id) |= kControlToken;
  }
  for (const std::string_view name : kAlwaysShown) {
    if (const int32_t id = deriver.find(name); id != kNoToken) deriver.attribute(id) = kUserDefinedToken;
  }

  // o200k_harmony and solar-open: <|end|> closes a message, and generation goes on.
  const bool calls = deriver.ends("<|call|>") || deriver.ends("<|calls|>");
  if (calls && (deriver.ends("<|return|>") || deriver.ends("<|flush|>")))
    deriver.retract_end("<|end|>", kUserDefinedToken);
  // Gemma 4 and PLaMo have an ordinary token </s>.
  if (deriver.ends("<|tool_response>") || deriver.ends("<|plamo:eos|>")) deriver.retract_end("</s>", kNormalToken);

  derive_stripping(deriver, spec, attributes);
  return deriver.ends();
}

}  // namespace gabbro::text
