// All ops: the public ones, and those of the paged KV cache, which language models alone use. Each checks its arguments
// (bad_input "[op] ...") and records a node. Letters of shapes are those of docs/words.md.
#pragma once

#include "gabbro/ops.h"
#include "src/graph/node.h"
#include "src/ops/promotion.h"

namespace gabbro {

// One layer of the paged KV cache (docs/fused_ops.md): the tensors are states, `kv_write` gives their next versions.
struct KvLayer {
  Tensor keys;          // [pages, G, D, P] f16 or i8
  Tensor values;        // [pages, G, P, D]
  Tensor key_scales;    // with i8: f16 [pages, G, D/32, P]
  Tensor value_scales;  // with i8: f16 [pages, G, P, D/32]
};

// Positions of the tokens of one step.
struct TokenPositions {
  Tensor positions;   // i32 [T], in their sequence
  Tensor sequence;    // i32 [T], row of the page table
  Tensor page_table;  // i32 [B, M]
};

KvLayer kv_write(const KvLayer& cache, const Tensor& k, const Tensor& v,
                 const TokenPositions& places);  // k, v [T, G, D]

struct AttentionOptions {
  float scale = 1;     // on the scores; usually 1/sqrt(D)
  int64_t window = 0;  // 0: all keys up to the token's own; else only the last `window`
  float softcap = 0;   // 0: none; else s -> softcap · tanh(s / softcap) (Gemma 2)
};
// Causal attention of q [T, H, D] over the cache (which already holds the keys of these tokens) -> [T, H, D].
Tensor attention(const Tensor& q, const KvLayer& cache, const TokenPositions& places, const AttentionOptions& options);

}  // namespace gabbro
