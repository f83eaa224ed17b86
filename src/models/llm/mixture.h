// Mixture of experts: a feed-forward block. Each token runs the few experts that a router chooses, and one that
// all tokens share, if there is one.
#pragma once

#include <span>

#include "src/models/config/config_reader.h"
#include "src/models/llm/decoder_config.h"
#include "src/models/weights/streamed_weights.h"

namespace gabbro::llm {

struct GgufFields;  // gguf_fields.h

// The names that most families share.
inline constexpr WeightName kMixtureNames[] = {
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"},
    {"blk.{}.exp_probs_b", "model.layers.{}.mlp.gate.e_score_correction_bias", true},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.*.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.*.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.*.down_proj"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.down_proj", true},
    {"blk.{}.ffn_gate_inp_shexp", "model.layers.{}.mlp.shared_expert_gate"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_expert.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_expert.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_expert.down_proj"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_experts.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_experts.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_experts.down_proj"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.shared_mlp.input_linear"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.shared_mlp.input_linear"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.shared_mlp.output_linear"},
};
inline constexpr auto kMixtureDecoderNames = with_names(kMixtureNames, kDecoderNames);

// Reads the sizes and the router's fields into `config`, whose mixture has the family's defaults. Dense where the
// checkpoint says that there are no experts.
void read_mixture(const ConfigReader& fields, DecoderConfig& config);
// The first layers of config.json are dense, as many as the field says.
void read_leading_dense(const ConfigReader& fields, FieldName count, DecoderConfig& config);
// Every n-th layer of config.json is mixed, but for those that are listed (Qwen).
void read_sparse_steps(const ConfigReader& fields, DecoderConfig& config);
void write_mixture_fields(const DecoderConfig& config, GgufFields& fields);

class Mixture {
 public:
  // Whether a layer, whose prefix is "blk.<layer>.", has a router; the others are dense.
  static bool is_in(const DecoderConfig& config, const WeightSource& weights, const std::string& prefix, int64_t layer);

  Mixture(const DecoderConfig& config, WeightSource& weights, const std::string& prefix);

  // [T, C] -> [T, C]. With experts that are read by need it computes `h`, and waits for them.
  Tensor operator()(const Tensor& h) const;
  // Slots of experts that are read by need; null: all are there.
  const ExpertSlots* slots() const { return slots_.get(); }
  // The experts that it chooses for h [T, C]: i32 [T, U].
  Tensor chosen(const Tensor& h) const { return route(linear(h, ffn_gate_inp_, ffn_gate_inp_b_)).ids; }
  // Some of these, which are computed, are read before they are needed. Only where there are slots().
  void expect(const Tensor& ids) const;

 private:
  struct Routing {
    Tensor ids;      // i32 [T, U]
    Tensor weights;  // [T, U]
  };

  // The experts of tokens, and where they are.
  struct Choice {
    Tensor ids;         // i32 [T, U]
    Tensor slots;       // i32 [T, U]: their numbers in the matrices
    Tensor weights;     // [T, U, 1]
    int64_t count = 0;  // of experts in the matrices
  };

  Routing route(const Tensor& logits) const;
  Routing route_by_margin(const Tensor& logits) const;
  Tensor in_best_groups(const Tensor& choice) const;
  Tensor routed(const Tensor& h, const Routing& routing) const;
  Tensor run_experts(const Tensor& h, const Choice& of) const;
  Tensor run_by_need(const Tensor& h, const Choice& all) const;
  Tensor run_pairs(const Tensor& h, const Choice& all, const std::vector<int32_t>& pairs,
                   const std::vector<int32_t>& at) const;
  Tensor gated(const Tensor& gate, const Tensor& up) const;
  Tensor of_experts(const Tensor& x, const ExpertWeights& weights, const Choice& of) const;
  Tensor with_bias(const Tensor& y, const Tensor& bias, const Tensor& ids) const;

  MixtureConfig config_;
  Activation activation_;
  int64_t experts_, used_;
  std::shared_ptr<ExpertSlots> slots_;      // of the matrices of experts; null: they have all
  Tensor ffn_gate_inp_;                     // [E, C]
  Tensor ffn_gate_inp_b_;                   // [E] or undefined
  Tensor exp_probs_b_;                      // [E] or undefined
  ExpertWeights ffn_gate_exps_;             // [E·F, C]
  ExpertWeights ffn_up_exps_;               // [E·F, C]
  ExpertWeights ffn_down_exps_;             // [E·C, F]
  Tensor ffn_gate_exps_b_, ffn_up_exps_b_;  // [E, F] or undefined
  Tensor ffn_down_exps_b_;                  // [E, C] or undefined
  // The shared expert; undefined: there is none.
  Tensor ffn_gate_inp_shexp_;                   // [C] or undefined
  std::shared_ptr<nn::Linear> ffn_gate_shexp_;  // [S, C]
  std::shared_ptr<nn::Linear> ffn_up_shexp_;    // [S, C]
  std::shared_ptr<nn::Linear> ffn_down_shexp_;  // [C, S]
};

}  // namespace gabbro::llm
