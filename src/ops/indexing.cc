// Elements by index: x[...] as NumPy reads it, and what sets elements and finds them.
#include <algorithm>
#include <numeric>

#include "src/graph/eval.h"
#include "src/ops/arrays.h"
#include "src/ops/axis.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/pick.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

int64_t product(std::span<const int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> lengths_of(const Tensor& x) { return {x.shape().lengths().begin(), x.shape().lengths().end()}; }

// How many of x's axes an index stands for.
int axes_of(const Index& index) {
  if (const auto* tensor = std::get_if<Tensor>(&index)) {
    require_plain("index", *tensor);
    return tensor->dtype() == DType::boolean ? tensor->shape().rank() : 1;
  }
  return std::holds_alternative<NewAxis>(index) || std::holds_alternative<Ellipsis>(index) ? 0 : 1;
}

// The same without an ellipsis and without masks, with an index for every axis.
std::vector<Index> expanded(const Tensor& x, const std::vector<Index>& indices) {
  int axes = 0, ellipses = 0;
  for (const Index& index : indices) {
    axes += axes_of(index);
    ellipses += std::holds_alternative<Ellipsis>(index) ? 1 : 0;
  }
  const int rest = x.shape().rank() - axes;
  if (rest < 0 || ellipses > 1)
    throw bad_input("[index] {} indices and {} ellipses for shape {}", axes, ellipses, x.shape().to_string());
  std::vector<Index> all;
  int axis = 0;
  for (const Index& index : indices) {
    const auto* tensor = std::get_if<Tensor>(&index);
    if (std::holds_alternative<Ellipsis>(index)) {
      all.insert(all.end(), static_cast<size_t>(rest), Slice{});
      axis += rest;
      continue;
    }
    if (tensor == nullptr || tensor->dtype() != DType::boolean) {
      all.push_back(index);
      axis += axes_of(index);
      continue;
    }
    if (tensor->shape().rank() == 0) throw bad_input("[index] a mask without axes beside other indices");
    for (int i = 0; i < tensor->shape().rank(); ++i, ++axis) {
      // The standard also has masks without elements, which pick none.
      if (tensor->shape()[i] != x.shape()[axis] && tensor->shape()[i] != 0)
        throw bad_input("[index] mask {} does not fit shape {}", tensor->shape().to_string(), x.shape().to_string());
    }
    for (const Tensor& places : nonzero(*tensor)) all.emplace_back(places);
  }
  if (ellipses == 0) all.insert(all.end(), static_cast<size_t>(rest), Slice{});
  return all;
}

// Python's reading of start:stop:step for an axis.
Tensor sliced(const Tensor& x, int axis, const Slice& s) {
  const int64_t length = x.shape()[axis];
  if (s.step == 0) throw bad_input("[index] a step of 0");
  const bool forward = s.step > 0;
  const auto bound = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    const int64_t place = *at < 0 ? *at + length : *at;
    return forward ? std::clamp<int64_t>(place, 0, length) : std::clamp<int64_t>(place, -1, length - 1);
  };
  const int64_t start = bound(s.start, forward ? 0 : length - 1), stop = bound(s.stop, forward ? length : -1);
  const int64_t way = forward ? stop - start : start - stop;
  const int64_t step = forward ? s.step : s.step == INT64_MIN ? INT64_MAX : -s.step;
  const int64_t count = way > 0 ? (way - 1) / step + 1 : 0;
  if (count == 0) return slice(x, axis, 0, 0);
  if (forward) return slice(x, axis, start, count, count > 1 ? step : 1);
  const Tensor turned = flip(slice(x, axis, start - (count - 1) * step, count, count > 1 ? step : 1), axis);
  return turned;
}

// x[..., i_0, i_1, ...] for index tensors of one shape at `axes`: these go to the front and become one, whose rows are
// gathered. The tensors' axes go where the index tensors stood, or to the front where they stood apart.
Tensor gathered(const Tensor& x, const std::vector<int>& axes, const std::vector<Tensor>& tensors) {
  std::vector<int> order = axes;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) order.push_back(axis);
  }
  const std::vector<Tensor> all = broadcast_arrays(tensors);
  const Shape shape = all[0].shape();
  Tensor rows;  // i32: the row of each element
  int64_t count = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t length = x.shape()[axes[i]];
    count *= length;
    if (count > INT32_MAX) throw bad_input("[index] axes of {} elements in all are too long", count);
    if (length == 0 && shape.elements() > 0)
      throw bad_input("[index] axis {} of shape {} has no elements", axes[i], x.shape().to_string());
    const Tensor places = places_of("index", all[i], length);
    rows = i == 0 ? places : rows * full(x.device(), Shape{}, length, DType::i32) + places;
  }
  const bool together = axes.back() - axes.front() + 1 == std::ssize(axes);
  const int at = together ? axes.front() : 0;
  std::vector<int64_t> rest, lengths;
  for (size_t i = axes.size(); i < order.size(); ++i) rest.push_back(x.shape()[order[i]]);
  if (axes.size() == 1) {
    Tensor y = pick(x, reshape(rows, Shape{shape.elements()}), at);
    lengths = lengths_of(x);
    lengths.erase(lengths.begin() + at);
    lengths.insert(lengths.begin() + at, shape.lengths().begin(), shape.lengths().end());
    return reshape(y, Shape(lengths));
  }
  const Tensor table = reshape(permute(x, order), Shape{count, product(rest)});
  const Tensor y = gather(table, reshape(rows, Shape{shape.elements()}));  // [elements, rest]
  const std::span<const int64_t> before(rest.data(), static_cast<size_t>(at));
  const std::span<const int64_t> after(rest.data() + at, rest.size() - static_cast<size_t>(at));
  const Tensor moved = permute(reshape(y, Shape{shape.elements(), product(before), product(after)}), {1, 0, 2});
  lengths.assign(before.begin(), before.end());
  lengths.insert(lengths.end(), shape.lengths().begin(), shape.lengths().end());
  lengths.insert(lengths.end(), after.begin(), after.end());
  return reshape(moved, Shape(lengths));
}

}  // namespace

// x [..., C], indices [..., K], values [..., K] to [..., C].
const Op kScatterSet = {
    .name = "scatter_set",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    // The value of the last index that is this place, or x.
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const int64_t columns = x.shape()[x.shape().rank() - 1], picks = a[1].shape()[x.shape().rank() - 1];
          const int64_t rows = x.shape().elements() / columns;
          const Tensor column = reshape(iota(x.device(), columns, DType::i32), Shape{columns, 1});
          const Tensor hit = equal(reshape(a[1], Shape{rows, 1, picks}), column);  // [rows, C, K]
          const Tensor number = iota(x.device(), picks, DType::i32, 1), none = scalar(x.device(), 0, DType::i32);
          const Tensor last = reshape(max(where(hit, number, none), -1), Shape{rows, columns});
          const Tensor values =
              take_along_axis(reshape(a[2], Shape{rows, picks}), last - scalar(x.device(), 1, DType::i32));
          return std::vector{where(reshape(greater(last, none), x.shape()), reshape(values, x.shape()), x)};
        },
    // x's gradient is gone where a value was put; of values that met at one place, the last has one.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor &indices = a[1], &dy = a.gradients[0];
      const Shape& picks = indices.shape();
      const Tensor number = broadcast_to(iota(dy.device(), picks[picks.rank() - 1], DType::i32), picks);
      const Tensor last = put_along_axis(filled_like(indices, dy.shape(), -1), indices, number);
      const Tensor counts = equal(take_along_axis(last, indices), number);
      return {put_along_axis(dy, indices, filled_like(dy, picks, 0)), Tensor(),
              where_or_zero(counts, take_along_axis(dy, indices))};
    },
};

Tensor take(const Tensor& x, const Tensor& indices, int64_t axis) {
  require_plain("take", x);
  const int along = x.shape().axis("take", axis);
  const Tensor places = places_of("take", indices, x.shape()[along]);
  if (x.shape()[along] == 0 && indices.shape().elements() > 0)
    throw bad_input("[take] axis {} of shape {} has no elements", axis, x.shape().to_string());
  const Tensor y = pick(x, reshape(places, Shape{indices.shape().elements()}), along);
  std::vector<int64_t> lengths = lengths_of(x);
  lengths.erase(lengths.begin() + along);
  lengths.insert(lengths.begin() + along, indices.shape().lengths().begin(), indices.shape().lengths().end());
  return reshape(y, Shape(lengths));
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis) {
  require_plain("put_along_axis", x);
  require_plain("put_along_axis", values);
  require_dtype("put_along_axis", indices, {DType::i32});
  const int along = x.shape().axis("put_along_axis", axis);
  std::vector<int64_t> lengths = lengths_of(x);
  if (indices.shape().rank() == x.shape().rank()) lengths[static_cast<size_t>(along)] = indices.shape()[along];
  if (!(indices.shape() == Shape(lengths)) || !(values.shape() == indices.shape())) {
    throw bad_input("[put_along_axis] indices {} and values {} do not fit x {} along axis {}",
                    indices.shape().to_string(), values.shape().to_string(), x.shape().to_string(), axis);
  }
  if (indices.shape().elements() == 0) return x;
  const Tensor y = record(kScatterSet, {axis_to_last(x, along), axis_to_last(indices, along),
                                        axis_to_last(cast(values, x.dtype()), along)});
  return axis_from_last(y, along);
}

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  require_plain("index", x);
  const Tensor* sole = indices.size() == 1 ? std::get_if<Tensor>(&indices[0]) : nullptr;
  if (sole != nullptr && sole->dtype() == DType::boolean && sole->shape().rank() == 0) {
    // All or nothing of a new first axis.
    return index(expand_dims(x, 0), {reshape(*sole, Shape{1})});
  }
  const std::vector<Index> all = expanded(x, indices);
  // First what is a view; index tensors then stand at axes of y.
  Tensor y = x;
  std::vector<int> axes;
  std::vector<Tensor> tensors;
  std::vector<int64_t> lengths;  // with numbers gone and new axes there
  int axis = 0;                  // of x
  for (const Index& index : all) {
    if (std::holds_alternative<NewAxis>(index)) {
      lengths.push_back(1);
      continue;
    }
    if (const auto* number = std::get_if<int64_t>(&index)) {
      const int64_t length = x.shape()[axis], place = *number < 0 ? *number + length : *number;
      if (place < 0 || place >= length) {
        throw bad_input("[index] index {} is outside axis {} of shape {}", *number, axis, x.shape().to_string());
      }
      y = slice(y, axis, place, 1);
    } else if (const auto* part = std::get_if<Slice>(&index)) {
      y = sliced(y, axis, *part);
      lengths.push_back(y.shape()[axis]);
    } else {
      axes.push_back(static_cast<int>(lengths.size()));
      tensors.push_back(std::get<Tensor>(index));
      lengths.push_back(x.shape()[axis]);
    }
    ++axis;
  }
  if (!(y.shape() == Shape(lengths))) y = reshape(y, Shape(lengths));
  return tensors.empty() ? y : gathered(y, axes, tensors);
}

std::vector<Tensor> nonzero(const Tensor& x) {
  require_plain("nonzero", x);
  if (x.shape().rank() == 0) throw bad_input("[nonzero] a scalar has no axis");
  const std::vector<uint8_t> flags = to_host<uint8_t>(cast(x, DType::boolean));
  std::vector<std::vector<int32_t>> places(static_cast<size_t>(x.shape().rank()));
  for (size_t at = 0; at < flags.size(); ++at) {
    if (flags[at] == 0) continue;
    int64_t rest = static_cast<int64_t>(at);
    for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
      places[static_cast<size_t>(axis)].push_back(static_cast<int32_t>(rest % x.shape()[axis]));
      rest /= x.shape()[axis];
    }
  }
  std::vector<Tensor> results;
  for (const std::vector<int32_t>& axis : places)
    results.push_back(x.device()->upload(DType::i32, Shape{std::ssize(axis)}, axis.data()));
  return results;
}

Unique unique(const Tensor& x) {
  require_plain("unique", x);
  const int64_t count = x.shape().elements();
  const Tensor flat = reshape(x, Shape{count});
  if (count == 0) {
    const Tensor none = zeros(x.device(), Shape{0}, DType::i32);
    return {.values = flat, .indices = none, .inverse = zeros(x.device(), x.shape(), DType::i32), .counts = none};
  }
  const Tensor order = argsort(flat), sorted = gather(flat, order);
  const Tensor differs = not_equal(slice(sorted, 0, 1, count - 1), slice(sorted, 0, 0, count - 1));
  const Tensor first = concat({ones(x.device(), Shape{1}, DType::boolean), differs}, 0);
  const Tensor begin = nonzero(first)[0];
  const int64_t values = begin.shape()[0];
  const Tensor end = concat({slice(begin, 0, 1, values - 1), full(x.device(), Shape{1}, count, DType::i32)}, 0);
  const Tensor number = cumsum(first) - full(x.device(), Shape{}, 1, DType::i32);
  const Tensor inverse = put_along_axis(zeros(x.device(), Shape{count}, DType::i32), order, number, 0);
  return {.values = gather(sorted, begin),
          .indices = gather(order, begin),
          .inverse = reshape(inverse, x.shape()),
          .counts = end - begin};
}

}  // namespace gabbro
