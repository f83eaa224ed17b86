// `convert` of a pipeline's folder: weights in another format, and copies of the other files.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "src/formats/file_type.h"

namespace gabbro::pictures {

struct PipelineConversion {
  std::function<void(double done)> progress{};
  const std::atomic<bool>* cancel = nullptr;
};

struct ConvertedPipeline {
  uint64_t bytes = 0;
  size_t tensors = 0;
};

// Writes the folder `out`, which must not exist: whole or not at all. The weights of each part get `type`: f32, f16 and
// bf16 in a safetensors file, which diffusers reads, others in model.gguf. There matrices, and convolutions as matrices
// [O, I · taps], have the type's format if their rows are whole blocks; other tensors are f16, and vectors f32. A part
// of the converted pipeline is in memory at a time. Throws bad_input that names the file, kInterrupted.
ConvertedPipeline convert_pipeline(const std::string& folder, const std::string& out, const FileType& type,
                                   const PipelineConversion& options = {});

}  // namespace gabbro::pictures
