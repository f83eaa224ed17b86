#include "src/tensor/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace gabbro {

Shape::Shape(std::span<const int64_t> lengths) : rank_(static_cast<int>(lengths.size())) {
  if (lengths.size() > kMaxRank) throw bad_input("shape ({}): more than {} axes", fmt::join(lengths, ", "), kMaxRank);
  int64_t product = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) throw bad_input("shape ({}): negative length", fmt::join(lengths, ", "));
    lengths_[i] = lengths[i];
    if (__builtin_mul_overflow(product, std::max<int64_t>(lengths[i], 1), &product) || product > (int64_t{1} << 48)) {
      throw bad_input("shape ({}): too many elements", fmt::join(lengths, ", "));
    }
  }
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t length : lengths()) product *= length;
  return product;
}

bool Shape::operator==(const Shape& other) const { return std::ranges::equal(lengths(), other.lengths()); }

std::string Shape::to_string() const {
  return rank_ == 1 ? fmt::format("({},)", lengths_[0]) : fmt::format("({})", fmt::join(lengths(), ", "));
}

int Shape::axis(const char* op, int64_t axis) const {
  if (axis < -rank_ || axis >= rank_)
    throw bad_input("[{}] axis {} is out of range for shape {}", op, axis, to_string());
  return static_cast<int>(axis < 0 ? axis + rank_ : axis);
}

Layout Layout::contiguous(const Shape& shape) {
  Layout layout{.shape = shape};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    layout.strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return layout;
}

bool Layout::is_contiguous() const {
  if (shape.elements() == 0) return true;
  int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && strides[static_cast<size_t>(axis)] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

Layout permute_layout(const Layout& layout, std::span<const int> axes) {
  std::array<int64_t, Shape::kMaxRank> lengths{};
  Layout result{.offset = layout.offset};
  for (size_t i = 0; i < axes.size(); ++i) {
    lengths[i] = layout.shape[axes[i]];
    result.strides[i] = layout.strides[static_cast<size_t>(axes[i])];
  }
  result.shape = Shape(std::span<const int64_t>(lengths.data(), axes.size()));
  return result;
}

Layout broadcast_layout(const Layout& layout, const Shape& shape) {
  Layout result{.shape = shape, .offset = layout.offset};
  const int shift = shape.rank() - layout.shape.rank();
  for (int axis = shift; axis < shape.rank(); ++axis) {
    const bool repeated = layout.shape[axis - shift] == 1 && shape[axis] != 1;
    result.strides[static_cast<size_t>(axis)] = repeated ? 0 : layout.strides[static_cast<size_t>(axis - shift)];
  }
  return result;
}

Layout slice_layout(const Layout& layout, int axis, int64_t start, int64_t length, int64_t step) {
  std::array<int64_t, Shape::kMaxRank> lengths{};
  std::ranges::copy(layout.shape.lengths(), lengths.begin());
  const auto index = static_cast<size_t>(axis);
  lengths[index] = length;
  Layout result = layout;
  result.shape = Shape(std::span<const int64_t>(lengths.data(), layout.shape.lengths().size()));
  result.offset += start * layout.strides[index];
  result.strides[index] *= step;
  return result;
}

std::optional<Layout> reshape_layout(const Layout& layout, const Shape& shape) {
  Layout result = Layout::contiguous(shape);
  result.offset = layout.offset;
  if (layout.is_contiguous()) return result;
  // Walk both shapes from the slowest axis in groups of equal product; inside a group the old axes must be one run.
  // Old axes of length 1 are left out: their strides mean nothing.
  std::vector<std::pair<int64_t, int64_t>> old_axes;  // length and stride
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    if (layout.shape[axis] != 1) old_axes.emplace_back(layout.shape[axis], layout.strides[static_cast<size_t>(axis)]);
  }
  size_t old_axis = 0;
  int new_axis = 0;
  const size_t old_rank = old_axes.size();
  const int new_rank = shape.rank();
  while (old_axis < old_rank && new_axis < new_rank) {
    size_t old_end = old_axis + 1;
    int new_end = new_axis + 1;
    int64_t old_product = old_axes[old_axis].first;
    int64_t new_product = shape[new_axis];
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= old_axes[old_end++].first;
      } else {
        new_product *= shape[new_end++];
      }
    }
    for (size_t axis = old_axis; axis + 1 < old_end; ++axis) {
      if (old_axes[axis].second != old_axes[axis + 1].first * old_axes[axis + 1].second) return std::nullopt;
    }
    int64_t stride = old_axes[old_end - 1].second;
    for (int axis = new_end - 1; axis >= new_axis; --axis) {
      result.strides[static_cast<size_t>(axis)] = stride;
      stride *= shape[axis];
    }
    old_axis = old_end;
    new_axis = new_end;
  }
  return result;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  if (b.rank() == 0 || a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::kMaxRank> lengths{};
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw bad_input("[{}] shapes {} and {} cannot be broadcast together", op, a.to_string(), b.to_string());
    }
    lengths[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(lengths.data(), static_cast<size_t>(rank)));
}

}  // namespace gabbro
