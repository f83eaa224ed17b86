#include "src/ops/functions/smooth.h"

#include "src/graph/history.h"
#include "src/ops/gradient_rules.h"

namespace gabbro {

Tensor sqrt_of_squares(const Tensor& x) {
  if (!needs_gradient(x)) return sqrt(x);
  const Tensor zero = number_like(x, 0), is_zero = equal(x, zero);
  return where(is_zero, zero, sqrt(where(is_zero, number_like(x, 1), x)));
}

// max(x, 0) + log(1 + e^-|x|), with the case of x chosen by `where`: maximum and abs have other derivatives at 0.
Tensor log_one_plus_exp(const Tensor& x) {
  const Tensor zero = number_like(x, 0), above = greater(x, zero);
  return where(above, x, zero) + log1p(exp(where(above, neg(x), x)));
}

}  // namespace gabbro
