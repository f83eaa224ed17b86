// Selective state spaces: Mamba (arXiv 2312.00752), whose channels each have a state, and Mamba 2 (arXiv 2405.21060),
// whose heads do. The cache has the last inputs of the convolution and the states.
// Fields that only Gabbro writes: ssm.time_step_min, ssm.time_step_max and ssm.dt_b_c_rms_epsilon.
#pragma once

#include <functional>
#include <limits>

#include "src/models/llm/blocks.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/token_mixer.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {

struct StateSpaceSizes {
  int64_t inner = 0;        // I: channels
  int64_t taps = 0;         // K: of the convolution
  int64_t states = 0;       // N
  int64_t rank = 0;         // of the step sizes; Mamba 2: its heads H
  int64_t groups = 1;       // G of Mamba 2: heads that share b and c
  bool normalized = false;  // Mamba 1: step sizes, b and c by their root mean square (Falcon Mamba)
  float norm_epsilon = 0;   // of those means
  // Mamba 2: bounds of the step sizes, and what Falcon H1 chooses.
  float shortest = 0, longest = std::numeric_limits<float>::infinity();
  bool gate_last = false;                     // the norm is before the gate
  std::function<float(int64_t)> in_factor{};  // on rows of transformers' ssm_in, which GGUF's has in it
  float out_factor = 1;                       // and on the rows of ssm_out

  int64_t head_rows() const { return inner / rank; }  // P of Mamba 2
};

class Mamba : public TokenMixer {
 public:
  Mamba(const DecoderConfig& config, const StateSpaceSizes& sizes, WeightSource& weights, const std::string& prefix);

  nn::CacheLayer cache() const override;
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  StateSpaceSizes sizes_;               // with this device's channels
  const TensorShard* shard_ = nullptr;  // null: all channels
  std::shared_ptr<nn::Linear> ssm_in_;  // [2·I, C]
  Tensor ssm_conv1d_;                   // [I, K]
  Tensor ssm_conv1d_b_;                 // [I] or undefined
  std::shared_ptr<nn::Linear> ssm_x_;   // [rank + 2·N, I]
  std::shared_ptr<nn::Linear> ssm_dt_;  // [I, rank]
  Tensor ssm_a_;                        // [I, N]
  Tensor ssm_d_;                        // [I]
  // Weights of norms; undefined: there are none.
  Tensor ssm_dt_norm_;                   // [rank]
  Tensor ssm_b_norm_, ssm_c_norm_;       // [N]
  std::shared_ptr<nn::Linear> ssm_out_;  // [C, I]
};

class Mamba2 : public TokenMixer {
 public:
  Mamba2(const DecoderConfig& config, const StateSpaceSizes& sizes, WeightSource& weights, const std::string& prefix);

  nn::CacheLayer cache() const override;
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  int64_t convolved() const { return sizes_.inner + 2 * sizes_.groups * sizes_.states; }
  void load_norm_of_groups(WeightSource& weights, const std::string& name, const StateSpaceSizes& all,
                           const HeadRange& own);
  Tensor unit_groups(const Tensor& y, const Tensor& gate) const;

  float epsilon_;
  StateSpaceSizes sizes_;               // with this device's heads and groups
  const TensorShard* shard_ = nullptr;  // null: all heads
  std::shared_ptr<nn::Linear> ssm_in_;  // [I + (I + 2·G·N) + H, C]
  Tensor ssm_conv1d_;                   // [I + 2·G·N, K]
  Tensor ssm_conv1d_b_;                 // [I + 2·G·N] or undefined
  Tensor ssm_dt_b_;                     // [H]
  Tensor ssm_a_;                        // [H, 1]
  Tensor ssm_d_;                        // [H, 1]
  Tensor ssm_norm_;                     // [G, I/G] or undefined
  Tensor ones_;                         // [I/G]
  // If several devices have channels of a group: 1 at this device's among all groups [G], and the channels of a group.
  Tensor own_group_;
  int64_t group_width_ = 0;
  std::shared_ptr<nn::Linear> ssm_out_;  // [C, I]
};

Tensor softplus(const Tensor& x);  // log(1 + eˣ)

// The bounds of the step sizes, where config.json has a finite upper one, and GGUF both; checks the heads and groups.
void read_step_bounds(const ConfigReader& fields, StateSpaceSizes& sizes);
// The activation of a state space's inputs and gates.
void require_silu(const ConfigReader& fields, FieldName name);
void check_heads(const ConfigReader& fields, FieldName heads, FieldName groups, const StateSpaceSizes& sizes);
// The width of a head, which follows from the other sizes.
void check_width(const ConfigReader& fields, FieldName width, const StateSpaceSizes& sizes);
// The sizes as Granite's and Falcon's hybrids have them. `inner`: the field of I, by default twice the embedding.
StateSpaceSizes read_mamba2_sizes(const ConfigReader& fields, FieldName inner, int64_t embedding);
// The fields of Mamba 2 as GGUF has them.
void write_state_space(const StateSpaceSizes& sizes, GgufFields& fields);

}  // namespace gabbro::llm
