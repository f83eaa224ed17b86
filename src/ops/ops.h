// All ops: the public ones, and the ops of the paged KV cache, which only language models use. Each checks its
// arguments (bad_input "[op] ...") and records a node. docs/words.md explains the letters of shapes.
#pragma once

#include "gabbro/ops.h"
#include "src/graph/node.h"
#include "src/ops/promotion.h"

namespace gabbro {

// One layer of the paged KV cache (docs/design/fused_ops.md): the tensors are states, `kv_write` gives their next
// versions.
struct KvLayer {
  Tensor keys;          // [pages, G, D, P] f32, bf16, f16 or i8; u8 [pages, G, D/2, P] (kv_type.h)
  Tensor values;        // [pages, G, P, D]; u8 [pages, G, P, D/2]
  Tensor key_scales;    // with i8 and u8: f16 [pages, G, D/32, P]
  Tensor value_scales;  // with i8 and u8: f16 [pages, G, P, D/32]
};

// Positions of the tokens of one step.
struct TokenPositions {
  Tensor positions;       // i32 [T], in their sequence
  Tensor sequence;        // i32 [T], row of the page table
  Tensor page_table;      // i32 [B, M]
  Tensor slots;           // i32 [B]: where each row's recurrent states are; undefined for models without such states
  bool separate = false;  // no two tokens are of one sequence
};

KvLayer kv_write(const KvLayer& cache, const Tensor& k, const Tensor& v,
                 const TokenPositions& places);  // k, v [T, G, D]

struct AttentionOptions {
  float scale = 1;     // on the scores; usually 1/sqrt(D)
  int64_t window = 0;  // 0: all keys up to the token's own; else only the last `window`
  float softcap = 0;   // 0: none; else s -> softcap · tanh(s / softcap) (Gemma 2)
  int64_t chunk = 0;   // 0: none; else only keys of the same chunk of `chunk` positions (Llama 4)
  Tensor sinks{};      // f32 [H] or undefined: a score that each softmax has besides, without a value (gpt-oss)
};
// Causal attention of q [T, H, D] over the cache (which already holds the keys of these tokens) -> [T, H, D].
Tensor attention(const Tensor& q, const KvLayer& cache, const TokenPositions& places, const AttentionOptions& options);

// One layer of a paged cache of latents, one vector a token for all heads (DeepSeek-V2, arXiv 2405.04434): states.
struct LatentLayer {
  Tensor latents;  // [pages, 1, P, D], elements as of KvLayer
  Tensor scales;   // with i8 and u8: f16 [pages, 1, P, D/32]
};

LatentLayer latent_write(const LatentLayer& cache, const Tensor& x, const TokenPositions& places);  // x [T, D]

struct LatentAttentionOptions {
  float scale = 1;     // on the scores
  int64_t values = 0;  // V: the first elements of a latent are its value, all of them its key
};
// Causal attention of q [T, H, D] over the latents -> [T, H, V].
Tensor latent_attention(const Tensor& q, const LatentLayer& cache, const TokenPositions& places,
                        const LatentAttentionOptions& options);

// The sum of the x of all ranks of a group (src/backend/group.h), in f32 in the order of the ranks. f32, f16 or bf16.
// `sums` is Group::rank_sums(). Each rank has to evaluate the same sums in the same order, in a separate thread.
Tensor rank_sum(const Tensor& x, int64_t sums, size_t rank);

// The result of an op with recurrent states, and the next version of these, which are written in place. The tokens of a
// sequence follow each other in a step. A token at position 0 begins with states of zeros; one whose sequence is
// outside the table gives zeros, and changes nothing.
struct Recurrence {
  Tensor y;
  Tensor state;
};
// A causal convolution of each channel: x [T, C], weight f32 [C, K], bias [C] or undefined, and state f32
// [slots, C, K - 1], the inputs of the tokens before (the latest last) -> y [T, C].
Recurrence causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& state,
                       const TokenPositions& places);

// A selective state space (Mamba, arXiv 2312.00752; Mamba 2, arXiv 2405.21060), token by token:
//   state = exp(dt · a) · state + (dt · x) ⊗ b,  y = state · c
struct SelectiveScan {
  Tensor x;      // [T, H, P]
  Tensor dt;     // [T, H], above 0
  Tensor a;      // f32 [H, N], or [H, 1] for all N
  Tensor b, c;   // [T, G, N]; head h uses group h / (H/G)
  Tensor state;  // f32 [slots, H, P, N]
};
Recurrence selective_scan(const SelectiveScan& scan, const TokenPositions& places);  // y [T, H, P]

// Linear attention by the gated delta rule (arXiv 2412.06464, equation 10), token by token:
//   state = exp(decay) · state,  state += beta · (v - state · k) ⊗ k,  y = state · q
struct DeltaRule {
  Tensor q, k;         // [T, G, N]; head h uses group h / (H/G)
  Tensor v;            // [T, H, P]
  Tensor decay, beta;  // [T, H]
  Tensor state;        // f32 [slots, H, P, N]
};
Recurrence gated_delta_rule(const DeltaRule& rule, const TokenPositions& places);  // y [T, H, P]

}  // namespace gabbro
