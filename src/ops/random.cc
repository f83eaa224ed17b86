// Random numbers: functions of a key, so that equal keys give equal numbers, bit by bit, on every device.
#include "gabbro/ops/random.h"

#include <cmath>
#include <limits>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/ops/op_table.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

enum Distribution : int64_t { kBits, kUniform, kNormal, kIntegers };  // backends/common/random_request.h

Tensor numbers(const char* op, const Tensor& key, const Shape& shape, Attributes attributes) {
  require_dtype(op, key, {DType::i32});
  if (!(key.shape() == Shape{6})) throw bad_input("[{}] a key has shape (6,), not {}", op, key.shape().to_string());
  attributes.set("count", shape.elements());
  return reshape(record(kRandom, {key}, std::move(attributes)), shape);
}

// The dtype's number that is next to x.
double rounded(double x, DType dtype) {
  const auto single = static_cast<float>(x);
  switch (dtype) {
    case DType::f16:
      return half_bits_to_float(float_to_half_bits(single));
    case DType::bf16:
      return bfloat_bits_to_float(float_to_bfloat_bits(single));
    case DType::f64:
      return x;
    default:
      return single;
  }
}

// The distance between numbers of the dtype next to x.
double spacing(double x, DType dtype) {
  const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : dtype == DType::f64 ? 53 : 24;
  const int smallest = dtype == DType::f16 ? -24 : dtype == DType::f64 ? -1074 : dtype == DType::bf16 ? -133 : -149;
  if (x == 0) return std::ldexp(1.0, smallest);
  return std::ldexp(1.0, std::max(std::ilogb(x) + 1 - digits, smallest));
}

// The smallest number of the dtype from x on, and the largest one below x.
double from(double x, DType dtype) {
  const double near = rounded(x, dtype);
  return near >= x ? near : rounded(near + spacing(near, dtype), dtype);
}
double below(double x, DType dtype) {
  const double near = rounded(x, dtype);
  if (near < x) return near;
  const double inside = near - spacing(near, dtype) / 2;  // the spacing is half as large below a power of two
  const double lower = rounded(inside, dtype);
  return lower < near ? lower : rounded(near - spacing(near, dtype), dtype);
}

}  // namespace

// key i32 [6] to [count]: bits and integers in i32, the others in f32.
const Op kRandom = {
    .name = "random",
    .infer =
        [](const Args& a) {
          const int64_t distribution = a.attributes.integer("distribution");
          const bool real = distribution == kUniform || distribution == kNormal;
          return result(Shape{a.attributes.integer("count")}, real ? DType::f32 : DType::i32);
        },
};

Tensor random_key(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t offset, uint64_t stream) {
  uint32_t words[6];
  for (size_t i = 0; i < 2; ++i) {
    words[i] = static_cast<uint32_t>(seed >> (32 * i));
    words[2 + i] = static_cast<uint32_t>(offset >> (32 * i));
    words[4 + i] = static_cast<uint32_t>(stream >> (32 * i));
  }
  return device->upload(DType::i32, Shape{6}, words);
}

Tensor random_bits(const Tensor& key, const Shape& shape) {
  return numbers("random_bits", key, shape, {{"distribution", int64_t{kBits}}});
}
Tensor rand(const Tensor& key, const Shape& shape) {
  return numbers("rand", key, shape, {{"distribution", int64_t{kUniform}}});
}
Tensor rand(const Tensor& key, const Shape& shape, DType dtype) {
  const Tensor x = rand(key, shape);
  if (!is_half(dtype)) return cast(x, dtype);
  const double steps = dtype == DType::f16 ? 2048 : 256;
  return cast(floor(x * steps) * (1 / steps), dtype);
}
Tensor uniform(const Tensor& key, const Shape& shape, double low, double high, DType dtype) {
  if (!std::isfinite(rounded(low, dtype)) || !std::isfinite(rounded(high, dtype)) || low > high)
    throw bad_input("[uniform] no numbers are in [{}, {})", low, high);
  const Tensor x = cast(rand(key, shape) * (high - low) + low, dtype);
  const double least = from(low, dtype), most = below(high, dtype);
  if (!(least <= most)) return cast(rand(key, shape) * 0 + low, dtype);
  return clamp(x, least, most);
}
Tensor randn(const Tensor& key, const Shape& shape) {
  return numbers("randn", key, shape, {{"distribution", int64_t{kNormal}}});
}
Tensor randint(const Tensor& key, int64_t low, int64_t high, const Shape& shape) {
  if (low >= high || low < -(int64_t{1} << 31) || high > int64_t{1} << 31) {
    throw bad_input("[randint] no i32 is in [{}, {})", low, high);
  }
  return numbers("randint", key, shape, {{"distribution", int64_t{kIntegers}}, {"low", low}, {"high", high}});
}

}  // namespace gabbro
