#include "tests/pictures/single_file_writer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "src/formats/checkpoint.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/single_file/single_file.h"
#include "src/pictures/text_states.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

struct WrittenTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

std::vector<std::byte> transposed_bytes(const CheckpointTensor& tensor) {
  const auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
  const size_t element = tensor.data.size() / (rows * columns);
  std::vector<std::byte> out(tensor.data.size());
  for (size_t i = 0; i < rows * columns; ++i)
    std::memcpy(out.data() + (i % columns * rows + i / columns) * element, tensor.data.data() + i * element, element);
  return out;
}

WrittenTensor make_tensor(const Checkpoint& part, const std::string& name, const std::string& action,
                          const std::string& sources) {
  std::vector<CheckpointTensor> tensors;
  std::istringstream names(sources);
  for (std::string source; std::getline(names, source, ',');) tensors.push_back(part.require_tensor(source));
  WrittenTensor out{.name = name, .dtype = tensors[0].dtype(), .shape = tensors[0].shape, .bytes = {}};
  for (const CheckpointTensor& tensor : tensors)
    out.bytes.insert(out.bytes.end(), tensor.data.begin(), tensor.data.end());
  if (action == "join") out.shape[0] *= 3;
  if (action == "convolution") out.shape.insert(out.shape.end(), {1, 1});
  if (action == "transpose") {
    out.bytes = transposed_bytes(tensors[0]);
    std::swap(out.shape[0], out.shape[1]);
  }
  return out;
}

std::string pipeline_field(const std::string& folder, bool has_scheduler) {
  const PipelineFolder parts = read_pipeline_folder(folder);
  Json document = {{"unet", read_config(parts.unet, "config.json")},
                   {"vae", read_config(parts.vae, "config.json")},
                   {"scheduler", read_config(parts.scheduler, "scheduler_config.json")},
                   {"padding", Json::array()}};
  if (!has_scheduler) document.erase("scheduler");
  const char* name = "text_encoder";
  for (const auto& [encoder, tokenizer] : parts.text_encoders) {
    document[std::exchange(name, "text_encoder_2")] = read_config(encoder, "config.json");
    document["padding"].push_back(padding_token(tokenizer));
  }
  return document.dump();
}

void write_gguf(const std::string& path, const std::deque<WrittenTensor>& tensors, const std::string& field) {
  gguf::Writer writer;
  writer.add_string("general.architecture", "sd1");
  if (!field.empty()) writer.add_string(kPipelineField, field);
  for (const WrittenTensor& tensor : tensors)
    writer.add_tensor(tensor.name, gguf::ggml_type_number(tensor.dtype), tensor.shape, tensor.bytes);
  writer.write(path);
}

}  // namespace

void write_single_file(const std::string& name, const std::string& path, const SingleFileOptions& options) {
  const std::string folder = options.folder.empty() ? picture_folder(name) : options.folder;
  std::map<std::string, Checkpoint> parts;
  std::deque<WrittenTensor> tensors;
  std::ifstream table(picture_folder("single_files/" + name + ".txt"));
  for (std::string original, part, action, sources; table >> original >> part >> action >> sources;) {
    if (std::ranges::find(options.left_out, part) != options.left_out.end()) continue;
    if (!parts.contains(part)) parts.emplace(part, Checkpoint::open(weights_of(folder + "/" + part)));
    tensors.push_back(make_tensor(parts.at(part), original, action, sources));
  }
  for (const std::string& more : options.more)
    tensors.push_back({.name = more, .dtype = DType::f32, .shape = {1}, .bytes = std::vector<std::byte>(4)});
  const std::string field = options.stores_config ? pipeline_field(folder, options.stores_scheduler) : "";
  if (path.ends_with(".gguf")) return write_gguf(path, tensors, field);
  std::vector<safetensors::TensorData> data;
  for (const WrittenTensor& tensor : tensors)
    data.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes});
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!field.empty()) metadata[kPipelineField] = field;
  if (!options.prediction.empty()) metadata["modelspec.prediction_type"] = options.prediction;
  safetensors::write(path, data, metadata);
}

}  // namespace gabbro::pictures
