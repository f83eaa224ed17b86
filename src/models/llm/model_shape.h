// The sizes of a language model.
#pragma once

#include <cstdint>

namespace gabbro::llm {

struct ModelShape {
  int64_t layers = 0;
  int64_t embedding = 0;        // C
  int64_t heads = 0;            // H
  int64_t kv_heads = 0;         // G
  int64_t head_dimension = 0;   // D
  int64_t feed_forward = 0;     // F
  int64_t vocabulary = 0;       // V
  int64_t context_trained = 0;  // tokens
  // Mixtures of experts; all 0 in dense models.
  int64_t experts = 0;              // E
  int64_t experts_used = 0;         // U, of a token
  int64_t expert_feed_forward = 0;  // of each
};

}  // namespace gabbro::llm
