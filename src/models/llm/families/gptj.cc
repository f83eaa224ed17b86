// GPT-J: both blocks in parallel after one norm, partly rotated heads in neighboring pairs, a head with biases.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gptj {
namespace {

constexpr std::string_view kArchitectures[] = {"gptj"};

constexpr WeightName kNames[] = {
    {"token_embd", "transformer.wte"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_q", "transformer.h.{}.attn.q_proj"},
    {"blk.{}.attn_k", "transformer.h.{}.attn.k_proj"},
    {"blk.{}.attn_v", "transformer.h.{}.attn.v_proj"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.out_proj"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.fc_in"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.fc_out"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm = true;
  constexpr FieldName kRotated{nullptr, "rotary_dim"};
  config.rope.dimensions = fields.size_or(kRotated, config.rope.dimensions, 2, config.shape.head_dimension);
  if (config.rope.dimensions % 2 != 0)
    fields.refuse(kRotated, fmt::format("is {}, expected an even number", config.rope.dimensions));
  config.rope.interleaved = true;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  return config;
}

}  // namespace

extern const Family kGptJ;
const Family kGptJ = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gptj
