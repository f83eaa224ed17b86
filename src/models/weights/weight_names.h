// Names of tensors in both layouts: llama.cpp's, by which a family asks, and transformers'.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"

namespace gabbro::llm {

// A module of tensors in both layouts; "{}" is the number of the layer. A family has a table of them, and asks by the
// name of GGUF. If a name has several rows, the first whose tensor exists counts. If transformers has a tensor for
// each expert, "*" is the number of the expert.
struct WeightName {
  const char* gguf;          // "blk.{}.attn_q"
  const char* hugging_face;  // "model.layers.{}.self_attn.q_proj"
  bool whole = false;        // it has no ".weight" or ".bias" after that; GGUF's may have none either
};

// A table with the rows of `own`, then the rows of `common`.
template <size_t A, size_t B>
constexpr std::array<WeightName, A + B> with_names(const WeightName (&own)[A], const WeightName (&common)[B]) {
  std::array<WeightName, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = own[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = common[i];
  return all;
}

template <size_t A, size_t B>
constexpr std::array<WeightName, A + B> with_names(const WeightName (&own)[A],
                                                   const std::array<WeightName, B>& common) {
  std::array<WeightName, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = own[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = common[i];
  return all;
}

// The names that a tensor of GGUF may have in transformers' layout, the usual one first; of experts "*" is the number.
std::vector<std::string> transformers_names(std::span<const WeightName> names, const std::string& name);

// The name in the checkpoint of a tensor that a family asks for: that of a tensor that is there, else the one that is
// missing. Without a table the files' names are used. Throws std::logic_error where the table has none.
std::string weight_name(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name);
bool has_weight(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name);

// The name in the checkpoint with "*" in place of the number of an expert or row, where each is a tensor.
std::string weight_pattern(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name);
// `pattern` with a number in place of "*".
std::string numbered(std::string pattern, int64_t number);

}  // namespace gabbro::llm
