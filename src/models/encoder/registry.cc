#include "src/models/encoder/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::encoder {

extern const Family kBert, kRoberta;  // bert.cc
extern const Family kModernBert;      // modern_bert.cc
extern const Family kNomicBert;       // nomic_bert.cc
extern const Family kJinaBert;        // jina_bert.cc
extern const Family kDistilBert;      // distilbert.cc
extern const Family kMpnet;           // mpnet.cc
extern const Family kQwen3;           // qwen3.cc
extern const Family kT5;              // t5.cc
extern const Family kClipText;        // clip_text.cc

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {&kBert,       &kRoberta, &kModernBert, &kNomicBert, &kJinaBert,
                                                &kDistilBert, &kMpnet,   &kQwen3,      &kT5,        &kClipText};
  return kFamilies;
}

namespace {

// Jina's BERT calls itself "bert", and differs by its kind of positions.
std::string architecture_name(const Checkpoint& checkpoint) {
  const std::string name = llm::architecture_of(checkpoint);
  const bool alibi = checkpoint.metadata().string_or("position_embedding_type", "") == "alibi";
  return checkpoint.layout() == CheckpointLayout::kHuggingFace && name == "bert" && alibi ? "jina-bert-v2" : name;
}

}  // namespace

const Family* find_family(const Checkpoint& checkpoint) {
  const std::string name = architecture_name(checkpoint);
  const auto found = std::ranges::find_if(families(), [&](const Family* family) {
    return std::ranges::find(family->architectures, name) != family->architectures.end();
  });
  return found != families().end() ? *found : nullptr;
}

const Family& family_of(const Checkpoint& checkpoint) {
  if (const Family* family = find_family(checkpoint)) return *family;
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    for (const std::string_view name : family->architectures) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: encoders of architecture {} are not supported", checkpoint.path(),
                          quote(architecture_name(checkpoint))),
              fmt::format("supported: {}", fmt::join(names, ", ")));
}

std::unique_ptr<Encoder> load_encoder(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                      const llm::WeightOptions& options) {
  const Family& family = family_of(checkpoint);
  llm::CheckpointWeights weights(checkpoint, family.names, device, options);
  return std::make_unique<Encoder>(family.read_config(checkpoint), weights);
}

}  // namespace gabbro::encoder
