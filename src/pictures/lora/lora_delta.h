// The difference that an adapter makes to one layer at strength 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/pictures/lora/lora_file.h"

namespace gabbro::pictures {

// Values in rows; empty: none.
struct LoraDelta {
  // weight + up · down: of low rank, with alpha / rank in `up`.
  std::vector<float> down, up;  // [R, columns of the weight], [rows, R]
  int64_t rank = 0;
  std::vector<float> weight;  // of the weight's shape
  std::vector<float> bias;
};

struct LoraLayer {
  std::vector<int64_t> shape;  // of the weight: [N, K], [O, C, h, w], or [C] of a norm
  bool has_bias = false;
  std::function<std::vector<float>()> weight;  // the weight itself, for forms that depend on it
  std::function<std::vector<float>()> bias;
};

// LoRA (Hu et al. 2021), with a middle factor too; LoHa (Hyeon-Woo et al. 2021), LoKr (Yeh et al. 2023), DoRA of any of
// these (Liu et al. 2024): weight = magnitude · (W + delta) / ‖W + delta‖, of rows or columns as the magnitudes are;
// and whole differences. Throws bad_input that names the file and the tensor: one that has no place here, a missing
// factor, shapes that do not fit.
LoraDelta make_delta(const std::string& path, const LoraParts& parts, const LoraLayer& layer);

}  // namespace gabbro::pictures
