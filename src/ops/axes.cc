#include "gabbro/ops/axes.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"

namespace gabbro {

std::vector<int> Axes::of(const char* op, const Shape& shape) const {
  std::vector<int> result = in_order(op, shape);
  std::ranges::sort(result);
  return result;
}

std::vector<int> Axes::in_order(const char* op, const Shape& shape) const {
  std::vector<int> result;
  if (!axes_) {
    result.resize(static_cast<size_t>(shape.rank()));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (const int64_t axis : *axes_) {
    const int index = shape.axis(op, axis);
    if (std::ranges::find(result, index) != result.end())
      throw bad_input("[{}] axis {} is named twice for shape {}", op, axis, shape.to_string());
    result.push_back(index);
  }
  return result;
}

}  // namespace gabbro
