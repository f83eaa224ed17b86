// Latents in files: kept where a picture could not be decoded, and decoded later.
#pragma once

#include <memory>
#include <string>

#include "src/pictures/samplers/sampler.h"

namespace gabbro::cli {

struct LatentFile {
  std::shared_ptr<const pictures::Latent> latent;  // [channels, height, width]
  int64_t height = 0, width = 0;
};

// A safetensors file with the tensor "latent" [channels, height, width] in f32. Throws bad_input that names it.
LatentFile read_latent_file(const std::string& path);
// Throws failed() where it cannot be written.
void write_latent_file(const std::string& path, const LatentFile& file);

// "heart.png" -> "heart.latent.safetensors".
std::string latent_path(const std::string& picture);

}  // namespace gabbro::cli
