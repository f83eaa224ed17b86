// Dropout (Srivastava et al. 2014): in training, elements become 0 with probability p, and the others x / (1 - p). The
// factory's generator chooses them, differently in each call.
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// x unchanged if `training` is false or p is 0. The mask has the shape `mask`, which broadcasts to x's. Throws
// bad_input if p is not a probability.
Tensor dropout(const Tensor& x, double p, bool training, Generator& generator, const Shape& mask);

// Throws bad_input "[op] ..." for numbers outside of [0, 1] and NaN.
void require_probability(const char* op, double p);

class Dropout : public Layer {
 public:
  explicit Dropout(const Factory& make, double p = 0.5);
  Tensor forward(const Tensor& x) override;
  double p() const { return p_; }
  void set_p(double p);

 private:
  std::shared_ptr<Generator> generator_;
  double p_;
};

// Whole channels of x [N, C, ...] (Tompson et al. 2015).
class Dropout2d : public Layer {
 public:
  explicit Dropout2d(const Factory& make, double p = 0.5);
  Tensor forward(const Tensor& x) override;
  double p() const { return p_; }
  void set_p(double p);

 private:
  std::shared_ptr<Generator> generator_;
  double p_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
