// Initial values of parameters: tensors that have been computed, of the factory's dtype. As torch.nn.init has them, but
// with other random numbers.
#pragma once

#include "gabbro/nn/factory.h"

#pragma GCC visibility push(default)
namespace gabbro::nn::init {

Tensor constant(const Factory& make, const Shape& shape, double value);
inline Tensor zeros(const Factory& make, const Shape& shape) { return constant(make, shape, 0); }
inline Tensor ones(const Factory& make, const Shape& shape) { return constant(make, shape, 1); }
Tensor uniform(const Factory& make, const Shape& shape, double low = 0, double high = 1);  // [low, high)
Tensor normal(const Factory& make, const Shape& shape, double mean = 0, double deviation = 1);
// Normal numbers; numbers outside of [low, high] are left out.
struct Truncation {
  double mean = 0, deviation = 1, low = -2, high = 2;
};
Tensor trunc_normal(const Factory& make, const Shape& shape, const Truncation& t = {});
// A shape of two axes or more, made a matrix [first axis, the others]: rows (or, if they are more, columns) that are
// orthogonal and of length `gain`.
Tensor orthogonal(const Factory& make, const Shape& shape, double gain = 1);

// The fans of a weight [O, I, kernel...]: I · kernel and O · kernel. Throws bad_input for fewer than two axes.
struct Fans {
  double in, out;
};
Fans fans(const Shape& shape);

// Glorot & Bengio 2010: variance gain² · 2 / (in + out).
Tensor xavier_uniform(const Factory& make, const Shape& shape, double gain = 1);
Tensor xavier_normal(const Factory& make, const Shape& shape, double gain = 1);
// He et al. 2015: variance gain² / fan. `slope` is the negative one of the leaky ReLU that comes after the weight.
enum class Fan { kIn, kOut };
Tensor kaiming_uniform(const Factory& make, const Shape& shape, double slope = 0, Fan fan = Fan::kIn);
Tensor kaiming_normal(const Factory& make, const Shape& shape, double slope = 0, Fan fan = Fan::kIn);
// sqrt(2 / (1 + slope²)): 1 for linear layers (slope 1), √2 for ReLU (slope 0).
double leaky_relu_gain(double slope);

// PyTorch's initial weights and biases of linear layers and convolutions: uniform within ±1 / √fan_in of `weight`,
// which is kaiming_uniform with a slope of √5.
Tensor within_fan_in(const Factory& make, const Shape& shape, const Shape& weight);

}  // namespace gabbro::nn::init
#pragma GCC visibility pop
