#include "apps/cli/image_latent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "src/base/error.h"
#include "src/formats/hugging_face/safetensors.h"

namespace gabbro::cli {
namespace {

constexpr const char* kTensor = "latent";

}  // namespace

LatentFile read_latent_file(const std::string& path) {
  const safetensors::File file(path);
  const safetensors::TensorInfo* const tensor = file.tensor(kTensor);
  if (tensor == nullptr || tensor->dtype() != DType::f32 || tensor->shape.size() != 3 || tensor->data.empty())
    throw bad_input("--resume-latent {}: has no latent of [channels, height, width] in f32", path);
  auto latent = std::make_shared<pictures::Latent>(tensor->data.size() / sizeof(float));
  std::memcpy(latent->data(), tensor->data.data(), tensor->data.size());
  if (!std::ranges::all_of(*latent, [](float value) { return std::isfinite(value); }))
    throw bad_input("--resume-latent {}: the latent has values that are not numbers", path);
  return {.latent = latent, .height = tensor->shape[1], .width = tensor->shape[2]};
}

void write_latent_file(const std::string& path, const LatentFile& file) {
  const int64_t channels = std::ssize(*file.latent) / (file.height * file.width);
  const safetensors::TensorData tensor{.name = kTensor,
                                       .dtype = DType::f32,
                                       .shape = {channels, file.height, file.width},
                                       .data = std::as_bytes(std::span(*file.latent))};
  safetensors::write(path, std::span(&tensor, 1));
}

std::string latent_path(const std::string& picture) {
  const std::filesystem::path path(picture);
  return (path.parent_path() / (path.stem().string() + ".latent.safetensors")).string();
}

}  // namespace gabbro::cli
