// Type of a model file as a whole ("q4_k_m"): its name, its number in general.file_type, and the format of each of its
// tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "gabbro/dtype.h"

namespace gabbro {

struct FileType {
  uint32_t number;        // general.file_type, as llama.cpp counts them
  std::string_view name;  // "q4_k_m"
  DType base;             // of all matrices that no rule excepts
  bool proposed = false;  // any model keeps its quality, and weights in memory are no larger than in the file
};

// Types whose formats we can run, by rising size.
std::span<const FileType> file_types();
const FileType* find_file_type(uint32_t number);  // null for one that is not in the list, here and below
// In any case; "q3_k", "q4_k" and "q5_k" mean the medium one, as they do for llama.cpp.
const FileType* find_file_type(std::string_view name);

// Role of a matrix, as far as mixtures distinguish it.
enum class TensorRole {
  kTokenEmbedding,
  kOutput,
  kAttentionQ,
  kAttentionK,
  kAttentionV,
  kAttentionOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
};

struct MixtureTensor {
  TensorRole role = TensorRole::kFfnUp;
  int64_t layer = 0;
  int64_t columns = 0;
};

struct MixtureModel {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  bool tied = false;  // the token embeddings are the output head too
};

// The format that llama.cpp's quantizer gives a matrix of a file of that type: attention values, down projections and
// the output head get more bits, and rows that are not whole blocks another format. IQ1, IQ2 and IQ3 are quantized with
// an importance matrix, the others without. MXFP4 is that of all matrices, not of experts alone.
DType mixture_dtype(const FileType& type, const MixtureTensor& tensor, const MixtureModel& model);

// Types, and formats of a tensor in them, that are of no use without an importance matrix: llama-quantize refuses them.
bool needs_importance(const FileType& type);
bool needs_importance(const FileType& type, std::string_view tensor, DType dtype);

}  // namespace gabbro
