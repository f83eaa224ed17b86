// Activations that ops.h does not have as functions, and all of them as layers, named as in torch.nn.
#pragma once

#include <array>
#include <optional>

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

// A layer of a function with one more number.
template <class Number, Tensor (*function)(const Tensor&, Number)>
class ElementwiseBy : public Layer {
 public:
  explicit ElementwiseBy(Number number) : number_(number) {}
  Number number() const { return number_; }
  void set_number(Number number) { number_ = number; }
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
// `axis`, or where none is given the last one of a vector or matrix. Throws bad_input "[op] ..." for more axes, of
// which PyTorch takes the first or the second one.
int64_t implied_axis(const char* op, const Tensor& x, std::optional<int64_t> axis);
Tensor softmax_along(const Tensor& x, std::optional<int64_t> axis);
Tensor log_softmax_along(const Tensor& x, std::optional<int64_t> axis);
struct Softmax : ElementwiseBy<std::optional<int64_t>, softmax_along> {
  explicit Softmax(std::optional<int64_t> axis = -1) : ElementwiseBy(axis) {}
};
struct LogSoftmax : ElementwiseBy<std::optional<int64_t>, log_softmax_along> {
  explicit LogSoftmax(std::optional<int64_t> axis = -1) : ElementwiseBy(axis) {}
};
struct GLU : ElementwiseBy<int64_t, glu> {
  explicit GLU(int64_t axis = -1) : ElementwiseBy(axis) {}
};

struct SoftplusOptions {
  double beta = 1, threshold = 20;
};
class Softplus : public Layer {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : options_{beta, threshold} {}
  const SoftplusOptions& options() const { return options_; }
  void set_options(const SoftplusOptions& options) { options_ = options; }
  Tensor forward(const Tensor& x) override { return softplus(x, options_.beta, options_.threshold); }

 private:
  SoftplusOptions options_;
};

struct HardtanhOptions {
  double low = -1, high = 1;
};
class Hardtanh : public Layer {
 public:
  explicit Hardtanh(double low = -1, double high = 1) : options_{low, high} {}
  const HardtanhOptions& options() const { return options_; }
  void set_options(const HardtanhOptions& options) { options_ = options; }
  Tensor forward(const Tensor& x) override { return hard_tanh(x, options_.low, options_.high); }

 private:
  HardtanhOptions options_;
};

// Leaky, with a slope that is learned: one, or one for each channel of x [N, C, ...] (He et al. 2015).
class PReLU : public Layer {
 public:
  explicit PReLU(const Factory& make, int64_t parameters = 1, double slope = 0.25);
  double first_slope() const { return first_slope_; }
  Tensor forward(const Tensor& x) override;

  Tensor weight;  // [1] or [C]

 private:
  double first_slope_;
};

// Axes first to last as one.
struct FlattenOptions {
  int64_t first = 1, last = -1;
};
class Flatten : public Layer {
 public:
  explicit Flatten(int64_t first = 1, int64_t last = -1) : options_{first, last} {}
  const FlattenOptions& options() const { return options_; }
  void set_options(const FlattenOptions& options) { options_ = options; }
  Tensor forward(const Tensor& x) override;

 private:
  FlattenOptions options_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
