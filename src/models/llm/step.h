// The input of a forward pass of a language model: the tokens of one step.
#pragma once

#include <atomic>
#include <span>
#include <string_view>
#include <vector>

#include "src/models/kv_cache.h"

namespace gabbro::llm {

// The tokens of a step whose keys and values several sequences get: row `rows[w]` of the step is written to place w.
struct TokenCopies {
  Tensor rows;  // i32 [W]; undefined: each token is written to its own place alone
  TokenPositions places;
};

// The result of an operation inside of a layer.
struct OperationResult {
  std::string_view name;  // "attn_norm", "attn_q", "rope_q" ...
  Tensor value;           // [T, ...]
};

// The tokens of a sequence in a step, on the host: for models that compute each sequence by itself.
struct SequenceTokens {
  std::span<const int32_t> held;    // before the step
  std::span<const int32_t> tokens;  // of the step
  int64_t text_length = 0;          // the first tokens, of both together, that came in one step
  int64_t wanted = 0;               // of `tokens`: the last ones, whose logits are wanted
  int64_t slot = -1;                // of the cache's states and texts
};

// The tokens of one step.
struct Step {
  Tensor ids;                       // i32 [T]
  TokenPositions places;            // with the page table of the cache's first group
  std::vector<Tensor> page_tables;  // by group of the cache; empty: it has one
  Tensor output_rows;               // i32 [R]: the tokens whose logits are wanted; undefined: all of them
  // Branches of a tree, each a sequence: a token attends to one that has everything before it.
  TokenCopies copies{};
  // Gets the results of the layer's operations, in order; null: they are not wanted, and kernels may fuse them.
  std::vector<OperationResult>* operations = nullptr;

  std::vector<SequenceTokens> sequences{};
  const std::atomic<bool>* cancel = nullptr;  // ends the evaluations within LanguageModel::forward: kInterrupted

  // The places in the cache of a group of layers.
  TokenPositions places_in(size_t group) const { return in_group(places, group); }
  TokenPositions copies_in(size_t group) const { return in_group(copies.places, group); }
  TokenPositions in_group(TokenPositions all, size_t group) const {
    if (!page_tables.empty()) all.page_table = page_tables[group];
    return all;
  }

  const Tensor& noted(std::string_view name, const Tensor& value) const {
    if (operations != nullptr) operations->push_back({name, value});
    return value;
  }
};

}  // namespace gabbro::llm
