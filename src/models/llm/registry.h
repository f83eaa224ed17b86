// The visible list of model families: by the name in general.architecture.
#pragma once

#include <span>

#include "src/models/llm/model.h"

namespace gabbro::llm {

struct Family {
  const char* architecture;
  ModelShape (*read_shape)(const gguf::File& file);
  std::unique_ptr<LanguageModel> (*load)(const gguf::File& file, const std::shared_ptr<Device>& device, int64_t context,
                                         const LoadProgress& progress);
};

std::span<const Family> families();

// llama.cc
ModelShape read_llama_shape(const gguf::File& file);
std::unique_ptr<LanguageModel> load_llama(const gguf::File& file, const std::shared_ptr<Device>& device,
                                          int64_t context, const LoadProgress& progress);

}  // namespace gabbro::llm
