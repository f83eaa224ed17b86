// Other shapes of tensors, and tensors put together of parts. Moves along one axis are done on x viewed as
// [outer, axis, inner], so that no number of axes is too many.
#include <algorithm>
#include <numeric>

#include "src/ops/index_rules.h"
#include "src/ops/last_axis.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

struct Parts {
  int64_t outer = 1, length = 1, inner = 1;
};
Parts parts_of(const Tensor& x, int axis) {
  Parts parts{.length = x.shape()[axis]};
  for (int i = 0; i < axis; ++i) parts.outer *= x.shape()[i];
  for (int i = axis + 1; i < x.shape().rank(); ++i) parts.inner *= x.shape()[i];
  return parts;
}

Shape with_length(const Tensor& x, int axis, int64_t length) {
  std::vector<int64_t> lengths = lengths_of(x);
  lengths[static_cast<size_t>(axis)] = length;
  return Shape(lengths);
}

int64_t times(const char* op, const Tensor& x, int64_t length, int64_t count) {
  int64_t product = 0;
  if (count < 0) throw bad_input("[{}] shape {} cannot be there {} times", op, x.shape().to_string(), count);
  if (__builtin_mul_overflow(length, count, &product))
    throw bad_input("[{}] shape {} times {}: too many elements", op, x.shape().to_string(), count);
  return product;
}

// x with padding before and after it along an axis.
Tensor padded(const Tensor& x, int axis, int64_t before, int64_t after, PadMode mode, const Number& value) {
  if (before == 0 && after == 0) return x;
  const int64_t length = x.shape()[axis];
  if (mode == PadMode::kConstant) {
    std::vector<Tensor> parts;
    if (before > 0) parts.push_back(full(x.device(), with_length(x, axis, before), value, x.dtype()));
    parts.push_back(x);
    if (after > 0) parts.push_back(full(x.device(), with_length(x, axis, after), value, x.dtype()));
    return concat(parts, axis);
  }
  if (mode == PadMode::kReflect && std::max(before, after) >= length) {
    throw bad_input("[pad] {} and {} elements cannot be mirrored along axis {} of shape {}", before, after, axis,
                    x.shape().to_string());
  }
  if (length == 0) throw bad_input("[pad] axis {} of shape {} has no edge", axis, x.shape().to_string());
  int64_t total = 0;
  if (__builtin_add_overflow(before, after, &total) || __builtin_add_overflow(total, length, &total))
    throw bad_input("[pad] {} and {} elements are too many", before, after);
  const Tensor place = iota(x.device(), total, DType::i32, static_cast<double>(-before), 1);
  const double last = static_cast<double>(length - 1);
  if (mode == PadMode::kEdge) return pick(x, clamp(place, 0, last), axis, {"pad", axis});
  // |place| mirrors at 0, and last - |last - ...| at the end.
  const Tensor end = full(x.device(), Shape{}, last, DType::i32);
  return pick(x, sub(end, abs(sub(end, abs(place)))), axis, {"pad", axis});
}

}  // namespace

Tensor squeeze(const Tensor& x, const Axes& axes) {
  require_plain("squeeze", x);
  const std::vector<int> found = axes.of("squeeze", x.shape());
  const bool any_one = axes.are_all();
  std::vector<int64_t> lengths;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    const bool named = std::ranges::find(found, axis) != found.end();
    if (named && !any_one && x.shape()[axis] != 1)
      throw bad_input("[squeeze] axis {} of shape {} has not length 1", axis, x.shape().to_string());
    if (!named || x.shape()[axis] != 1) lengths.push_back(x.shape()[axis]);
  }
  return reshape(x, Shape(lengths));
}

Tensor expand_dims(const Tensor& x, const Axes& axes) {
  require_plain("expand_dims", x);
  const size_t rank = static_cast<size_t>(x.shape().rank()) + axes.count();
  const Shape shape(std::vector<int64_t>(rank, 1));
  const std::vector<int> places = axes.of("expand_dims", shape);
  std::vector<int64_t> lengths = lengths_of(x);
  for (const int place : places) lengths.insert(lengths.begin() + place, 1);
  return reshape(x, Shape(lengths));
}

Tensor moveaxis(const Tensor& x, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  require_plain("moveaxis", x);
  if (from.size() != to.size())
    throw bad_input("[moveaxis] {} axes to {} places of shape {}", from.size(), to.size(), x.shape().to_string());
  Axes(from).of("moveaxis", x.shape());  // none is named twice
  Axes(to).of("moveaxis", x.shape());
  std::vector<int> order(static_cast<size_t>(x.shape().rank()), -1), rest;
  for (size_t i = 0; i < from.size(); ++i)
    order[static_cast<size_t>(x.shape().axis("moveaxis", to[i]))] = x.shape().axis("moveaxis", from[i]);
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (std::ranges::find(order, axis) == order.end()) rest.push_back(axis);
  }
  auto next = rest.begin();
  for (int& axis : order) {
    if (axis < 0) axis = *next++;
  }
  return permute(x, order);
}

Tensor swapaxes(const Tensor& x, int64_t a, int64_t b) {
  require_plain("swapaxes", x);
  std::vector<int> order(static_cast<size_t>(x.shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  const int first = x.shape().axis("swapaxes", a), second = x.shape().axis("swapaxes", b);
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return permute(x, order);
}

Tensor matrix_transpose(const Tensor& x) {
  require_plain("matrix_transpose", x);
  if (x.shape().rank() < 2) throw bad_input("[matrix_transpose] shape {} has no two axes", x.shape().to_string());
  return swapaxes(x, -1, -2);
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  require_plain("flatten", x);
  const Shape shape = x.shape().rank() == 0 ? Shape{1} : x.shape();  // () becomes (1)
  const int begin = shape.axis("flatten", first), end = shape.axis("flatten", last);
  if (begin > end) throw bad_input("[flatten] axis {} is behind axis {}", first, last);
  std::vector<int64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  int64_t product = 1;
  for (int axis = begin; axis <= end; ++axis) product *= shape[axis];
  lengths.erase(lengths.begin() + begin, lengths.begin() + end + 1);
  lengths.insert(lengths.begin() + begin, product);
  return reshape(x, Shape(lengths));
}

std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& all) {
  Shape shape;
  for (const Tensor& x : all) {
    require_plain("broadcast_arrays", x);
    shape = broadcast_shapes("broadcast_arrays", shape, x.shape());
  }
  std::vector<Tensor> results;
  for (const Tensor& x : all) results.push_back(x.shape() == shape ? x : broadcast_to(x, shape));
  return results;
}

std::vector<Tensor> split_at(const Tensor& x, const std::vector<int64_t>& places, int64_t axis) {
  require_plain("split", x);
  const int along = x.shape().axis("split", axis);
  const int64_t length = x.shape()[along];
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length); };
  std::vector<Tensor> results;
  int64_t begin = 0;
  for (size_t i = 0; i <= places.size(); ++i) {
    const int64_t end = i == places.size() ? length : place(places[i]);
    results.push_back(slice(x, along, begin, std::max<int64_t>(end - begin, 0)));
    begin = end;
  }
  return results;
}

// Limit on empty parts, since a list of very many would exhaust memory; far more than programs need.
constexpr int64_t kMostEmptyParts = 1 << 16;

std::vector<Tensor> split(const Tensor& x, int64_t parts, int64_t axis) {
  require_plain("split", x);
  const int64_t length = x.shape()[x.shape().axis("split", axis)];
  if (parts < 1 || length % parts != 0 || parts > std::max(length, kMostEmptyParts))
    throw bad_input("[split] axis {} of shape {} has no {} parts of equal length", axis, x.shape().to_string(), parts);
  std::vector<int64_t> places;
  for (int64_t i = 1; i < parts; ++i) places.push_back(i * (length / parts));
  return split_at(x, places, axis);
}

std::vector<Tensor> unstack(const Tensor& x, int64_t axis) {
  require_plain("unstack", x);
  const int along = x.shape().axis("unstack", axis);
  std::vector<Tensor> results;
  for (int64_t i = 0; i < x.shape()[along]; ++i) results.push_back(squeeze(slice(x, along, i, 1), along));
  return results;
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw bad_input("[stack] nothing to stack");
  std::vector<Tensor> widened;
  for (const Tensor& part : parts) {
    require_plain("stack", part);
    if (!(part.shape() == parts[0].shape())) {
      throw bad_input("[stack] shapes {} and {} differ", parts[0].shape().to_string(), part.shape().to_string());
    }
    widened.push_back(expand_dims(part, axis));
  }
  return concat(widened, axis);
}

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths, PadMode mode, const Number& value) {
  require_plain("pad", x);
  const auto rank = static_cast<size_t>(x.shape().rank());
  if (widths.size() != rank && widths.size() != 1)
    throw bad_input("[pad] {} widths for shape {}", widths.size(), x.shape().to_string());
  Tensor y = x;
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto [before, after] = widths[widths.size() == 1 ? 0 : axis];
    if (before < 0 || after < 0) throw bad_input("[pad] widths of {} and {}", before, after);
    y = padded(y, static_cast<int>(axis), before, after, mode, value);
  }
  return y;
}

Tensor repeat(const Tensor& x, int64_t count, std::optional<int64_t> axis) {
  require_plain("repeat", x);
  if (!axis) return repeat(reshape(x, Shape{x.shape().elements()}), count, 0);
  const int along = x.shape().axis("repeat", *axis);
  const Shape shape = with_length(x, along, times("repeat", x, x.shape()[along], count));
  const Parts parts = parts_of(x, along);
  const Tensor pieces = reshape(x, Shape{parts.outer, parts.length, 1, parts.inner});
  return reshape(broadcast_to(pieces, Shape{parts.outer, parts.length, count, parts.inner}), shape);
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& counts) {
  require_plain("tile", x);
  std::vector<int64_t> lengths = lengths_of(x), all = counts;
  lengths.insert(lengths.begin(), all.size() > lengths.size() ? all.size() - lengths.size() : 0, 1);
  all.insert(all.begin(), lengths.size() - all.size(), 1);
  Tensor y = reshape(x, Shape(lengths));
  for (int axis = y.shape().rank() - 1; axis >= 0; --axis) {
    const int64_t count = all[static_cast<size_t>(axis)];
    const Shape shape = with_length(y, axis, times("tile", x, y.shape()[axis], count));
    if (count == 1) continue;
    const Parts parts = parts_of(y, axis);
    const int64_t whole = parts.length * parts.inner;
    y = reshape(broadcast_to(reshape(y, Shape{parts.outer, 1, whole}), Shape{parts.outer, count, whole}), shape);
  }
  return y;
}

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const Axes& axes) {
  require_plain("roll", x);
  const std::vector<int> found = axes.in_order("roll", x.shape());
  if (found.size() != shifts.size() && shifts.size() != 1)
    throw bad_input("[roll] {} shifts for {} axes of shape {}", shifts.size(), found.size(), x.shape().to_string());
  Tensor y = x;
  for (size_t i = 0; i < found.size(); ++i) {
    const int64_t length = x.shape()[found[i]];
    if (length == 0) continue;
    const int64_t shift = shifts[shifts.size() == 1 ? 0 : i] % length, first = (length - shift) % length;
    if (first == 0) continue;
    y = concat({slice(y, found[i], first, length - first), slice(y, found[i], 0, first)}, found[i]);
  }
  return y;
}

Tensor roll(const Tensor& x, int64_t shift) {
  require_plain("roll", x);
  return reshape(roll(reshape(x, Shape{x.shape().elements()}), {shift}, 0), x.shape());
}

}  // namespace gabbro
