// A decoder-only transformer: the graph of all families that differ by their configuration alone.
#pragma once

#include <vector>

#include "src/models/llm/decoder_config.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/mixture.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {

class Decoder : public LanguageModel {
 public:
  Decoder(DecoderConfig config, const Checkpoint& checkpoint, WeightSource& weights, int64_t context);

  const ModelShape& shape() const override { return config_.shape; }
  std::vector<nn::CacheLayer> cache_spec() const override;
  Tensor forward(const Step& step, const nn::KvCache& cache) const override;
  bool has_stages() const override { return true; }
  Tensor embed(const Step& step) const override;
  Tensor layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const override;
  Tensor head(const Tensor& x) const override;

 private:
  struct Norm {
    Tensor weight, bias;  // both undefined: there is none
  };
  // Fields are named as the tensors of GGUF files: blk.N.attn_q.weight and so on.
  struct Layer {
    LayerKind kind;
    Norm attn_norm;                          // [C]
    nn::Projection attn_q;                   // [H·D, C]
    nn::Projection attn_k;                   // [G·D, C]
    nn::Projection attn_v;                   // [G·D, C]
    Norm attn_q_norm;                        // [D] or [H·D]
    Norm attn_k_norm;                        // [D] or [G·D]
    nn::Projection attn_output;              // [C, H·D]
    Norm post_attention_norm;                // [C]
    Norm ffn_norm;                           // [C]
    nn::Projection ffn_gate;                 // [F, C]
    nn::Projection ffn_up;                   // [F, C]
    nn::Projection ffn_down;                 // [C, F]
    std::shared_ptr<const Mixture> mixture;  // instead of these three; or null
    Norm post_ffw_norm;                      // [C]
  };
  struct Rope {
    RopeOptions options;
    Tensor inverse_frequencies;  // [R/2]
  };

  Norm load_norm(WeightSource& weights, const std::string& name, int64_t length) const;
  Layer load_layer(WeightSource& weights, int64_t index) const;
  void load_attention(WeightSource& weights, const std::string& prefix, Layer& layer) const;
  void load_feed_forward(WeightSource& weights, const std::string& prefix, Layer& layer) const;

  Tensor layer(const Layer& w, Tensor x, const Step& step, KvLayer cache, const Tensor& rows) const;
  Tensor attend(const Layer& w, const Tensor& h, const Step& step, KvLayer cache) const;
  Tensor feed_forward(const Layer& w, const Tensor& h) const;
  Tensor normalized(const Norm& norm, const Tensor& x) const;
  Tensor heads(const Tensor& x, const Norm& norm) const;

  DecoderConfig config_;
  Rope rope_, local_rope_;
  Tensor token_embd_;     // [V, C]
  Tensor position_embd_;  // [context, C]
  Norm token_embd_norm_;
  std::vector<Layer> layers_;
  Norm output_norm_;       // [C]
  nn::Projection output_;  // [V, C]; the token embeddings again where the file has no own head
};

// The entry of a family whose configuration is read by `read_config`.
template <DecoderConfig (*read_config)(const Checkpoint&)>
constexpr Family decoder_family(std::span<const std::string_view> architectures, std::span<const WeightName> names) {
  return {
      .architectures = architectures,
      .names = names,
      .read_shape = [](const Checkpoint& checkpoint) { return read_config(checkpoint).shape; },
      .build = [](const Checkpoint& checkpoint, WeightSource& weights,
                  int64_t context) -> std::unique_ptr<LanguageModel> {
        return std::make_unique<Decoder>(read_config(checkpoint), checkpoint, weights, context);
      },
      .write_fields = [](const Checkpoint& checkpoint,
                         GgufFields& fields) { write_decoder_fields(read_config(checkpoint), fields); },
  };
}

}  // namespace gabbro::llm
