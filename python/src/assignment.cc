// x[...] = values: gives x another value; what was computed from the old one keeps it.
#include <algorithm>

#include "python/src/assignment.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

// Positions of an axis that the indices pick: start, start + step, ...
struct Range {
  int64_t start = 0;
  int64_t length = 0;
  int64_t step = 1;
};

bool picks_elements(const Index& index) { return std::holds_alternative<Tensor>(index); }

// For each axis of x, of indices without tensors that fit x.
std::vector<Range> ranges_of(const std::vector<Index>& indices, const Shape& shape) {
  const auto used = std::ranges::count_if(indices, [](const Index& index) {
    return std::holds_alternative<int64_t>(index) || std::holds_alternative<Slice>(index);
  });
  std::vector<Range> ranges;
  const auto whole = [&](int64_t count) {
    for (; count > 0; --count) ranges.push_back({0, shape[static_cast<int>(ranges.size())]});
  };
  for (const Index& index : indices) {
    if (std::holds_alternative<Ellipsis>(index)) whole(shape.rank() - used);
    const int64_t length = std::ssize(ranges) < shape.rank() ? shape[static_cast<int>(ranges.size())] : 0;
    if (const auto* at = std::get_if<int64_t>(&index)) ranges.push_back({*at < 0 ? *at + length : *at, 1});
    if (const auto* slice = std::get_if<Slice>(&index)) {
      Py_ssize_t start = *slice->start, stop = *slice->stop;
      const Py_ssize_t count = PySlice_AdjustIndices(length, &start, &stop, slice->step);
      ranges.push_back({start, count, count > 1 ? slice->step : 1});
    }
  }
  whole(shape.rank() - std::ssize(ranges));
  return ranges;
}

// x with `values`, of the shape of the ranges, in their places along the axes from `axis` on. Steps are positive.
Tensor placed(const Tensor& x, const Tensor& values, const std::vector<Range>& ranges, int axis) {
  if (axis == x.shape().rank()) return values;
  const Range& range = ranges[static_cast<size_t>(axis)];
  std::vector<Tensor> parts;
  int64_t done = 0;
  const auto keep = [&](int64_t end) {
    if (end > done) parts.push_back(slice(x, axis, done, end - done));
  };
  const auto put = [&](int64_t start, int64_t first, int64_t length) {
    keep(start);
    parts.push_back(placed(slice(x, axis, start, length), slice(values, axis, first, length), ranges, axis + 1));
    done = start + length;
  };
  if (range.step == 1) {
    put(range.start, 0, range.length);
  } else {
    for (int64_t i = 0; i < range.length; ++i) put(range.start + i * range.step, i, 1);
  }
  keep(x.shape()[axis]);
  return parts.size() == 1 ? parts.front() : concat(parts, axis);
}

Tensor with_ranges(const Tensor& x, Tensor values, std::vector<Range> ranges) {
  std::vector<int64_t> lengths, flipped;
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    Range& range = ranges[axis];
    lengths.push_back(range.length);
    if (range.step > 0) continue;
    flipped.push_back(static_cast<int64_t>(axis));
    range.start += (range.length - 1) * range.step;
    range.step = -range.step;
  }
  values = reshape(values, Shape(lengths));
  return placed(x, flipped.empty() ? values : flip(values, Axes(flipped)), ranges, 0);
}

// Scatters by the index of each element in the flattened x.
Tensor with_elements(const Tensor& x, const Tensor& values, const std::vector<Index>& indices) {
  const int64_t count = x.shape().elements();
  if (count > INT32_MAX) throw bad_input("[setitem] index tensors for shape {}", x.shape().to_string());
  const Tensor places = element(reshape(iota(x.device(), count, DType::i32), x.shape()), indices);
  const Shape flat{places.shape().elements()};
  return reshape(put_along_axis(flatten(x), reshape(places, flat), reshape(values, flat), 0), x.shape());
}

// x[mask] = number needs no values of the mask.
std::optional<Tensor> masked(const Tensor& x, const std::vector<Index>& indices, const Tensor& value) {
  const auto* mask = indices.size() == 1 ? std::get_if<Tensor>(&indices[0]) : nullptr;
  if (mask == nullptr || mask->dtype() != DType::boolean || value.shape().elements() != 1 || value.shape().rank() > 1)
    return std::nullopt;
  std::vector<int64_t> lengths(mask->shape().lengths().begin(), mask->shape().lengths().end());
  const auto fits = [](int64_t mine, int64_t its) { return mine == its || mine == 0; };
  if (std::ssize(lengths) > x.shape().rank() ||
      !std::equal(lengths.begin(), lengths.end(), x.shape().lengths().begin(), fits)) {
    throw nb::index_error(
        fmt::format("[setitem] mask {} does not fit shape {}", mask->shape().to_string(), x.shape().to_string())
            .c_str());
  }
  if (mask->shape().elements() == 0) return x;
  lengths.resize(static_cast<size_t>(x.shape().rank()), 1);
  return where(reshape(*mask, Shape(lengths)), reshape(value, Shape{}), x);
}

// NumPy accepts values with more axes than their target, if the extra axes have length 1.
Tensor without_leading_ones(const Tensor& values, int rank) {
  const Shape& shape = values.shape();
  int extra = 0;
  while (shape.rank() - extra > rank && shape[extra] == 1) ++extra;
  return extra == 0 ? values : reshape(values, Shape(shape.lengths().subspan(static_cast<size_t>(extra))));
}

void set(nb::handle self, nb::handle object, nb::handle value) {
  if (assign_in_place(self, object, value)) return;
  const Tensor& x = nb::cast<const Tensor&>(self);
  Tensor values = cast(operand("setitem", value, x), x.dtype());
  if (nb::isinstance<Tensor>(object)) {
    if (const auto result = masked(x, {nb::cast<const Tensor&>(object)}, values))
      return rebind("setitem", self, *result);
  }
  std::vector<Index> indices = index_argument(object, x);
  const Tensor before = element(x, indices);
  const Shape& wanted = before.shape();
  values = without_leading_ones(values, wanted.rank());
  if (!(broadcast_shapes("setitem", values.shape(), wanted) == wanted))
    throw bad_input("[setitem] a value of shape {} does not fit in {}", values.shape().to_string(), wanted.to_string());
  const bool elements = std::ranges::any_of(indices, picks_elements);
  if (wanted.elements() == 0) {
    if (elements && !is_tracing()) evaluate(before);  // indices out of range
    return;
  }
  values = broadcast_to(values, wanted);
  rebind("setitem", self,
         elements ? with_elements(x, values, indices) : with_ranges(x, values, ranges_of(indices, x.shape())));
}

}  // namespace

void bind_assignment(TensorClass& tensor) {
  tensor.def("__setitem__", set, nb::arg().none(), nb::arg(),
             nb::sig("def __setitem__(self, index: Index, value: Operand, /) -> None"));
}

}  // namespace gabbro::python
