// Configuration of a model of the llama family, from a checkpoint.
#pragma once

#include "src/models/llm/model.h"
#include "src/models/llm/rope_config.h"

namespace gabbro::llm {

struct LlamaConfig {
  ModelShape shape;
  float norm_epsilon = 1e-5f;
  float attention_scale = 0;  // on the scores; 1/sqrt(D) where the configuration has none
  int64_t window = 0;         // sliding window in tokens; 0: none
  ModelRope rope;
  // Granite's factors; 1 in all others.
  float embedding_scale = 1;  // on the token embeddings
  float residual_scale = 1;   // on what each block adds to the stream
  float logit_scale = 1;      // logits are divided by it
};

// Throws bad_input that names the file and the field where a size is missing, out of range, or does not fit the others.
LlamaConfig read_llama_config(const Checkpoint& checkpoint);

}  // namespace gabbro::llm
