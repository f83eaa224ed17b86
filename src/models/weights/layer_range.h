// A range of a model's layers, which one of several devices holds, and the tensors that belong to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/models/weights/weight_names.h"

namespace gabbro::llm {

struct LayerRange {
  int64_t first = 0, end = 0;                // layers [first, end)
  bool has_first = false, has_last = false;  // the range begins, or ends, the model: it has the embeddings, or the head

  bool has(int64_t layer) const { return first <= layer && layer < end; }
  int64_t count() const { return end - first; }
};

inline constexpr int64_t kNoLayer = -1;

// The number in a name of GGUF, "blk.3.attn_q.weight"; kNoLayer: the tensor is of no layer.
int64_t layer_of(std::string_view name);
// The number in a tensor's name in the checkpoint, as layer_of().
int64_t stored_layer_of(std::string_view name, const Checkpoint& checkpoint, std::span<const WeightName> names);

// The matrices outside of layers, by their names in the checkpoint.
struct EndMatrices {
  std::string embeddings, head;  // the same name where the embeddings are the head too

  EndMatrices(const Checkpoint& checkpoint, std::span<const WeightName> names);
  bool tied() const { return embeddings == head; }
};

// Whether a range needs a tensor, by its name in the checkpoint.
bool holds_stored(const LayerRange& range, const EndMatrices& ends, std::string_view name, int64_t layer);

}  // namespace gabbro::llm
