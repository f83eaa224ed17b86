// The tensors of a part of a single file under the names of diffusers.
#pragma once

#include <string>

#include "src/base/json_node.h"
#include "src/pictures/single_file/signature.h"

namespace gabbro::pictures {

// `prefix`: of the part's names; `name`: what messages call the part; `config`: as part_configs.h makes it. Throw
// bad_input that names a tensor that no such part has, or has in another shape.
Checkpoint unet_tensors(const Checkpoint& checkpoint, const std::string& prefix, const std::string& name,
                        const Json& config);
// Attention by 1 x 1 convolutions becomes attention by matrices.
Checkpoint autoencoder_tensors(const Checkpoint& checkpoint, const std::string& prefix, const std::string& name,
                               const Json& config);
// Cuts OpenCLIP's fused matrices into queries, keys and values, and transposes its projection. Leaves out layers beyond
// the number in the configuration.
Checkpoint text_tensors(const Checkpoint& checkpoint, const TextSignature& signature, const std::string& name,
                        const Json& config);

}  // namespace gabbro::pictures
