// The llama family: Llama, Mistral, SmolLM, Granite and others that share the graph.
#pragma once

#include <vector>

#include "src/models/llm/llama_config.h"
#include "src/models/llm/weights.h"

namespace gabbro::llm {

class Llama : public LanguageModel {
 public:
  Llama(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);

  const ModelShape& shape() const override { return config_.shape; }
  Tensor forward(const Step& step, const nn::KvCache& cache) const override;

 private:
  // Fields are named as the tensors of the file: blk.N.attn_q.weight and so on.
  struct Layer {
    Tensor attn_norm;            // [C]
    nn::Projection attn_q;       // [H·D, C]
    nn::Projection attn_k;       // [G·D, C]
    nn::Projection attn_v;       // [G·D, C]
    nn::Projection attn_output;  // [C, H·D]
    Tensor ffn_norm;             // [C]
    nn::Projection ffn_gate;     // [F, C]
    nn::Projection ffn_up;       // [F, C]
    nn::Projection ffn_down;     // [C, F]
  };

  Tensor layer(const Layer& w, Tensor x, const Step& step, KvLayer cache, const Tensor& rows) const;
  Tensor heads(const Tensor& x) const;  // [T, n·D] -> [T, n, D]
  Tensor residual(const Tensor& x, const Tensor& update) const;
  Tensor scaled(const Tensor& x, float factor) const;

  LlamaConfig config_;
  RopeOptions rope_;
  Tensor inverse_frequencies_;  // [R/2]
  Tensor token_embd_;           // [V, C]
  std::vector<Layer> layers_;
  Tensor output_norm_;     // [C]
  nn::Projection output_;  // [V, C]; the token embeddings again where the file has no own head
};

}  // namespace gabbro::llm
