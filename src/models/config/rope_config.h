// Rotary embeddings as a checkpoint configures them.
#pragma once

#include <vector>

#include "src/models/config/config_reader.h"
#include "src/models/rope.h"

namespace gabbro::llm {

struct ModelRope : nn::RopeConfig {
  // Divisors of the frequencies [R/2] where config.json has them; GGUF files hold them as tensors. LongRoPE has one set
  // for texts up to the original context, and one for longer ones.
  std::vector<float> divisors, long_divisors;
};

struct RopeSource {
  int64_t head_dimension = 0;
  int64_t context_trained = 0;
  const char* section = "";  // of rope_parameters in config.json, for models with several: "full_attention."
};

// Pairs are (i, i + R/2). Throws bad_input as ConfigReader does, also for a kind of scaling that is not known.
ModelRope read_rope(const ConfigReader& fields, const RopeSource& source);

// Llama 3's divisors: waves longer than `original_context` / `low` tokens are stretched by `factor`, waves shorter
// than `original_context` / `high` not at all, and those between partly (transformers' _compute_llama3_parameters).
std::vector<float> llama3_divisors(int64_t dimensions, double base, double factor, double low, double high,
                                   double original_context);

}  // namespace gabbro::llm
