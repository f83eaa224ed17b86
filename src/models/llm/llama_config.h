// Configuration of a model of the llama family, from a GGUF file.
#pragma once

#include "src/models/llm/model.h"
#include "src/nn/rope.h"

namespace gabbro::llm {

struct LlamaConfig {
  ModelShape shape;
  float norm_epsilon = 1e-5f;
  float attention_scale = 0;  // on the scores; 1/sqrt(D) where the file has none
  int64_t window = 0;         // sliding window in tokens; 0: none
  nn::RopeConfig rope;
  // Granite's factors; 1 in all others.
  float embedding_scale = 1;  // on the token embeddings
  float residual_scale = 1;   // on what each block adds to the stream
  float logit_scale = 1;      // logits are divided by it
};

// Throws bad_input that names the file and the field if a size is missing, out of range, or does not fit the others.
LlamaConfig read_llama_config(const gguf::File& file);

}  // namespace gabbro::llm
