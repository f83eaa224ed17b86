#include "src/ops/last_axis.h"

#include <numeric>

#include "src/ops/ops.h"

namespace gabbro {
namespace {

// The axes 0, 1, ..., with the one at `from` moved to `to`.
std::vector<int> moved(int rank, int from, int to) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  axes.erase(axes.begin() + from);
  axes.insert(axes.begin() + to, from);
  return axes;
}

}  // namespace

Tensor axis_to_last(const Tensor& x, int axis) {
  const int last = x.shape().rank() - 1;
  return axis == last ? x : permute(x, moved(last + 1, axis, last));
}

Tensor axis_from_last(const Tensor& x, int axis) {
  const int last = x.shape().rank() - 1;
  return axis == last ? x : permute(x, moved(last + 1, last, axis));
}

}  // namespace gabbro
