// `convert` of a pipeline: a folder or a single file becomes another one, with weights in another format.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "src/formats/file_type.h"
#include "src/pictures/pipeline_parts.h"

namespace gabbro::pictures {

struct PipelineConversion {
  GivenParts given{};  // that the model lacks, or that replace its own
  std::function<void(double done)> progress{};
  const std::atomic<bool>* cancel = nullptr;
};

struct ConvertedPipeline {
  uint64_t bytes = 0;
  size_t tensors = 0;
};

// Writes `out`, which must not exist: whole or not at all. A name that ends in .safetensors or .gguf is a single file
// in the original layout, which holds the configurations too (kPipelineField) and no tokenizer; others are a folder, as
// diffusers saves it. The weights get `type`: f32, f16 and bf16 in safetensors files, which other programs read, others
// in GGUF. There matrices, and convolutions as matrices [O, I · taps], have the type's format if their rows are whole
// blocks; other tensors are f16, and vectors f32. In memory at a time: a converted part of a folder, or all of a single
// file. Throws bad_input that names the file, kInterrupted.
ConvertedPipeline convert_pipeline(const std::string& model, const std::string& out, const FileType& type,
                                   const PipelineConversion& options = {});
// As above, `out` being a single file of `parts`; options.given is not read.
ConvertedPipeline convert_to_single_file(const PipelineParts& parts, const std::string& out, const FileType& type,
                                         const PipelineConversion& options = {});

}  // namespace gabbro::pictures
