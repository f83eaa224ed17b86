// Histories of tensors for their gradients: leaves, and whether the thread records.
#pragma once

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Makes x, which nothing that needs a gradient was computed from, a leaf: what is computed from it from now on needs a
// gradient. Throws bad_input "[requires_grad] ..." for integers, bool, quantized and packed tensors, and for a tensor
// that has a history.
void require_gradient(const Tensor& x);
inline bool needs_gradient(const Tensor& x) { return x.needs_gradient(); }

// Whether histories are recorded in this thread; they are, unless a NoGrad lives.
bool gradients_enabled();

// Sets that for as long as it lives.
class GradientMode {
 public:
  explicit GradientMode(bool enabled);
  ~GradientMode();
  GradientMode(const GradientMode&) = delete;
  GradientMode& operator=(const GradientMode&) = delete;

 private:
  bool before_;
};
struct NoGrad : GradientMode {
  NoGrad() : GradientMode(false) {}
};

}  // namespace gabbro
#pragma GCC visibility pop
