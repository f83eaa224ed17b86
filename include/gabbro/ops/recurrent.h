// One layer of a recurrent network in one direction, over all its steps: one op, so that a backend can keep the
// weights in its caches from step to step.
#pragma once

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

enum class RecurrentCell : int64_t { kTanh, kRelu, kLstm, kGru };

// How many blocks of H rows the weights have: 1, 1, 4 (i, f, g, o) and 3 (r, z, n).
constexpr int64_t recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}

struct RecurrentLayer {
  Tensor gates;   // [T, B, G · H]: x · weight_ihᵀ + bias_ih, of all steps
  Tensor weight;  // [G · H, H]
  Tensor bias;    // [G · H]
  Tensor h;       // [B, H]: the first state
  Tensor c;       // [B, H]: of an LSTM alone
  RecurrentCell cell = RecurrentCell::kTanh;
  bool reversed = false;  // from the last step to the first
};

// The states before the first step and after each one, in the order of time: with `reversed`, the first state is the
// last row.
struct RecurrentStates {
  Tensor h, c;  // [T + 1, B, H]; c of an LSTM alone
};

// All tensors have one floating dtype. Throws bad_input "[recurrent] ..." for other dtypes and shapes.
RecurrentStates recurrent(const RecurrentLayer& layer);

}  // namespace gabbro
#pragma GCC visibility pop
