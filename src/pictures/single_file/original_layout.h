// A pipeline's tensors under the names of the original layout of Stable Diffusion, in one file.
#pragma once

#include <string>
#include <vector>

#include "src/pictures/pipeline_parts.h"

namespace gabbro::pictures {

// A tensor of a single file: one of a part, or the rows of several, in sequence.
struct OriginalTensor {
  std::string name;                       // "model.diffusion_model.input_blocks.0.0.weight"
  std::vector<CheckpointTensor> sources;  // in the shapes of the file; of equal shapes
  bool transposed = false;                // rows and columns are exchanged against the part's
};

// The U-Net, then the autoencoder, then the text encoders: CLIP-L in the layout of transformers, OpenCLIP's models in
// their own. Throws bad_input that names a tensor for which that layout has no name.
std::vector<OriginalTensor> original_tensors(const PipelineParts& parts);

// "sd1", "sd2" or "sdxl": general.architecture of a GGUF file.
const char* original_architecture(const PipelineParts& parts);

// The document of kPipelineField (single_file.h).
Json stored_configs(const PipelineParts& parts);

}  // namespace gabbro::pictures
