// Hunyuan 1, dense and mixtures of experts with a shared one: norms of queries and keys after their rotation.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::hunyuan {
namespace {

constexpr std::string_view kDense[] = {"hunyuan-dense", "hunyuan_v1_dense"};
constexpr std::string_view kMixed[] = {"hunyuan-moe", "hunyuan_v1_moe"};

constexpr WeightName kOwn[] = {
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.query_layernorm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.key_layernorm"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate.wg"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_mlp.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_mlp.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_mlp.down_proj"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

void read_common(const ConfigReader& fields, DecoderConfig& config) {
  config.qk_norm = QkNorm::kHead;
  config.qk_norm_last = true;
  config.activation = read_activation(fields, Activation::kSilu);
}

DecoderConfig read_dense(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  read_common(fields, config);
  return config;
}

DecoderConfig read_mixed(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  read_common(fields, config);
  config.mixture.normalized = true;
  read_mixture(fields, config);
  return config;
}

}  // namespace

extern const Family kHunyuan, kHunyuanMoe;
const Family kHunyuan = decoder_family<read_dense>(kDense, kNames);
const Family kHunyuanMoe = decoder_family<read_mixed>(kMixed, kNames);

}  // namespace gabbro::llm::hunyuan
