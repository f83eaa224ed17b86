// Random numbers: functions of a key, so that equal keys give equal numbers, bit by bit, on every device.
#include "src/backend/device.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
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
