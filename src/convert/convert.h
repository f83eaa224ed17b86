// Conversion of a model to one GGUF file: from another layout, or to other formats of its weights.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "src/formats/checkpoint.h"
#include "src/formats/file_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/importance_matrix.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/model_plan.h"
#include "src/models/weights/merged_adapters.h"

namespace gabbro::llm {

// A model as the new file has it: its tensors by their names in GGUF, and its fields.
struct Convertible {
  std::string architecture;
  std::span<const WeightName> names;  // in the checkpoint
  ModelPlan plan;
  std::vector<std::string> notes{};  // one line each
  std::function<void(GgufFields& fields)> write_fields;
};

// That of a language model (src/convert/encoder_conversion.h has the other). Throws bad_input as read_shape does.
Convertible convertible(const Checkpoint& checkpoint);

// Throws bad_input that names the first tensor that is missing, or has another shape or a format that does not run.
void check_tensors(const Checkpoint& checkpoint, const Convertible& model);

struct ConvertOptions {
  const FileType* type = nullptr;  // of the new file
  int threads = 0;                 // 0: one for each processor
  // Writes the fields of the tokenizer of a folder, and returns warnings; null: the file has none.
  std::function<std::vector<std::string>(int64_t vocabulary, gguf::Writer& writer)> write_tokenizer{};
  // Throws where the new file, which has another name yet, cannot be read as a model; null: only its header is read.
  std::function<void(const std::string& path)> check{};
  bool replaces = true;                          // a file of that name that has come up meanwhile
  const ImportanceMatrix* importance = nullptr;  // of `importance_path`; null: all errors count alike
  std::string importance_path{};
  std::vector<MergedAdapter> adapters{};  // whose products are added to the weights
  std::function<void(uint64_t done, uint64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct Converted {
  uint64_t bytes = 0;
  size_t tensors = 0;
  size_t tensors_found = 0;           // of an earlier attempt that was interrupted
  std::vector<std::string> warnings;  // one line each
};

// Writes `path`, as a whole or not at all. Complete parts of an interrupted conversion of the same files are reused.
// Throws bad_input for a model that cannot be read, has values that are not numbers or too large for the new format, a
// type without an encoder or that needs an importance matrix, an importance matrix or an adapter of another model, and
// if another process writes the file; failed() for a full disk, and files that change meanwhile; kInterrupted when
// `cancel` becomes true.
Converted convert(const Checkpoint& checkpoint, const Convertible& model, const std::string& path,
                  const ConvertOptions& options);
inline Converted convert(const Checkpoint& checkpoint, const std::string& path, const ConvertOptions& options) {
  return convert(checkpoint, convertible(checkpoint), path, options);
}

}  // namespace gabbro::llm
