#include "src/ops/pick.h"

#include <limits>

#include "src/ops/arrays.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Tensor axis_to_first(const Tensor& x, int axis) { return moveaxis(x, {axis}, {0}); }
Tensor axis_from_first(const Tensor& x, int axis) { return moveaxis(x, {0}, {axis}); }

}  // namespace

Tensor pick(const Tensor& x, const Tensor& places, int axis) {
  const int64_t length = x.shape()[axis], count = places.shape().elements();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
  for (int i = axis + 1; i < x.shape().rank(); ++i) inner *= x.shape()[i];
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths[static_cast<size_t>(axis)] = count;
  if (outer == 1) return reshape(gather(reshape(x, Shape{length, inner}), places), Shape(lengths));
  if (outer * length > std::numeric_limits<int32_t>::max())
    return axis_from_first(pick(axis_to_first(x, axis), places, 0), axis);
  // The rows of all outer elements, one after the other.
  const Tensor begin = iota(x.device(), outer, DType::i32, 0, static_cast<double>(length));
  const Tensor rows = reshape(begin, Shape{outer, 1}) + places;  // [outer, K]
  return reshape(gather(reshape(x, Shape{outer * length, inner}), reshape(rows, Shape{outer * count})), Shape(lengths));
}

Tensor places_of(const char* op, const Tensor& indices, int64_t length) {
  require_dtype(op, indices, {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64});
  if (length > std::numeric_limits<int32_t>::max())
    throw bad_input("[{}] an axis of {} elements is too long", op, length);
  const DType dtype = indices.dtype() == DType::i64 ? DType::i64 : DType::i32;
  const Tensor whole = full(indices.device(), Shape{}, length, dtype);
  return cast(remainder(cast(indices, dtype), whole), DType::i32);
}

}  // namespace gabbro
