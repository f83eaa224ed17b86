// Shapes and strided layouts: the arrangement of a tensor's elements in its storage. No arithmetic on elements.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace gabbro {

// The lengths of up to six axes, slowest first. Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> lengths) : Shape(std::span<const int64_t>(lengths.begin(), lengths.size())) {}
  explicit Shape(
      std::span<const int64_t> lengths);  // throws bad_input: more than six axes, a negative length, overflow

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return lengths_[static_cast<size_t>(axis)]; }
  int64_t elements() const;
  std::span<const int64_t> lengths() const { return {lengths_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "(2, 5)"

  // 0 <= result < rank for axis in [-rank, rank); otherwise throws bad_input "[op] axis 3 is out of range for shape (2,
  // 5)".
  int axis(const char* op, int64_t axis) const;

 private:
  std::array<int64_t, kMaxRank> lengths_{};
  int rank_ = 0;
};

using Strides = std::array<int64_t, Shape::kMaxRank>;

// Element (i, j, ...) of the tensor is element offset + i·strides[0] + j·strides[1] + ... of its storage.
struct Layout {
  Shape shape;
  Strides strides{};
  int64_t offset = 0;

  static Layout contiguous(const Shape& shape);
  bool is_contiguous() const;
};

// Views. Each gives the layout of the result over the same storage.
Layout permute_layout(const Layout& layout, std::span<const int> axes);
Layout broadcast_layout(const Layout& layout,
                        const Shape& shape);  // right-aligned, as NumPy does; assumes it can be done
Layout slice_layout(const Layout& layout, int axis, int64_t start, int64_t length, int64_t step);
std::optional<Layout> reshape_layout(const Layout& layout, const Shape& shape);  // none: needs a copy

// The shape that both broadcast to; throws bad_input that names the op and both shapes where there is none.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace gabbro
