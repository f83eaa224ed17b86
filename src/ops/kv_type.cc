#include "src/ops/kv_type.h"

#include <algorithm>

#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr int64_t kHalfBlock = kKvBlock / 2;

// x with axis `axis` cut into two: blocks, and `length` elements of each.
Tensor in_blocks(const Tensor& x, int axis, int64_t length) {
  std::vector<int64_t> lengths = lengths_of(x);
  lengths[static_cast<size_t>(axis)] /= length;
  lengths.insert(lengths.begin() + axis + 1, length);
  return reshape(x, Shape(lengths));
}

// The inverse.
Tensor without_blocks(const Tensor& x, int axis) {
  std::vector<int64_t> lengths = lengths_of(x);
  lengths[static_cast<size_t>(axis)] *= lengths[static_cast<size_t>(axis) + 1];
  lengths.erase(lengths.begin() + axis + 1);
  return reshape(x, Shape(lengths));
}

Tensor number(const Tensor& like, double value) { return scalar(like.device(), value); }

// `extreme` [..., blocks, 1] is the number that has the code `code`, which gives the scale; `round` makes the codes.
template <class Round>
KvNumbers encode_blocks(const Tensor& blocks, const Tensor& extreme, double code, const Round& round) {
  const Tensor scales = cast(extreme * number(blocks, 1 / code), DType::f16);
  const Tensor read = cast(scales, DType::f32);  // by which a reader multiplies
  const Tensor zero = equal(read, number(blocks, 0));
  const Tensor inverse = where(zero, number(blocks, 0), number(blocks, 1) / where(zero, number(blocks, 1), read));
  const int axis = blocks.shape().rank() - 2;
  return {.elements = without_blocks(round(blocks * inverse), axis), .scales = without_blocks(scales, axis)};
}

KvNumbers encode_q8_0(const Tensor& blocks) {
  return encode_blocks(blocks, max(abs(blocks), {-1}, true), 127,
                       [](const Tensor& scaled) { return cast(round(clamp(scaled, -127, 127)), DType::i8); });
}

// The number of the largest size has the code 0, which is -8 times the scale.
KvNumbers encode_q4_0(const Tensor& blocks) {
  const Tensor high = max(blocks, {-1}, true), low = min(blocks, {-1}, true);
  const Tensor extreme = where(greater_equal(high, neg(low)), high, low);
  return encode_blocks(blocks, extreme, -8, [](const Tensor& scaled) {
    const Tensor codes = clamp(floor(scaled + number(scaled, 8.5)), 0, 15);
    const int last = codes.shape().rank() - 1;
    const Tensor first = slice(codes, last, 0, kHalfBlock), second = slice(codes, last, kHalfBlock, kHalfBlock);
    return cast(first + second * number(scaled, 16), DType::u8);
  });
}

}  // namespace

std::string kv_type_names() {
  std::string names;
  for (const DType type : kKvTypes) {
    const bool last = type == *(kKvTypes.end() - 1);
    names += (names.empty() ? "" : last ? " or " : ", ") + std::string(dtype_name(type));
  }
  return names;
}

std::optional<DType> parse_kv_type(std::string_view name) {
  const auto found = std::ranges::find(kKvTypes, name, dtype_name);
  return found == kKvTypes.end() ? std::nullopt : std::optional(*found);
}

DType kv_elements(DType kv_type) {
  return kv_type == DType::q8_0 ? DType::i8 : kv_type == DType::q4_0 ? DType::u8 : kv_type;
}

KvNumbers kv_encode(const Tensor& x, DType kv_type) {
  if (!is_quantized(kv_type)) return {.elements = cast(x, kv_type), .scales = {}};
  const Tensor blocks = in_blocks(x, x.shape().rank() - 1, kKvBlock);
  return kv_type == DType::q8_0 ? encode_q8_0(blocks) : encode_q4_0(blocks);
}

Tensor kv_decode(const KvNumbers& numbers, int axis) {
  const Tensor& elements = numbers.elements;
  if (!numbers.scales.defined()) return cast(elements, DType::f32);
  const Tensor scales = in_blocks(cast(numbers.scales, DType::f32), axis, 1);
  Tensor codes = cast(elements, DType::f32);
  if (elements.dtype() == DType::i8) return without_blocks(in_blocks(codes, axis, kKvBlock) * scales, axis);
  codes = in_blocks(codes, axis, kHalfBlock);
  const Tensor second = floor(codes * number(codes, 1.0 / 16)), first = codes - second * number(codes, 16);
  return without_blocks((concat({first, second}, axis + 1) - number(codes, 8)) * scales, axis);
}

}  // namespace gabbro
