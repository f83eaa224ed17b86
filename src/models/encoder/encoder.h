// A text encoder: the graph of all families that differ by their configuration alone.
#pragma once

#include <memory>

#include "src/models/encoder/batch.h"
#include "src/models/encoder/encoder_config.h"
#include "src/models/encoder/encoder_experts.h"

namespace gabbro::encoder {

struct ForwardOptions {
  int64_t layers = 0;        // of the model that run; 0: all. Fewer: the states after them, without the final norm
  bool norms_fewer = false;  // the final norm also after fewer layers
  // Receives the states after `inner_layers`, without the final norm, if not null.
  Tensor* inner = nullptr;
  int64_t inner_layers = 0;
  Tensor embedded_tokens{};  // f32 [T, C] in place of the rows of the batch's ids; undefined: those rows
  const std::atomic<bool>* cancel = nullptr;
};

class Encoder {
 public:
  // Asks `weights` for all tensors of the model, the classifier's where it is there.
  Encoder(EncoderConfig config, WeightSource& weights);

  const EncoderConfig& config() const { return config_; }

  // States of all tokens of a batch, f32 [T, C].
  Tensor forward(const EncoderBatch& batch, const ForwardOptions& options = {}) const;
  // The linear layer of this name in layer `index`: "attn_q", "attn_k", "attn_v", "attn_output", "ffn_up",
  // "ffn_down"; null if there is none.
  nn::Linear* find_linear(int64_t index, std::string_view name) const;
  // The rows of tokens, without positions: i32 [T] -> f32 [T, C].
  Tensor embed_tokens(const Tensor& ids) const;
  // One vector a text, f32 [B, C]; of CLIP projected. kRank as the classifier pools.
  Tensor pooled(const EncoderBatch& batch, const Tensor& states, Pooling pooling, bool with_prompt = true) const;
  // Pooled states [B, C] times CLIP's matrix, f32 [B, projection]; unchanged if there is none.
  Tensor projected(const Tensor& states) const;
  // Makes a classifier of the language model's head: scores() gives the logits of these tokens.
  void classify_by(std::span<const int32_t> tokens);
  // The classifier's logits of pooled states [B, C], f32 [B, labels].
  Tensor scores(const Tensor& pooled) const;

 private:
  struct Norm {
    Tensor weight, bias;  // weight undefined: there is none
  };
  // Fields are named as the tensors of GGUF files: blk.N.attn_q.weight and so on.
  struct Layer {
    EncoderLayer kind;
    Norm attn_norm;                                 // [C]
    std::shared_ptr<nn::Linear> attn_q;             // [H·D, C]
    std::shared_ptr<nn::Linear> attn_k;             // [G·D, C]
    std::shared_ptr<nn::Linear> attn_v;             // [G·D, C]
    Norm attn_q_norm;                               // [D] or [H·D]
    Norm attn_k_norm;                               // [D] or [G·D]
    std::shared_ptr<nn::Linear> attn_output;        // [C, H·D]
    Norm attn_output_norm;                          // [C]
    Norm ffn_norm;                                  // [C]
    std::shared_ptr<nn::Linear> ffn_gate;           // [F, C]
    std::shared_ptr<nn::Linear> ffn_up;             // [F, C]
    std::shared_ptr<nn::Linear> ffn_down;           // [C, F]
    std::shared_ptr<const EncoderExperts> experts;  // instead of these three; or null
    Norm layer_output_norm;                         // [C]
  };
  struct Rope {
    RopeOptions options;
    Tensor inverse_frequencies;  // [R/2]
  };

  Norm load_norm(WeightSource& weights, const std::string& name, int64_t length) const;
  void load_embeddings(WeightSource& weights);
  Layer load_layer(WeightSource& weights, int64_t index) const;
  void load_attention(WeightSource& weights, const std::string& prefix, Layer& layer) const;
  void load_feed_forward(WeightSource& weights, const std::string& prefix, Layer& layer) const;
  void load_head(WeightSource& weights);

  Tensor embed(const EncoderBatch& batch, const Tensor& embedded_tokens) const;
  EncoderAttention attention_of(const EncoderBatch& batch) const;
  Tensor layer(const Layer& w, const Tensor& x, const EncoderBatch& batch, EncoderAttention attention) const;
  Tensor feed_forward(const Layer& w, const Tensor& h) const;
  Tensor normalized(const Norm& norm, const Tensor& x) const;
  Tensor heads(const Tensor& x, const Norm& norm) const;

  EncoderConfig config_;
  Rope rope_, local_rope_;
  Tensor token_embd_;     // [V, C]
  Tensor position_embd_;  // [context, C]
  Tensor token_types_;    // [types, C]
  Norm token_embd_norm_;
  Tensor bias_buckets_;  // f32 [buckets, H]
  Tensor slopes_;        // f32 [H]
  std::vector<Layer> layers_;
  Norm output_norm_;
  std::shared_ptr<nn::Linear> projection_;  // [P, C], of pooled states; or undefined
  std::shared_ptr<nn::Linear> output_;      // [V, C] of a language model with a separate head
  std::shared_ptr<nn::Linear> cls_;         // [C, C]
  Norm cls_norm_;
  std::shared_ptr<nn::Linear> cls_output_;  // [labels, C]
};

// ALiBi's slopes for any number of heads (Press et al. 2022; its code has the case of no power of 2).
std::vector<float> alibi_slopes(int64_t heads, float largest_exponent);

// The rows of a table [buckets, H] that are added to scores at the distances -(longest - 1) to longest - 1: [2 ·
// longest - 1, H].
Tensor biases_of_distances(const Tensor& table, const BucketConfig& config, int64_t longest);

// The bucket of key - query = `distance` (Raffel et al. 2020; T5's _relative_position_bucket).
int32_t distance_bucket(int64_t distance, const BucketConfig& config);

}  // namespace gabbro::encoder
