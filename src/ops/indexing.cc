// Elements by index: x[...] as NumPy reads it, and what sets elements and finds them.
#include <algorithm>
#include <numeric>

#include "gabbro/graph/eval.h"
#include "src/backend/device.h"
#include "src/base/input_errors.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/index_rules.h"
#include "src/ops/last_axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

int64_t product(std::span<const int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

bool is_mask(const Tensor& tensor) { return tensor.dtype() == DType::boolean; }

// How many of x's axes an index stands for.
int axes_of(const Index& index) {
  if (const auto* tensor = std::get_if<Tensor>(&index)) {
    require_plain("index", *tensor);
    return is_mask(*tensor) ? tensor->shape().rank() : 1;
  }
  return std::holds_alternative<NewAxis>(index) || std::holds_alternative<Ellipsis>(index) ? 0 : 1;
}

void require_mask_fits(const Tensor& x, const Tensor& mask, int axis) {
  for (int i = 0; i < mask.shape().rank(); ++i, ++axis) {
    // The standard also has masks without elements, which select none.
    if (mask.shape()[i] != x.shape()[axis] && mask.shape()[i] != 0)
      throw bad_input("[index] mask {} does not fit shape {}", mask.shape().to_string(), x.shape().to_string());
  }
}

// The indices with one for every axis: slices after an ellipsis, which stays as a separator, and index tensors in
// place of masks, but for masks without axes.
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
    if (tensor != nullptr && is_mask(*tensor) && tensor->shape().rank() > 0) {
      require_mask_fits(x, *tensor, axis);
      for (const Tensor& places : nonzero(*tensor)) all.emplace_back(places);
    } else {
      all.push_back(index);
    }
    axis += axes_of(index);
    if (!std::holds_alternative<Ellipsis>(index)) continue;
    all.insert(all.end(), static_cast<size_t>(rest), Slice{});
    axis += rest;
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
  const Tensor flipped = flip(slice(x, axis, start - (count - 1) * step, count, count > 1 ? step : 1), axis);
  return flipped;
}

// The index tensors of x[...], once all else was done as views: y has an axis for each.
struct Advanced {
  std::vector<Tensor> tensors;
  std::vector<int> axes;     // of y, which the tensors replace
  std::vector<int> sources;  // of x, for messages
  int at = 0;                // the axis of the result at which the axes of the tensors begin
  std::optional<bool> flag;  // masks without axes: whether all are true
};

// The row of each element in a table whose rows are the elements of the indexed axes, i32 of the tensors' shape.
Tensor table_rows(const Tensor& y, const Advanced& advanced, const std::vector<Tensor>& tensors, int64_t& count) {
  Tensor rows;
  count = 1;
  for (size_t i = 0; i < advanced.axes.size(); ++i) {
    const int64_t length = y.shape()[advanced.axes[i]];
    count *= length;
    if (count > INT32_MAX) throw bad_input("[index] axes of {} elements in all are too long", count);
    if (length == 0 && tensors[0].shape().elements() > 0)
      throw bad_input("[index] axis {} has no elements to select", advanced.sources[i]);
    const Attributes attributes = index_attributes({"index", advanced.sources[i]});
    rows =
        i == 0 ? positions_of(tensors[i], length, attributes) : joined_positions(rows, tensors[i], length, attributes);
  }
  return rows;
}

// y with the axes of the index tensors, which have one shape, in place of those that they index.
Tensor gathered(const Tensor& y, const Advanced& advanced, const std::vector<Tensor>& tensors) {
  for (const Tensor& indices : tensors) require_index_dtype("index", indices);
  const Shape& shape = tensors[0].shape();
  const std::vector<int>& axes = advanced.axes;
  std::vector<int64_t> rest;
  std::vector<int> order = axes;
  for (int axis = 0; axis < y.shape().rank(); ++axis) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    order.push_back(axis);
    rest.push_back(y.shape()[axis]);
  }
  const std::span<const int64_t> before(rest.data(), static_cast<size_t>(advanced.at));
  const std::span<const int64_t> after(rest.data() + advanced.at, rest.size() - before.size());
  Tensor moved;  // [before, elements, after]
  if (axes.size() == 1 && axes[0] == advanced.at) {
    moved = pick(y, reshape(tensors[0], Shape{shape.elements()}), axes[0], {"index", advanced.sources[0]});
  } else {
    int64_t count = 0;
    const Tensor rows = table_rows(y, advanced, tensors, count);
    const Tensor table = reshape(std::ranges::is_sorted(order) ? y : permute(y, order), Shape{count, product(rest)});
    moved = gather(table, shape.rank() == 1 ? rows : reshape(rows, Shape{shape.elements()}));
    if (!before.empty())
      moved = permute(reshape(moved, Shape{shape.elements(), product(before), product(after)}), {1, 0, 2});
  }
  std::vector<int64_t> lengths(before.begin(), before.end());
  lengths.insert(lengths.end(), shape.lengths().begin(), shape.lengths().end());
  lengths.insert(lengths.end(), after.begin(), after.end());
  return reshape(moved, Shape(lengths));
}

// Masks without axes select all or nothing, and meet the index tensors as [1] or [0].
Tensor selected(const Tensor& y, const Advanced& advanced) {
  std::vector<Tensor> tensors = advanced.tensors;
  if (tensors.empty()) {
    if (!advanced.flag) return y;
    const Tensor one = expand_dims(y, advanced.at);
    return *advanced.flag ? one : slice(one, advanced.at, 0, 0);
  }
  if (advanced.flag) tensors.push_back(zeros(y.device(), Shape{*advanced.flag ? 1 : 0}, DType::i32));
  return gathered(y, advanced, broadcast_arrays(tensors));
}

// The axis of the result at which the axes of the index tensors go: that of the first of them, or the front if
// something else is between. Numbers next to index tensors count as such.
class Placement {
 public:
  void see(bool advanced, int axis) {
    if (!advanced) {
      over_ = over_ || begun_;
      return;
    }
    if (over_) apart_ = true;
    if (!begun_) first_ = axis;
    begun_ = true;
  }
  int at() const { return apart_ ? 0 : first_; }

 private:
  bool begun_ = false, over_ = false, apart_ = false;
  int first_ = 0;
};

Tensor number_sliced(const Tensor& y, int axis, int64_t number, const Shape& shape) {
  const int64_t length = shape[axis], place = number < 0 ? number + length : number;
  if (place < 0 || place >= length)
    throw bad_input("[index] index {} is outside axis {} of shape {}", number, axis, shape.to_string());
  return slice(y, axis, place, 1);
}

}  // namespace

// x [..., C], indices [..., K], values [..., K] to [..., C].
const Op kScatterSet = {
    .name = "scatter_set",
    .infer = like_first,
    // The value of the last index that is this position, or x.
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const int64_t columns = x.shape()[x.shape().rank() - 1], picks = a[1].shape()[x.shape().rank() - 1];
          const int64_t rows = x.shape().elements() / columns;
          const Tensor column = reshape(iota(x.device(), columns, DType::i32), Shape{columns, 1});
          const Tensor place = positions_of(a[1], columns, a.attributes);
          const Tensor hit = equal(reshape(place, Shape{rows, 1, picks}), column);  // [rows, C, K]
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
      const Tensor none = filled_like(indices, dy.shape(), -1);
      const Tensor last = record(kScatterSet, {none, indices, number}, a.attributes);
      const Tensor counts = equal(take_along_last(last, indices, a.attributes), number);
      return {record(kScatterSet, {dy, indices, filled_like(dy, picks, 0)}, a.attributes), Tensor(),
              where_or_zero(counts, take_along_last(dy, indices, a.attributes))};
    },
};

Tensor take(const Tensor& x, const Tensor& indices, int64_t axis) {
  require_plain("take", x);
  require_index_dtype("take", indices);
  const int along = x.shape().axis("take", axis);
  if (x.shape()[along] == 0 && indices.shape().elements() > 0)
    throw bad_index("[take] axis {} of shape {} has no elements", axis, x.shape().to_string());
  const Tensor y = pick(x, reshape(indices, Shape{indices.shape().elements()}), along, {"take", along});
  std::vector<int64_t> lengths = lengths_of(x);
  lengths.erase(lengths.begin() + along);
  lengths.insert(lengths.begin() + along, indices.shape().lengths().begin(), indices.shape().lengths().end());
  return reshape(y, Shape(lengths));
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis) {
  require_plain("put_along_axis", x);
  require_plain("put_along_axis", values);
  require_plain("put_along_axis", indices);
  const int along = x.shape().axis("put_along_axis", axis);
  std::vector<int64_t> lengths = lengths_of(x);
  if (indices.shape().rank() == x.shape().rank()) lengths[static_cast<size_t>(along)] = indices.shape()[along];
  if (!(indices.shape() == Shape(lengths)) || !(values.shape() == indices.shape())) {
    throw bad_input("[put_along_axis] indices {} and values {} do not fit x {} along axis {}",
                    indices.shape().to_string(), values.shape().to_string(), x.shape().to_string(), axis);
  }
  const IndexUse use{"put_along_axis", along};
  const Tensor places = readable_indices(indices, x.shape()[along], use);
  if (indices.shape().elements() == 0) return x;
  const Tensor y = record(
      kScatterSet, {axis_to_last(x, along), axis_to_last(places, along), axis_to_last(cast(values, x.dtype()), along)},
      index_attributes(use));
  return axis_from_last(y, along);
}

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  require_plain("index", x);
  const std::vector<Index> all = expanded(x, indices);
  const bool tensors = std::ranges::any_of(all, [](const Index& i) { return std::holds_alternative<Tensor>(i); });
  // First what is a view; index tensors then have axes of y.
  Tensor y = x;
  Advanced advanced;
  Placement placement;
  std::vector<int64_t> lengths;  // with numbers gone and new axes there
  int axis = 0;                  // of x
  for (const Index& index : all) {
    const auto* number = std::get_if<int64_t>(&index);
    const auto* tensor = std::get_if<Tensor>(&index);
    // The tensors that came before have axes in `lengths` which the result has not.
    const auto place = static_cast<int>(lengths.size() - advanced.axes.size());
    placement.see(tensor != nullptr || (number != nullptr && tensors), place);
    if (std::holds_alternative<Ellipsis>(index)) continue;
    if (std::holds_alternative<NewAxis>(index)) {
      lengths.push_back(1);
      continue;
    }
    if (tensor != nullptr && is_mask(*tensor)) {
      advanced.flag = advanced.flag.value_or(true) && to_host<uint8_t>(*tensor)[0] != 0;
      continue;
    }
    if (number != nullptr) {
      y = number_sliced(y, axis, *number, x.shape());
    } else if (const auto* part = std::get_if<Slice>(&index)) {
      y = sliced(y, axis, *part);
      lengths.push_back(y.shape()[axis]);
    } else {
      advanced.axes.push_back(static_cast<int>(lengths.size()));
      advanced.sources.push_back(axis);
      advanced.tensors.push_back(*tensor);
      lengths.push_back(x.shape()[axis]);
    }
    ++axis;
  }
  if (!(y.shape() == Shape(lengths))) y = reshape(y, Shape(lengths));
  advanced.at = placement.at();
  return selected(y, advanced);
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
  const Tensor number = cast(cumsum(first), DType::i32) - full(x.device(), Shape{}, 1, DType::i32);
  const Tensor inverse = put_along_axis(zeros(x.device(), Shape{count}, DType::i32), order, number, 0);
  return {.values = gather(sorted, begin),
          .indices = gather(order, begin),
          .inverse = reshape(inverse, x.shape()),
          .counts = end - begin};
}

}  // namespace gabbro
