#include "gabbro/nn/dropout.h"

#include "src/base/error.h"
#include "src/ops/rules.h"

namespace gabbro::nn {

void require_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw bad_input("[{}] a probability of {}", op, p);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator, const Shape& mask) {
  require_plain("dropout", x);
  require_probability("dropout", p);
  if (!training || p == 0) return x;
  if (!is_floating(x.dtype())) throw bad_input("[dropout] x is {}, not of a floating dtype", dtype_name(x.dtype()));
  const Tensor numbers = rand(generator.next_key(x.device()), mask);
  const Tensor kept = greater_equal(numbers, weak(numbers, p));
  return where(kept, p < 1 ? x / (1 - p) : x, weak(x, 0));
}

Dropout::Dropout(const Factory& make, double p) : generator_(make.generator), p_(p) {
  require_probability("dropout", p);
}

void Dropout::set_p(double p) {
  require_probability("dropout", p);
  p_ = p;
}

Tensor Dropout::forward(const Tensor& x) {
  require_defined("dropout", x);
  return dropout(x, p_, is_training(), *generator_, x.shape());
}

Dropout2d::Dropout2d(const Factory& make, double p) : generator_(make.generator), p_(p) {
  require_probability("dropout2d", p);
}

void Dropout2d::set_p(double p) {
  require_probability("dropout2d", p);
  p_ = p;
}

Tensor Dropout2d::forward(const Tensor& x) {
  require_defined("dropout2d", x);
  if (x.shape().rank() < 2) throw bad_input("[dropout2d] wants x [N, C, ...], not shape {}", x.shape().to_string());
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  std::fill(lengths.begin() + 2, lengths.end(), 1);
  return dropout(x, p_, is_training(), *generator_, Shape(lengths));
}

}  // namespace gabbro::nn
