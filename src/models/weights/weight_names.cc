#include "src/models/weights/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace gabbro::llm {
namespace {

// The number in `module` where `pattern` has "{}"; "" where the pattern has none; nothing where they differ.
std::optional<std::string_view> match(std::string_view pattern, std::string_view module) {
  const size_t hole = pattern.find("{}");
  if (hole == pattern.npos) return module == pattern ? std::optional<std::string_view>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, hole), after = pattern.substr(hole + 2);
  if (!module.starts_with(before) || !module.ends_with(after) || module.size() <= pattern.size() - 2) return {};
  const std::string_view number = module.substr(hole, module.size() - before.size() - after.size());
  return number.find_first_not_of("0123456789") == number.npos ? std::optional(number) : std::nullopt;
}

// The attribute of a model with a head that holds the encoder.
constexpr const char* kEncoderPrefixes[] = {"bert.", "roberta.", "distilbert.", "mpnet.", "nomic_bert.", "model."};

// The attributes of a model with a head that hold the model without one.
constexpr std::string_view kBasePrefixes[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
// Prefixes of all tensors of wrapped models: models of torch.compile and of parallel training, and models that
// see or hear.
constexpr const char* kWrappers[] = {"_orig_mod.",  "module.",           "base_model.model.", "language_model.model.",
                                     "text_model.", "model.text_model.", "thinker.model.",    "language_model."};

// A model that was saved without its head has no prefix, and one inside of another model or wrapper one more.
void add_other_prefixes(const std::string& theirs, std::vector<std::string>& found) {
  const auto base =
      std::ranges::find_if(kBasePrefixes, [&](std::string_view prefix) { return theirs.starts_with(prefix); });
  const std::string bare = base != std::end(kBasePrefixes) ? theirs.substr(base->size()) : theirs;
  if (bare.size() < theirs.size()) found.push_back(bare);
  for (const char* wrapper : kWrappers) {
    found.push_back(wrapper + theirs);
    if (bare.size() < theirs.size()) found.push_back(wrapper + bare);
  }
}

}  // namespace

// Models that also see or hear have their language model below another name, and encoders with a head below that of
// their family. Early BERT files have gamma and beta.
std::vector<std::string> transformers_names(std::span<const WeightName> names, const std::string& name) {
  const size_t suffix = name.rfind('.');  // ".weight" or ".bias"
  std::vector<std::string> found;
  for (const WeightName& known : names) {
    auto number = match(known.gguf, std::string_view(name).substr(0, suffix));
    if (!number && known.whole) number = match(known.gguf, name);
    if (!number) continue;
    const std::string theirs =
        fmt::format(fmt::runtime(known.hugging_face), *number) + (known.whole ? "" : name.substr(suffix));
    found.push_back(theirs);
    constexpr std::string_view kModel = "model.";
    found.push_back("language_model." + theirs);
    if (theirs.starts_with(kModel)) found.push_back("model.language_model." + theirs.substr(kModel.size()));
    add_other_prefixes(theirs, found);
    if (theirs.starts_with(kModel) || known.whole) continue;
    for (const char* prefix : kEncoderPrefixes) found.push_back(prefix + theirs);
    constexpr std::string_view kNorm = "LayerNorm";
    const std::string module = theirs.substr(0, theirs.rfind('.'));
    if (!module.ends_with(kNorm)) continue;
    const char* const early = name.ends_with(".weight") ? ".gamma" : ".beta";
    found.push_back(module + early);
    found.push_back("bert." + module + early);
  }
  return found;
}

std::string numbered(std::string pattern, int64_t number) {
  if (const size_t star = pattern.find('*'); star != pattern.npos) pattern.replace(star, 1, std::to_string(number));
  return pattern;
}

namespace {

bool in_files(std::span<const WeightName> names, const Checkpoint& checkpoint) {
  return checkpoint.layout() == CheckpointLayout::kGguf || names.empty();
}

// The first of these names that the checkpoint has, or null.
const std::string* find_name(const std::vector<std::string>& candidates, const Checkpoint& checkpoint) {
  const auto found = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return checkpoint.tensor(numbered(candidate, 0)) != nullptr; });
  return found != candidates.end() ? &*found : nullptr;
}

}  // namespace

std::string weight_pattern(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name) {
  if (in_files(names, checkpoint)) return name;
  const std::vector<std::string> theirs = transformers_names(names, name);
  if (theirs.empty()) throw std::logic_error("no name in transformers' layout for " + name);
  const std::string* const found = find_name(theirs, checkpoint);
  return found != nullptr ? *found : theirs.front();
}

std::string weight_name(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name) {
  return in_files(names, checkpoint) ? name : numbered(weight_pattern(names, checkpoint, name), 0);
}

bool has_weight(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name) {
  if (in_files(names, checkpoint)) return checkpoint.tensor(name) != nullptr;
  return find_name(transformers_names(names, name), checkpoint) != nullptr;
}

}  // namespace gabbro::llm
