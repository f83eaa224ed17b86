#include "src/ops/index_rules.h"

#include <limits>

#include "src/base/input_errors.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Tensor axis_to_first(const Tensor& x, int axis) { return moveaxis(x, {axis}, {0}); }
Tensor axis_from_first(const Tensor& x, int axis) { return moveaxis(x, {0}, {axis}); }

void require_indices(const Tensor& indices, int64_t size, const IndexUse& use) {
  require_index_dtype(use.op, indices);
  if (size > std::numeric_limits<int32_t>::max())
    throw bad_input("[{}] an axis of {} elements is too long", use.op, size);
  if (size == 0 && indices.shape().elements() > 0)
    throw bad_index("[{}] axis {} has no elements to select", use.op, use.axis);
}

// Run r of `repeats` has the positions in row r of rows of `size` elements.
Tensor repeated_positions(const Tensor& indices, int64_t size, int64_t repeats, Attributes attributes) {
  attributes.set("size", size);
  attributes.set("repeats", repeats);
  return record(kResolveIndex, {indices}, std::move(attributes));
}

}  // namespace

// Indices of an integer dtype -> i32 of their shape, or with attribute `repeats` R > 1 of [K] -> [R * K]. With a second
// input `outer`: outer · size + position.
const Op kResolveIndex = {
    .name = "resolve_index",
    .infer =
        [](const Args& a) {
          const int64_t repeats = a.attributes.integer("repeats");
          return result(repeats == 1 ? a[0].shape() : Shape{repeats * a[0].shape().elements()}, DType::i32);
        },
    .gradient = [](const GradientArgs& a) { return Gradients(a.size()); },
};

Attributes index_attributes(const IndexUse& use) { return {{"for", std::string(use.op)}, {"axis", use.axis}}; }

Attributes label_attributes(const IndexUse& use, int64_t ignored) {
  return {{"for", std::string(use.op)}, {"axis", use.axis}, {"labels", int64_t{1}}, {"ignored", ignored}};
}

Tensor joined_positions(const Tensor& outer, const Tensor& indices, int64_t size, Attributes attributes) {
  attributes.set("size", size);
  attributes.set("repeats", int64_t{1});
  return record(kResolveIndex, {indices, outer}, std::move(attributes));
}

Tensor positions_of(const Tensor& indices, int64_t size, const Attributes& attributes) {
  return repeated_positions(indices, size, 1, attributes);
}

void require_index_dtype(const char* op, const Tensor& indices) {
  require_dtype(op, indices, {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64});
}

Tensor readable_indices(const Tensor& indices, int64_t size, const IndexUse& use) {
  require_indices(indices, size, use);
  return indices.dtype() == DType::i32 ? indices : positions_of(indices, size, index_attributes(use));
}

Tensor readable_indices(const Tensor& indices, int64_t size, const IndexUse& use, const Attributes& attributes) {
  require_indices(indices, size, use);
  return indices.dtype() == DType::i32 ? indices : positions_of(indices, size, attributes);
}

Tensor pick(const Tensor& x, const Tensor& indices, int axis, const IndexUse& use) {
  const int64_t length = x.shape()[axis], count = indices.shape().elements();
  require_indices(indices, length, use);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
  for (int i = axis + 1; i < x.shape().rank(); ++i) inner *= x.shape()[i];
  std::vector<int64_t> lengths = lengths_of(x);
  lengths[static_cast<size_t>(axis)] = count;
  const Attributes attributes = index_attributes(use);
  const int64_t together = outer * inner;
  if (outer == 1 || together == 0) {
    // The kernel of gather checks the indices, but not for empty rows, since none of these is read.
    const bool checked = indices.dtype() == DType::i32 && together > 0;
    const Tensor rows = checked ? indices : positions_of(indices, length, attributes);
    return reshape(gather_rows(reshape(x, Shape{length, together}), rows, attributes), Shape(lengths));
  }
  if (outer * length > std::numeric_limits<int32_t>::max())
    return axis_from_first(pick(axis_to_first(x, axis), indices, 0, use), axis);
  // The rows of all outer elements, in sequence.
  const Tensor rows = repeated_positions(indices, length, outer, attributes);  // [outer * K]
  return reshape(gather(reshape(x, Shape{outer * length, inner}), rows), Shape(lengths));
}

}  // namespace gabbro
