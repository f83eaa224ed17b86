// Models of the llama family that need no file: their published sizes by name, or any sizes from a text; and what such
// a model's file would hold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/formats/file_type.h"
#include "src/models/llm/model.h"

namespace gabbro::llm {

struct LlamaShape {
  std::string name;  // "llama-8b"
  ModelShape sizes;
  bool tied = false;  // the token embeddings are the output head too
  float norm_epsilon = 1e-5f;
  float rope_base = 10000;
  float rope_factor = 1;  // by how much Llama 3 stretches the slow rotations; 1: not at all
};

// Llama 3.1 and 3.2, from the config.json of each.
std::span<const LlamaShape> published_llama_shapes();

// "llama-8b", or the sizes themselves, as "layers=2,embedding=64,heads=4" and, each with a default, kv-heads (heads),
// head-dimension (embedding / heads), feed-forward (4 · embedding), vocabulary (32000), context (4096), tied (0).
// Throws bad_input that names what is wrong.
LlamaShape parse_llama_shape(const std::string& text);

// That of a file. Throws as read_llama_config does.
LlamaShape llama_shape_of(const gguf::File& file);

// A tensor that a file of that shape and type holds.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  DType dtype;

  int64_t elements() const;
  uint64_t bytes() const;
};
std::vector<PlannedTensor> planned_tensors(const LlamaShape& shape, const FileType& type);

// A file of random weights, which lies in memory (src/formats/random_file.h). Its activations stay finite and of the
// size that a trained model's have. It has no vocabulary: tokenizer.ggml.model is "none".
gguf::File random_llama(const LlamaShape& shape, const FileType& type, uint64_t seed);

}  // namespace gabbro::llm
