// The texts of one step of an encoder, and attention among the tokens of each.
#pragma once

#include <span>
#include <vector>

#include "src/ops/ops.h"

namespace gabbro::encoder {

struct EncoderText {
  std::vector<int32_t> ids;
  std::vector<int32_t> types{};  // of each token: 1 in the second text of a pair; empty: all 0
  int64_t prompt = 0;            // tokens at the beginning that pooling may leave out
};

// All tokens in sequence, without padding: T of B texts; the longest has L. Only attention arranges
// them in a grid [B, L], whose empty cells no token attends to.
struct EncoderBatch {
  std::vector<int64_t> lengths;  // of the texts
  std::vector<int64_t> prompts;
  int64_t tokens = 0, longest = 0;
  Tensor ids, positions, types;  // i32 [T]
  Tensor grid;      // i32 [B·L]: the token of each cell; undefined where all texts have L tokens, as below
  Tensor cells;     // i32 [T]: the cell of each token
  Tensor occupied;  // bool [B, 1, 1, L]

  int64_t texts() const { return std::ssize(lengths); }
};

// Throws std::logic_error for no texts, or one without tokens.
EncoderBatch make_batch(const DevicePointer& device, std::span<const EncoderText> texts);

struct EncoderAttention {
  float scale = 1;
  int64_t window = 0;  // tokens on each side that are seen; 0: all
  bool causal = false;
  Tensor slopes;             // f32 [H]: ALiBi; or undefined
  int64_t most_queries = 0;  // at a time; 0: query_chunk(), and few where a window is narrow
  Tensor distance_bias;      // f32 [2L - 1, H]: what is added at the distances j - i = -(L - 1) to L - 1; or undefined
};

// Queries that are computed at a time: their scores take 256 MiB at most, where one query's do.
int64_t query_chunk(const EncoderBatch& batch, int64_t heads);

// softmax(q·kᵀ · scale + bias)·v within each text (Vaswani et al. 2017): q [T, H, D], k, v [T, G, D] -> [T, H·D].
Tensor attend(const EncoderBatch& batch, const Tensor& q, const Tensor& k, const Tensor& v,
              const EncoderAttention& options);

}  // namespace gabbro::encoder
