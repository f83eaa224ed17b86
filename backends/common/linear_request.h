// Operands and attributes of a request of `linear` or `linear_fused` (docs/design/fused_ops.md). Compiled once, for no
// particular instruction set.
#pragma once

#include <cstdint>
#include <optional>

#include "gabbro/backend_abi.h"

namespace gabbro::abi {

enum class Epilogue : uint8_t { kNone, kAdd, kSiluMul };

// Inputs are x, the matrices, a bias for each if there are any, the norm's weight, the residual.
struct LinearOptions {
  int count = 1;  // matrices
  bool bias = false;
  bool norm = false;
  float epsilon = 0;
  Epilogue epilogue = Epilogue::kNone;

  int bias_at(int matrix) const { return 1 + count + matrix; }
  int norm_at() const { return 1 + count * (bias ? 2 : 1); }
  int residual_at() const { return norm_at() + (norm ? 1 : 0); }
};

// Whether a backend multiplies with this matrix of K columns.
using IsWeight = bool (*)(const TensorView& matrix, int64_t columns);

// Nothing where the request makes no sense, or a weight is refused.
std::optional<LinearOptions> read_linear_request(const KernelRequest& request, IsWeight is_weight);

}  // namespace gabbro::abi
