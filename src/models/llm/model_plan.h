// The contents of a model's file: its tensors by name, shape and format, from a checkpoint or from a blueprint.
#pragma once

#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/file_type.h"
#include "src/models/kv_cache.h"
#include "src/models/llm/blueprint.h"
#include "src/models/weights/planned_tensor.h"
#include "src/models/weights/requested_tensor.h"

namespace gabbro::llm {

struct GgufFields;

struct ModelPlan {
  std::string name;  // general.name, or the file's name
  ModelShape sizes;
  std::vector<nn::CacheLayer> cache;     // by layer
  bool tied = false;                     // the token embeddings are the output head too
  std::vector<RequestedTensor> tensors;  // by their names in GGUF, in the order in which the family asks for them
};

// The tensors that the family of the checkpoint, or of the blueprint, asks for. Throws bad_input as read_shape does.
ModelPlan plan_of(const Checkpoint& checkpoint);
ModelPlan plan_of(const Blueprint& blueprint);

// Notes the layers with mixtures of experts, and whether there are shared ones, by the tensors of the plan.
void note_mixtures(const ModelPlan& plan, GgufFields& fields);

// The bytes of `bytes` that are read for one token: of experts only of those that it is routed to.
uint64_t bytes_read(const ExpertsSize& experts, uint64_t bytes);

inline constexpr const char* kEmbeddings = "token_embd.weight";

// The tensors of a file of this type.
std::vector<PlannedTensor> planned_tensors(const ModelPlan& plan, const FileType& type);

// The formats that the checkpoint's matrices get in a file of this type; empty for null. Throws bad_input for a format
// without an encoder, and for one that needs an importance matrix.
Formats planned_formats(const Checkpoint& checkpoint, const FileType* type);

// A model of random weights in memory (src/formats/random_file.h). Its activations stay finite and of the size of a
// trained model's. It has no vocabulary: tokenizer.ggml.model is "none".
Checkpoint random_checkpoint(const Blueprint& blueprint, const FileType& type, uint64_t seed);

}  // namespace gabbro::llm
