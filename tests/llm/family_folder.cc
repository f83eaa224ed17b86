#include "tests/llm/family_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <vector>

#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"

namespace gabbro {

namespace fs = std::filesystem;

std::string family_folder(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/families/" + name; }

fs::path with_config(const std::string& folder) {
  const fs::path copy = fs::path(testing::TempDir()) / ("family-" + std::to_string(::getpid()));
  fs::remove_all(copy);
  fs::create_directories(copy);
  fs::copy_file(fs::path(folder) / "config.json", copy / "config.json");
  return copy;
}

std::string in_f32(const std::string& folder) {
  const fs::path copy = with_config(folder);
  const safetensors::File file(folder + "/model.safetensors");
  std::deque<std::vector<float>> values;
  std::vector<safetensors::TensorData> tensors;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    auto& converted = values.emplace_back(tensor.data.size() / 2);
    dequantize_row(tensor.dtype(), tensor.data.data(), converted.data(), std::ssize(converted));
    tensors.push_back({tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(converted))});
  }
  safetensors::write((copy / "model.safetensors").string(), tensors);
  return copy.string();
}

}  // namespace gabbro
