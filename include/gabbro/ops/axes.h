// The axes that an op works over, as a caller names them: all of them, one, or several.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "gabbro/tensor/shape.h"

#pragma GCC visibility push(default)
namespace gabbro {

class Axes {
 public:
  Axes() = default;  // all axes
  Axes(int64_t axis) : axes_(std::vector{axis}) {}
  Axes(int axis) : Axes(int64_t{axis}) {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  explicit Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}  // an empty list: none

  // In ascending order, each in [0, rank). Throws bad_input "[op] ..." for an axis that the shape does not have, or
  // that is named twice.
  std::vector<int> of(const char* op, const Shape& shape) const;
  // As of(), in the order that the caller gave.
  std::vector<int> in_order(const char* op, const Shape& shape) const;
  bool are_all() const { return !axes_; }
  size_t count() const { return axes_ ? axes_->size() : 0; }  // of those named

 private:
  std::optional<std::vector<int64_t>> axes_;
};

inline const Axes kAllAxes;
inline constexpr bool kKeepDims = true;  // reduced axes stay, with length 1

}  // namespace gabbro
#pragma GCC visibility pop
