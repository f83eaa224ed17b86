// The one view of a model's files: tensors by name, the configuration, the chat template. Readers: a
// GGUF file (in parts too), a safetensors file, and a folder as the Hugging Face Hub has it (sharded too).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gabbro/dtype.h"
#include "src/base/mapped_file.h"
#include "src/formats/hugging_face/tokenizer_files.h"
#include "src/formats/metadata.h"

namespace gabbro {

namespace gguf {
class File;  // src/formats/gguf/gguf.h
}
class DerivedData;  // src/formats/quantized_folders/derived_data.h

// Names of tensors and fields: llama.cpp's or transformers'.
enum class CheckpointLayout { kGguf, kHuggingFace };

struct OrderedColumns;

// Views into the files, which `file` keeps mapped; `name` and `format` are valid as long as the checkpoint is.
struct CheckpointTensor {
  std::string_view name;
  std::string_view format;           // as the file calls it: "Q4_K", "BF16"
  std::optional<DType> known_dtype;  // nothing: a format that does not run
  std::vector<int64_t> shape;        // row-major
  std::span<const std::byte> data;   // GGUF: at a multiple of 8 bytes from the start of the file
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<DerivedData> derived{};  // what makes `data`; null: the file has it
  // The quantized form of a dequantized matrix, with its columns in another order; null: none.
  std::shared_ptr<const OrderedColumns> ordered{};

  // To be called before `data` is read: makes bytes that no file has. Throws bad_input if their source is
  // damaged.
  void prepare() const;
  // The data will not be read again soon: gives pages back.
  void release() const;

  int64_t elements() const;
  uint64_t offset() const;  // of the data, in bytes from the start of the file
  DType dtype() const;      // throws bad_input that names file, tensor and format where it is not known

  // Rows [first, first + count) of a matrix, in place. Throws bad_input where they are not there.
  CheckpointTensor rows(int64_t first, int64_t count) const;
  // Columns of a matrix, row after row, of prepared data: [rows, count]. Throws as above, and where they do not begin
  // and end with blocks.
  std::vector<std::byte> columns(int64_t first, int64_t count) const;
};

// Column j of `matrix` is column order[j] of the tensor that has this.
struct OrderedColumns {
  CheckpointTensor matrix;
  std::vector<int32_t> order;
};

// The tensor, or its quantized form.
inline const CheckpointTensor& stored_form(const CheckpointTensor& tensor) {
  return tensor.ordered ? tensor.ordered->matrix : tensor;
}

// A handle: copies are of the same files.
class Checkpoint {
 public:
  // A .gguf file (of several parts any), a .safetensors file with its config.json next to it, a
  // model.safetensors.index.json, or the folder of one. Throws bad_input that names the file and what is wrong there.
  static Checkpoint open(const std::string& path);
  // A model in transformers' layout that has a config.json and no weights: `tensors` are names and shapes alone. `name`
  // is what messages call it.
  static Checkpoint of_config(const std::string& name, std::string_view config_json,
                              std::span<const std::pair<std::string, std::vector<int64_t>>> tensors);
  // A model of another checkpoint's tensors under new names, in transformers' layout. `name` is what messages call it.
  // Throws bad_input for a name that is there twice, and for a configuration that is not an object.
  static Checkpoint of_tensors(const Checkpoint& source, const std::string& name, std::string_view config_json,
                               std::vector<std::pair<std::string, CheckpointTensor>> tensors);
  // From an opened or generated file.
  Checkpoint(gguf::File file);  // NOLINT(google-explicit-constructor): the same model

  const std::string& path() const;  // as it was opened, for messages
  CheckpointLayout layout() const;
  std::string description() const;                          // "GGUF v3 in 2 parts", "safetensors in 3 files"
  uint32_t gguf_version() const;                            // 0: of another layout
  size_t file_count() const;                                // that hold tensors
  const std::vector<std::string>& file_paths() const;       // of these
  const std::vector<std::string>& file_identities() const;  // when they were opened: src/base/file_identity.h
  uint64_t file_bytes() const;                              // of these
  std::span<const std::shared_ptr<const MappedFile>> files() const;
  void require_unchanged() const;  // of all of them, as MappedFile does it

  // Fields of GGUF; of a folder the fields of config.json, nested ones as "rope_scaling.factor", and of
  // generation_config.json after "generation_config.".
  const Metadata& metadata() const;
  // The document of config.json, where null and nested objects are still to be seen; null for other layouts.
  const nlohmann::ordered_json* config() const;

  // In the order of the files. The tensors of a published quantized form (src/formats/quantized_folders) are one matrix
  // here.
  std::span<const CheckpointTensor> tensors() const;
  const CheckpointTensor* tensor(std::string_view name) const;  // null if there is none
  const CheckpointTensor& require_tensor(std::string_view name) const;

  // The sources of the chat templates: tokenizer.chat_template and tokenizer.chat_template.NAME, or the files that
  // read_chat_templates() reads.
  ChatTemplates chat_templates() const;
  // The template for conversations with or without tools; nothing if the model has none.
  std::optional<std::string> chat_template(bool with_tools = false) const;
  // A line for each reason for which quantized matrices are in f16 or bf16.
  const std::vector<std::string>& notes() const;
  // The files that describe the tokenizer of a folder; empty for GGUF, whose metadata() has the vocabulary.
  TokenizerFiles tokenizer_files() const;

 private:
  struct State;
  explicit Checkpoint(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace gabbro
