// T5's decoder (Raffel et al. 2020): tokens that see those before them, and the states of the encoder's text.
#pragma once

#include "src/models/encoder/encoder.h"
#include "src/models/kv_cache.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/ops/kv_type.h"

namespace gabbro::encoder {

class T5Decoder {
 public:
  // `config` is the encoder's, with the decoder's number of layers in shape.layers. Asks `weights` for the decoder's
  // tensors; without a head in them it is the token embeddings. `scaled`: the states before it by 1/sqrt(C). `kv_type`:
  // of the keys and values of a text.
  T5Decoder(EncoderConfig config, bool scaled, WeightSource& weights, DType kv_type = DType::f32);

  const ModelShape& shape() const { return config_.shape; }
  DevicePointer device() const { return token_embd_.device(); }

  // Logits [T, V] of one text's tokens, after `states` [S, C] of the encoder. ids and positions as make_batch has them.
  Tensor forward(const EncoderBatch& batch, const Tensor& states) const;

  // Decoding token by token: the state of a text [S, C] without tokens, and the logits [1, V] after one token more.
  // When `cancel` becomes true: kInterrupted, and the state is as before.
  nn::EncodedText begin(const Tensor& states, const std::atomic<bool>* cancel = nullptr) const;
  Tensor step(nn::EncodedText& state, int32_t token, const std::atomic<bool>* cancel = nullptr) const;

 private:
  struct Attention {
    Tensor norm;                       // [C]
    std::shared_ptr<nn::Linear> q;     // [H·D, C]
    std::shared_ptr<nn::Linear> k, v;  // [H·D, C]
    std::shared_ptr<nn::Linear> o;     // [C, H·D]
  };
  struct Layer {
    Attention own, cross;
    Tensor ffn_norm;                       // [C]
    std::shared_ptr<nn::Linear> ffn_gate;  // [F, C]
    std::shared_ptr<nn::Linear> ffn_up;    // [F, C]
    std::shared_ptr<nn::Linear> ffn_down;  // [C, F]
  };

  Attention load_attention(WeightSource& weights, const std::string& prefix) const;
  Layer load_layer(WeightSource& weights, int64_t index) const;
  Tensor heads(const Tensor& x) const;  // [T, H·D] -> [T, H, D]
  Tensor attend_to_text(const Attention& w, const Tensor& x, const Tensor& states) const;
  Tensor layer(const Layer& w, Tensor x, const EncoderBatch& batch, const EncoderAttention& bias,
               const Tensor& states) const;
  Tensor feed_forward(const Layer& w, const Tensor& x) const;
  Tensor head(const Tensor& x) const;

  EncoderConfig config_;
  bool scaled_;
  DType kv_type_;
  Tensor token_embd_;    // [V, C]
  Tensor bias_buckets_;  // f32 [buckets, H]
  std::vector<Layer> layers_;
  Tensor output_norm_;                  // [C]
  std::shared_ptr<nn::Linear> output_;  // [V, C]
};

// The decoder's configuration, as T5Decoder takes it. Throws bad_input for a checkpoint without a decoder.
struct T5DecoderConfig {
  EncoderConfig config;
  bool scaled = false;
  int32_t start_token = 0;  // that the decoder begins with
};
T5DecoderConfig read_t5_decoder(const Checkpoint& checkpoint);
bool has_t5_decoder(const Checkpoint& checkpoint);  // whether a checkpoint is a T5 with a decoder

// Encoder and decoder of a checkpoint that has both. Throws bad_input for one without, and as load_encoder and
// nn::require_kv_type do.
struct T5Model {
  std::unique_ptr<Encoder> encoder;
  std::unique_ptr<T5Decoder> decoder;
  int32_t start_token = 0;  // that the decoder begins with
};
T5Model load_t5(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device, const llm::WeightOptions& options,
                DType kv_type = DType::f32);

}  // namespace gabbro::encoder
