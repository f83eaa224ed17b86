// Activations that ops.h does not have as functions, and all of them as layers, named as in torch.nn.
#pragma once

#include <array>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// Elementwise, of any float and in its dtype.
Tensor relu6(const Tensor& x);                            // min(max(x, 0), 6)
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // x, or slope · x below 0
Tensor elu(const Tensor& x, double alpha = 1);            // x, or alpha · (e^x - 1) below 0 (Clevert et al. 2016)
Tensor celu(const Tensor& x, double alpha = 1);           // x, or alpha · (e^(x / alpha) - 1) (Barron 2017)
Tensor selu(const Tensor& x);                             // Klambauer et al. 2017
Tensor mish(const Tensor& x);                             // x · tanh(softplus(x)) (Misra 2020)
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);  // log(1 + e^(βx)) / β; x from βx > threshold
Tensor softsign(const Tensor& x);                                          // x / (1 + |x|)
Tensor log_sigmoid(const Tensor& x);
Tensor hard_tanh(const Tensor& x, double low = -1, double high = 1);
Tensor hard_sigmoid(const Tensor& x);            // relu6(x + 3) / 6
Tensor hard_swish(const Tensor& x);              // x · hard_sigmoid(x) (Howard et al. 2019)
Tensor glu(const Tensor& x, int64_t axis = -1);  // first half · sigmoid(second half) (Dauphin et al. 2017)

// A layer without parameters, of the function that it is named after.
template <Tensor (*function)(const Tensor&)>
class Elementwise : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return function(x); }
};
using ReLU = Elementwise<gabbro::relu>;
using ReLU6 = Elementwise<relu6>;
using SELU = Elementwise<selu>;
using SiLU = Elementwise<gabbro::silu>;
using Mish = Elementwise<mish>;
using Sigmoid = Elementwise<gabbro::sigmoid>;
using Tanh = Elementwise<gabbro::tanh>;
using Softsign = Elementwise<softsign>;
using LogSigmoid = Elementwise<log_sigmoid>;
using Hardsigmoid = Elementwise<hard_sigmoid>;
using Hardswish = Elementwise<hard_swish>;

// The same for a function of one more number.
template <class Number, Tensor (*function)(const Tensor&, Number)>
class ElementwiseBy : public Layer {
 public:
  explicit ElementwiseBy(Number number) : number_(number) {}
  Number number() const { return number_; }
  Tensor forward(const Tensor& x) override { return function(x, number_); }

 private:
  Number number_;
};
struct LeakyReLU : ElementwiseBy<double, leaky_relu> {
  explicit LeakyReLU(double slope = 0.01) : ElementwiseBy(slope) {}
};
struct ELU : ElementwiseBy<double, elu> {
  explicit ELU(double alpha = 1) : ElementwiseBy(alpha) {}
};
struct CELU : ElementwiseBy<double, celu> {
  explicit CELU(double alpha = 1) : ElementwiseBy(alpha) {}
};
struct GELU : ElementwiseBy<bool, gabbro::gelu> {
  explicit GELU(bool approximate = false) : ElementwiseBy(approximate) {}  // by tanh
};
struct Softmax : ElementwiseBy<int64_t, gabbro::softmax> {
  explicit Softmax(int64_t axis = -1) : ElementwiseBy(axis) {}
};
struct LogSoftmax : ElementwiseBy<int64_t, gabbro::log_softmax> {
  explicit LogSoftmax(int64_t axis = -1) : ElementwiseBy(axis) {}
};
struct GLU : ElementwiseBy<int64_t, glu> {
  explicit GLU(int64_t axis = -1) : ElementwiseBy(axis) {}
};

class Softplus : public Layer {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  double beta() const { return beta_; }
  double threshold() const { return threshold_; }
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }

 private:
  double beta_, threshold_;
};

class Hardtanh : public Layer {
 public:
  explicit Hardtanh(double low = -1, double high = 1) : low_(low), high_(high) {}
  double low() const { return low_; }
  double high() const { return high_; }
  Tensor forward(const Tensor& x) override { return hard_tanh(x, low_, high_); }

 private:
  double low_, high_;
};

// Leaky, with a slope that is learned: one, or one for each channel of x [N, C, ...] (He et al. 2015).
class PReLU : public Layer {
 public:
  explicit PReLU(const Factory& make, int64_t parameters = 1, double slope = 0.25);
  Tensor forward(const Tensor& x) override;

  Tensor weight;  // [1] or [C]
};

// Axes first to last as one.
class Flatten : public Layer {
 public:
  explicit Flatten(int64_t first = 1, int64_t last = -1) : first_(first), last_(last) {}
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  Tensor forward(const Tensor& x) override;

 private:
  int64_t first_, last_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
