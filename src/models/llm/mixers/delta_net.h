// Linear attention by the gated delta rule (Gated DeltaNet, arXiv 2412.06464) as Qwen 3 Next and 3.5 have it: a short
// convolution of queries, keys and values, the rule, and a gated norm of each head. The cache has the last inputs of
// the convolution and the states.
#pragma once

#include "src/models/llm/blocks.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/token_mixer.h"

namespace gabbro::llm {

struct DeltaNetSizes {
  int64_t taps = 0;    // K: of the convolution
  int64_t groups = 0;  // G: heads of queries and keys
  int64_t heads = 0;   // H: of values
  int64_t keys = 0;    // N: elements of a head of queries or keys
  int64_t values = 0;  // P: of a head of values
  // Head h has the queries and keys of group h % G, as GGUF files of Qwen 3.5 order the heads; else of group
  // h / (H/G), as transformers does.
  bool tiled = false;

  int64_t query_width() const { return groups * keys; }
  int64_t value_width() const { return heads * values; }
  int64_t convolved() const { return 2 * query_width() + value_width(); }
};

class DeltaNet : public TokenMixer {
 public:
  DeltaNet(const DecoderConfig& config, const DeltaNetSizes& sizes, WeightSource& weights, const std::string& prefix);

  nn::CacheLayer cache() const override;
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  struct Inputs {
    Tensor qkv;          // [T, 2·G·N + H·P]
    Tensor z;            // [T, H·P]
    Tensor beta, alpha;  // [T, H]
  };

  Inputs projected(const Tensor& h) const;
  Tensor unit_heads(const Tensor& x, const Tensor& weight) const;

  float epsilon_;
  DeltaNetSizes sizes_;  // with this device's heads and groups
  // Fields are named as the tensors of GGUF files.
  std::shared_ptr<nn::Linear> attn_qkv_;              // [2·G·N + H·P, C]
  std::shared_ptr<nn::Linear> attn_gate_;             // [H·P, C]
  std::shared_ptr<nn::Linear> ssm_in_;                // [2·G·N + 2·H·P, C], of early files instead of these two
  std::shared_ptr<nn::Linear> ssm_ba_;                // [2·H, C]: of each group beta, then alpha
  std::shared_ptr<nn::Linear> ssm_beta_, ssm_alpha_;  // [H, C], instead of it
  Tensor ssm_conv1d_;                                 // [2·G·N + H·P, K]
  Tensor ssm_dt_b_;                                   // [H]
  Tensor ssm_a_;                                      // [H]
  Tensor ssm_norm_;                                   // [P]
  Tensor q_scale_, k_scale_;                          // [N]
  std::shared_ptr<nn::Linear> ssm_out_;               // [C, H·P]
};

DeltaNetSizes read_delta_net(const ConfigReader& fields);
void write_delta_net(const DeltaNetSizes& sizes, GgufFields& fields);

}  // namespace gabbro::llm
