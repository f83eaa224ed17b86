// Strided layouts: the arrangement of a tensor's elements in its storage. No arithmetic on elements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "gabbro/tensor/shape.h"

namespace gabbro {

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

// The shape that both broadcast to; throws bad_input that names the op and both shapes if no such shape exists.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace gabbro
