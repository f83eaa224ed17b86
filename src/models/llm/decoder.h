// A decoder: a stream of embeddings that layers of a token mixer and a feed-forward block add to. Families differ by
// their configuration, and by mixers other than self-attention.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "src/models/llm/decoder_config.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/registry.h"
#include "src/models/llm/self_attention.h"
#include "src/models/llm/text_rotations.h"

namespace gabbro::llm {

class Decoder : public LanguageModel {
 public:
  Decoder(DecoderConfig config, const Checkpoint& checkpoint, WeightSource& weights, int64_t context,
          const MakeMixer& make_mixer = {});

  const ModelShape& shape() const override { return config_.shape; }
  std::vector<nn::CacheLayer> cache_spec() const override;
  Tensor forward(const Step& step, const nn::KvCache& cache) const override;
  void add_host_blocks(HostBlockWeights& host) override;
  bool has_stages() const override { return true; }
  bool takes_copies() const override;
  bool has_shards() const override { return true; }
  Tensor embed(const Step& step) const override;
  Tensor layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const override;
  Tensor head(const Tensor& x) const override;
  const TextRotations* rotations() const override { return rotations_ ? &*rotations_ : nullptr; }
  void set_rotation(int64_t rotation) override;

 private:
  struct Layer {
    Norm attn_norm;  // [C]
    std::shared_ptr<const TokenMixer> mixer;
    Norm post_attention_norm;                  // [C]
    Norm ffn_norm;                             // [C]
    std::shared_ptr<const FeedForward> block;  // null: there is none
    // This block on the host, for at most `host_tokens` tokens; null: only the device computes it.
    std::shared_ptr<const FeedForward> host_block;
    std::shared_ptr<Device> host;
    int64_t host_tokens = 0;
    Norm post_ffw_norm;  // [C]
  };

  Layer load_layer(WeightSource& weights, int64_t index, const MakeMixer& make_mixer) const;
  Tensor layer(const Layer& w, const Layer* next, Tensor x, const MixerStep& at) const;
  Tensor run_block(const Layer& w, const Layer* next, Tensor h, const std::array<Tensor, 2>& made_with,
                   const Step& step) const;
  Tensor run_on_host(const Layer& w, const Tensor& h, std::span<const Tensor> made_with, const Step& step) const;
  Tensor run_by_need(const Layer& w, const Layer* next, const Tensor& h, std::span<const Tensor> made_with,
                     const Step& step) const;

  Tensor token_rows(const Tensor& ids) const;
  Tensor summed(const Tensor& partial, const Tensor& stream = {}) const;

  Rope load_rope(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);

  DecoderConfig config_;
  Rope rope_, local_rope_;
  std::optional<TextRotations> rotations_;  // of rope_; none: one for all lengths
  int64_t rotation_ = 0;                    // that rope_ has
  const TensorShard* shard_ = nullptr;      // of the weights; null: they are whole
  Tensor token_embd_;                       // [V, C], or this device's rows
  Norm token_embd_norm_;                    // [C], or none
  Tensor position_embd_;                    // [context, C]
  std::vector<Layer> layers_;
  Norm output_norm_;                    // [C]
  std::shared_ptr<nn::Linear> output_;  // [V, C]; the token embeddings again where the file has no own head
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
