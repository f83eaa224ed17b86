#include "gabbro/nn/init.h"

#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "gabbro/ops/random.h"
#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/plan/eval.h"

namespace gabbro::nn::init {
namespace {

// Drawn when it is read: a state that is loaded replaces most initial values before.
Tensor deferred(const Tensor& x) {
  defer(x);
  return x;
}

Tensor on_device(const Factory& make, const Shape& shape, const std::vector<float>& values) {
  return deferred(cast(make.device->upload(DType::f32, shape, values.data()), make.dtype));
}

std::vector<float> numbers(const Factory& make, int64_t count, Tensor (*draw)(const Tensor&, const Shape&)) {
  return to_host<float>(draw(make.generator->next_key(make.device), Shape{count}));
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The x with normal_below(x) = p for 0 < p < 1, by bisection: 60 halvings of [-9, 9] leave less than a unit of f32.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_below(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Tensor constant(const Factory& make, const Shape& shape, double value) {
  // Separate numbers, as training leaves them: a view of one number would be another plan.
  return deferred(reshape(iota(make.device, shape.elements(), make.dtype, value, 0), shape));
}

Tensor uniform(const Factory& make, const Shape& shape, double low, double high) {
  return deferred(gabbro::uniform(make.generator->next_key(make.device), shape, low, high, make.dtype));
}

Tensor normal(const Factory& make, const Shape& shape, double mean, double deviation) {
  const Tensor x = randn(make.generator->next_key(make.device), shape);
  return deferred(cast(x * deviation + mean, make.dtype));
}

Tensor trunc_normal(const Factory& make, const Shape& shape, const Truncation& t) {
  if (!(t.low < t.high) || !(t.deviation > 0)) {
    throw bad_input("[trunc_normal] deviation {} within [{}, {}]", t.deviation, t.low, t.high);
  }
  const double below = normal_below((t.low - t.mean) / t.deviation);
  const double above = normal_below((t.high - t.mean) / t.deviation);
  std::vector<float> values = numbers(make, shape.elements(), rand);
  for (float& value : values) {
    const double x = t.mean + t.deviation * normal_quantile(below + value * (above - below));
    value = static_cast<float>(std::min(std::max(x, t.low), t.high));
  }
  return on_device(make, shape, values);
}

Tensor orthogonal(const Factory& make, const Shape& shape, double gain) {
  if (shape.rank() < 2) throw bad_input("[orthogonal] wants two axes or more, not shape {}", shape.to_string());
  const auto rows = static_cast<size_t>(shape[0]);
  const size_t columns = rows == 0 ? 0 : static_cast<size_t>(shape.elements()) / rows;
  const bool transposed = rows > columns;
  const size_t count = transposed ? columns : rows, length = transposed ? rows : columns;
  const std::vector<float> drawn = numbers(make, shape.elements(), randn);
  std::vector<double> vectors(drawn.begin(), drawn.end());  // [count, length]
  const auto vector = [&](size_t i) { return std::span(vectors).subspan(i * length, length); };
  for (size_t i = 0; i < count; ++i) {
    // Gram and Schmidt, twice: what rounding leaves of the others after the first time is gone after the second.
    for (int time = 0; time < 2; ++time) {
      for (size_t j = 0; j < i; ++j) {
        const double share = dot(vector(i), vector(j));
        for (size_t k = 0; k < length; ++k) vector(i)[k] -= share * vector(j)[k];
      }
      const double norm = std::sqrt(dot(vector(i), vector(i)));
      for (double& value : vector(i)) value /= norm;
    }
  }
  std::vector<float> values(drawn.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      values[i * columns + j] = static_cast<float>(gain * (transposed ? vector(j)[i] : vector(i)[j]));
  return on_device(make, shape, values);
}

Fans fans(const Shape& shape) {
  if (shape.rank() < 2) throw bad_input("[fans] a weight of shape {} has no fans", shape.to_string());
  double kernel = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) kernel *= static_cast<double>(shape[axis]);
  return {.in = static_cast<double>(shape[1]) * kernel, .out = static_cast<double>(shape[0]) * kernel};
}

double leaky_relu_gain(double slope) { return std::sqrt(2 / (1 + slope * slope)); }

Tensor xavier_uniform(const Factory& make, const Shape& shape, double gain) {
  const Fans f = fans(shape);
  const double bound = gain * std::sqrt(6 / (f.in + f.out));
  return uniform(make, shape, -bound, bound);
}

Tensor xavier_normal(const Factory& make, const Shape& shape, double gain) {
  const Fans f = fans(shape);
  return normal(make, shape, 0, gain * std::sqrt(2 / (f.in + f.out)));
}

Tensor kaiming_uniform(const Factory& make, const Shape& shape, double slope, Fan fan) {
  const Fans f = fans(shape);
  const double bound = leaky_relu_gain(slope) * std::sqrt(3 / (fan == Fan::kIn ? f.in : f.out));
  return uniform(make, shape, -bound, bound);
}

Tensor kaiming_normal(const Factory& make, const Shape& shape, double slope, Fan fan) {
  const Fans f = fans(shape);
  return normal(make, shape, 0, leaky_relu_gain(slope) / std::sqrt(fan == Fan::kIn ? f.in : f.out));
}

Tensor within_fan_in(const Factory& make, const Shape& shape, const Shape& weight) {
  const double fan = fans(weight).in, bound = fan > 0 ? 1 / std::sqrt(fan) : 0;
  return uniform(make, shape, -bound, bound);
}

}  // namespace gabbro::nn::init
