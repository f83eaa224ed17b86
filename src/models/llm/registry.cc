#include "src/models/llm/registry.h"

#include "src/base/error.h"

namespace gabbro::llm {

std::span<const Family> families() {
  static constexpr Family kFamilies[] = {
      {"llama", load_llama},  // Llama 1-3, Mistral, SmolLM 1-2, Yi, TinyLlama, Vicuna ...
      {"granite", load_llama},
  };
  return kFamilies;
}

std::unique_ptr<LanguageModel> load_model(const gguf::File& file, const std::shared_ptr<Device>& device,
                                          const LoadProgress& progress) {
  const std::string_view architecture = file.require_string("general.architecture");
  std::string known;
  for (const Family& family : families()) {
    if (family.architecture == architecture) return family.load(file, device, progress);
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: models of architecture '{}' are not supported", file.path(), architecture),
              "supported: " + known);
}

}  // namespace gabbro::llm
