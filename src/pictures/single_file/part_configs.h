// The configurations that a single file leaves out, from the shapes of its tensors, as diffusers would store them.
#pragma once

#include "src/base/json_node.h"
#include "src/pictures/single_file/name_table.h"
#include "src/pictures/single_file/signature.h"

namespace gabbro::pictures {

// unet/config.json. The family decides what no shape says: 8 heads (Stable Diffusion 1) or heads of 64 channels, 32
// groups, and the size that the model was trained with. Throws bad_input that names a tensor that is missing, or blocks
// that a U-Net of the family does not have.
Json unet_config(const Checkpoint& checkpoint, const Signature& signature);

// The blocks of unet/config.json; `name`: what messages call it.
UNetLayout unet_layout(const Json& config, const std::string& name);

// vae/config.json; `prefix`: of the names. `scaling`: of latents.
Json autoencoder_config(const Checkpoint& checkpoint, const std::string& prefix, double scaling);

// text_encoder/config.json. `drops_last`: without the last layer, which Stable Diffusion 2 does not use.
Json text_encoder_config(const Checkpoint& checkpoint, const TextSignature& signature, bool drops_last);

// scheduler/scheduler_config.json that the family was published with.
Json scheduler_config(const Signature& signature);

}  // namespace gabbro::pictures
