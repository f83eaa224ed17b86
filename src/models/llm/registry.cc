#include "src/models/llm/registry.h"

#include "src/base/error.h"

namespace gabbro::llm {

std::span<const Family> families() {
  static constexpr Family kFamilies[] = {
      {"llama", read_llama_shape, load_llama},  // Llama 1-3, Mistral, SmolLM 1-2, Yi, TinyLlama, Vicuna ...
      {"granite", read_llama_shape, load_llama},
  };
  return kFamilies;
}

namespace {

const Family& family_of(const gguf::File& file) {
  const std::string_view architecture = file.require_string("general.architecture");
  std::string known;
  for (const Family& family : families()) {
    if (family.architecture == architecture) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: models of architecture '{}' are not supported", file.path(), architecture),
              "supported: " + known);
}

}  // namespace

ModelShape read_shape(const gguf::File& file) { return family_of(file).read_shape(file); }

std::unique_ptr<LanguageModel> load_model(const gguf::File& file, const std::shared_ptr<Device>& device,
                                          int64_t context, const LoadProgress& progress) {
  return family_of(file).load(file, device, context, progress);
}

}  // namespace gabbro::llm
