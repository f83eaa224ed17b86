// The inside of Checkpoint, filled by its readers. Private to src/formats.
#pragma once

#include <deque>
#include <unordered_map>

#include "src/formats/checkpoint.h"
#include "src/formats/quantized_folders/published.h"

namespace gabbro {

struct Checkpoint::State {
  State() = default;
  State(const State&) = delete;
  virtual ~State() = default;

  virtual const Metadata& metadata() const = 0;
  virtual ChatTemplates chat_templates() const = 0;
  virtual TokenizerFiles tokenizer_files() const { return {}; }

  // Checks that names are unique.
  void add_tensor(CheckpointTensor tensor);
  void add_file(const gguf::File& file);
  // Replaces the tensors that these matrices are made of.
  void replace_tensors(std::vector<published::Matrix> matrices);

  std::string path;
  const nlohmann::ordered_json* config = nullptr;  // the document of config.json
  uint32_t gguf_version = 0;
  size_t file_count = 1;
  std::vector<std::string> file_paths, file_identities;
  CheckpointLayout layout = CheckpointLayout::kGguf;
  uint64_t file_bytes = 0;
  std::vector<std::shared_ptr<const MappedFile>> mapped;
  std::vector<CheckpointTensor> tensors;
  std::unordered_map<std::string_view, size_t> index;  // in `tensors`
  std::deque<std::string> names;                       // of tensors that no file has
  std::vector<std::string> notes;

  static std::shared_ptr<const State> of_gguf(gguf::File file);
  // `path`: a folder, a .safetensors file, or an index.
  static std::shared_ptr<const State> of_hugging_face(const std::string& path);
};

}  // namespace gabbro
