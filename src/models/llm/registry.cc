#include "src/models/llm/registry.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/models/llm/config_reader.h"

namespace gabbro::llm {

std::span<const Family> families() {
  static const Family kFamilies[] = {
      // Llama 1-3, Mistral, SmolLM 1-2, Yi, TinyLlama, Vicuna ...
      {"llama", kLlamaNames, read_llama_shape, build_llama},
      {"mistral", kLlamaNames, read_llama_shape, build_llama},  // as transformers calls it
      {"granite", kLlamaNames, read_llama_shape, build_llama},
  };
  return kFamilies;
}

const Family* find_family(std::string_view architecture) {
  const auto found = std::ranges::find(families(), architecture, &Family::architecture);
  return found != families().end() ? &*found : nullptr;
}

const Family& family_of(const Checkpoint& checkpoint) {
  const std::string architecture = architecture_of(checkpoint);
  if (const Family* family = find_family(architecture)) return *family;
  std::string known;
  for (const Family& family : families()) known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: models of architecture {} are not supported", checkpoint.path(), gguf::quote(architecture)),
      "supported: " + known);
}

ModelShape read_shape(const Checkpoint& checkpoint) { return family_of(checkpoint).read_shape(checkpoint); }

std::unique_ptr<LanguageModel> load_model(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                          int64_t context, const LoadProgress& progress) {
  const Family& family = family_of(checkpoint);
  CheckpointWeights weights(checkpoint, family.names, device, progress);
  return family.build(checkpoint, weights, context);
}

}  // namespace gabbro::llm
