// Pipelines of published shapes with random weights: for measuring speed without a file.
#pragma once

#include <string>
#include <vector>

#include "gabbro/dtype.h"
#include "src/pictures/pipeline_parts.h"

namespace gabbro::pictures {

// "sd15", "sd21", "sdxl".
std::vector<std::string> random_pipeline_shapes();

// The parts of a pipeline of this shape, with matrices and convolutions in `dtype` (f32, f16 or bf16). Weights are the
// same each time and take next to no memory until they are loaded; the vocabulary has single ASCII characters. Throws
// bad_input for an unknown shape; failed() if the system cannot map that much.
PipelineParts random_pipeline(const std::string& shape, DType dtype);

}  // namespace gabbro::pictures
