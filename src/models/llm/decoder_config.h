// The configuration of a decoder-only transformer: the sizes and the choices in which families differ.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "src/models/config/rope_config.h"
#include "src/models/llm/model_shape.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

enum class NormKind { kRms, kLayer };
enum class NormPlacement { kBefore, kAfter, kAround };  // of attention and of the feed-forward block
enum class Activation { kSilu, kGelu, kGeluTanh, kQuickGelu, kRelu, kReluSquared, kTanh, kClampedSwish, kXielu };

// Norms of queries and keys: none, over each head with a weight [D], with a weight for each head [H, D] or without one,
// or over all heads together with a weight [H·D].
enum class QkNorm { kNone, kHead, kEachHead, kUnweighted, kAllHeads };

// How a router makes scores of its logits: over all experts, each by itself, over the chosen ones, each of the chosen
// ones by itself, or as Mixture::route_by_margin() says.
enum class RouterScore { kSoftmax, kSigmoid, kChosenSoftmax, kChosenSigmoid, kMargin };

// The gate and the factor of a gated block of gpt-oss: min(g, limit) · sigmoid(alpha · min(g, limit)), and the other
// half held within ±limit, plus 1.
struct ClampedSwish {
  float alpha = 1.702f;
  float limit = 7;
};

// The numbers of a layer's xIELU (arXiv 2411.13010): positive · x² + beta · x above 0, else
// negative · (e^min(x, epsilon) - 1 - x) + beta · x.
struct Xielu {
  float positive = 0.8f, negative = 0.8f;
  float beta = 0.5f, epsilon = -1e-6f;
};

// A mixture of experts (mixture.h), whose sizes are in ModelShape.
struct MixtureConfig {
  RouterScore score = RouterScore::kSoftmax;
  float margin = 0;          // of kMargin, relative to the best logit
  bool normalized = false;   // the weights of a token's experts are made to add up to 1
  float scale = 1;           // on these weights
  bool router_bias = false;  // on the logits
  bool biases = false;       // of the experts' matrices
  ClampedSwish swish;        // of Activation::kClampedSwish
  int64_t groups = 1;        // of experts; all experts of a token are in its best few groups
  int64_t groups_used = 1;
  int64_t shared_feed_forward = 0;  // of the shared expert, if the model has one
  bool scaled_inputs = false;       // the weights of a token's experts are on what these get, not on what they give
  bool choice_bias = true;          // exp_probs_b counts if it exists
  bool choice_bias_in_row = false;  // transformers stores exp_probs_b as [1, E]
};

// Factors that transformers applies next to its matrices, and that GGUF's matrices have in them (Falcon H1).
struct MatrixFactors {
  float token_embd = 1, output = 1;
  float attn_q = 1, attn_k = 1, attn_v = 1, attn_output = 1;
  float ffn_gate = 1, ffn_down = 1;  // of a dense block
};

// In what the layers of a model differ.
struct LayerKind {
  int64_t window = 0;       // of attention, in tokens; 0: none
  int64_t chunk = 0;        // tokens that attention does not reach beyond the begin of; 0: none
  bool rotated = true;      // whether queries and keys get rotary embeddings
  bool local_rope = false;  // by local_rope instead of rope
  bool tempered = false;    // whether DecoderConfig::temperature is on its queries

  // Tokens that a token attends to at most; 0: all. The last token of a chunk has the most.
  int64_t reach() const { return window > 0 && chunk > 0 ? std::min(window, chunk) : std::max(window, chunk); }
};

// Factors of queries by position, for long contexts (arXiv 2501.19399, equation 2, in steps as in Llama 4):
// 1 + scale · log(1 + floor((position + offset) / length)).
struct AttentionTemperature {
  float scale = 0;
  int64_t length = 1;  // tokens of a step
  int64_t offset = 0;
};

struct DecoderConfig {
  ModelShape shape;
  NormKind norm = NormKind::kRms;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 1e-5f;
  float norm_offset = 0;  // transformers' weights of norms are smaller than GGUF's by this (Gemma: 1)
  // Attention and feed-forward block read the same stream, and are added to it together; `shared_norm`: also its norm.
  bool parallel = false;
  bool shared_norm = false;

  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_last = false;   // after rotary embeddings
  bool stacked_norms = false;  // transformers stores a tensor for each head
  AttentionTemperature temperature;
  float attention_scale = 0;    // on the scores
  float attention_softcap = 0;  // 0: none
  bool attention_sinks = false;
  // Attention with linear biases (arXiv 2108.12409): scores get slope · distance, the slopes of heads being powers of
  // 2^(-alibi / heads); 0: none. `alibi_scaled`: biases are multiplied by attention_scale, as the scores.
  float alibi = 0;
  bool alibi_scaled = false;
  bool gated_attention = false;  // attn_q has after each head's query a gate, whose sigmoid is on what the head gives
  std::vector<LayerKind> layers;
  bool rotated_layers_given = false;  // the family has others where GGUF does not say which layers rotate
  ModelRope rope;
  std::optional<ModelRope> local_rope;
  bool learned_positions = false;  // embeddings of positions are added to token embeddings
  int64_t position_offset = 0;     // rows before them in transformers' table
  bool embedding_norm = false;     // token_embd_norm is on the embeddings
  bool plain_norms = false;        // norms have no weights

  Activation activation = Activation::kSilu;
  std::vector<Xielu> xielu;  // by layer, of kXielu
  bool gated = true;
  MixtureConfig mixture;
  std::vector<bool> mixed_layers;  // those with a mixture, where config.json says it; empty: those with a router

  float embedding_scale = 1;           // on the token embeddings
  bool embedding_scale_given = false;  // by a field; else the family computes it
  float residual_scale = 1;            // on what each block adds to the stream
  float logit_scale = 1;
  bool logit_scale_given = false;  // the family has another one where GGUF has none
  bool logits_divided = false;     // the field of GGUF is a divisor
  float logit_softcap = 0;         // 0: none
  bool softcaps_given = false;     // the family has some where GGUF has none
  // Whether the head is the embeddings where the files have no output.weight; false: they have to have one.
  bool may_be_tied = true;

  // Names and layouts of tensors that differ from the usual ones.
  MatrixFactors factors;
  const char* attn_norm_name = "attn_norm";
  const char* ffn_norm_name = "ffn_norm";
  const char* output_norm_name = "output_norm";
  int64_t value_length = 0;         // attention.value_length of GGUF; 0: D
  bool paired_heads = false;        // GGUF's q and k have the rows of a rotated pair next to each other
  TransformersLayout fused_rows;    // of attn_qkv
  bool transposed_linears = false;  // transformers stores matrices of layers as [columns, rows]
  bool transposed_experts = false;  // and matrices of experts
  // transformers stores gate and up as one matrix, the gate first, where GGUF has two: of the shared expert, or of a
  // dense block.
  bool joined_gate = false;
  bool interleaved_experts = false;  // gate and up are every other row of one matrix; else its first and second half
};

constexpr FieldName kExpertCount{"expert_count", "num_local_experts|num_experts|n_routed_experts|moe_num_experts"};

// The fields that most families share: sizes, the epsilon of the norms, scale of attention, rotary embeddings, windows
// by read_layers without a pattern. `names` are the family's, for the vocabulary's size. Throws bad_input that names
// the file and the field where a size is missing, out of range, or does not fit the others.
// The same of a dense model alone, and of one that may be a mixture of experts (read_mixture).
DecoderConfig read_decoder_config(const ConfigReader& fields, std::span<const WeightName> names);
enum class ValueLength { kSame, kAny };  // attention.value_length of GGUF: that of keys, or the family's affair
DecoderConfig read_mixed_config(const ConfigReader& fields, std::span<const WeightName> names,
                                ValueLength values = ValueLength::kSame);

// The layers with attention of a model that mixes them with others, as GGUF has them: those with KV heads; all where it
// has no list of all layers.
std::vector<bool> read_layers_with_heads(const ConfigReader& fields, int64_t layers);

// Some of these fields, for families without attention: whether the head may be the embeddings, the rows of these, and
// the epsilon of norms.
bool read_may_be_tied(const ConfigReader& fields);
int64_t read_vocabulary(const ConfigReader& fields, std::span<const WeightName> names);
float read_norm_epsilon(const ConfigReader& fields);

float default_attention_scale(const ModelShape& shape);  // 1/sqrt(D)

// The layers with a window if config.json has no layer_types: [first, end) without every `pattern`-th (0: all,
// 1: none). GGUF has another pattern.
struct WindowRule {
  int64_t pattern = 0;
  int64_t first = 0, end = int64_t{1} << 32;
};

// One kind for each layer: windows from layer_types, else by the rule.
std::vector<LayerKind> read_layers(const ConfigReader& fields, int64_t layers, WindowRule rule);

Tensor activated(Activation activation, const Tensor& x);

// hidden_act of config.json and its other names, and hidden_activation of GGUF; `other` if the file has neither.
const char* activation_name(Activation activation);  // "silu"; null: it belongs to the architecture
Activation read_activation(const ConfigReader& fields, Activation other);

// Rows of a fused matrix of transformers that has for each group of heads its queries, a key and a value, while GGUF
// has all queries, then all keys, then all values.
TransformersLayout rows_by_group(const ModelShape& shape);

// The names that most families share.
inline constexpr WeightName kDecoderNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"},
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
};

}  // namespace gabbro::llm
