#include "gabbro/ops/products.h"

#include <algorithm>

#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

int64_t length(const Tensor& x, int axis) { return x.shape()[x.shape().axis("tensordot", axis)]; }

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& axes_of_a,
                 const std::vector<int64_t>& axes_of_b) {
  require_plain("tensordot", a);
  require_plain("tensordot", b);
  const std::vector<int> from_a = Axes(axes_of_a).in_order("tensordot", a.shape());
  const std::vector<int> from_b = Axes(axes_of_b).in_order("tensordot", b.shape());
  bool fits = from_a.size() == from_b.size();
  int64_t summed = 1;
  for (size_t i = 0; fits && i < from_a.size(); ++i) {
    fits = a.shape()[from_a[i]] == b.shape()[from_b[i]];
    summed *= a.shape()[from_a[i]];
  }
  if (!fits) {
    throw bad_input("[tensordot] {} axes of shape {} do not fit {} of {}", from_a.size(), a.shape().to_string(),
                    from_b.size(), b.shape().to_string());
  }
  std::vector<int64_t> lengths;
  int64_t rows = 1, columns = 1;
  const auto rest_of = [&](const Tensor& x, const std::vector<int>& axes, int64_t& product) {
    std::vector<int> rest;
    for (int axis = 0; axis < x.shape().rank(); ++axis) {
      if (std::ranges::find(axes, axis) != axes.end()) continue;
      rest.push_back(axis);
      lengths.push_back(x.shape()[axis]);
      product *= x.shape()[axis];
    }
    return rest;
  };
  std::vector<int> order_a = rest_of(a, from_a, rows), order_b = from_b;
  order_a.insert(order_a.end(), from_a.begin(), from_a.end());
  const std::vector<int> rest_b = rest_of(b, from_b, columns);
  order_b.insert(order_b.end(), rest_b.begin(), rest_b.end());
  const Tensor left = reshape(permute(a, order_a), Shape{rows, summed});
  const Tensor right = reshape(permute(b, order_b), Shape{summed, columns});
  return reshape(matmul(left, right), Shape(lengths));
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count) {
  require_plain("tensordot", a);
  require_plain("tensordot", b);
  if (count < 0 || count > a.shape().rank() || count > b.shape().rank()) {
    throw bad_input("[tensordot] {} axes of shapes {} and {}", count, a.shape().to_string(), b.shape().to_string());
  }
  std::vector<int64_t> last, first;
  for (int64_t i = 0; i < count; ++i) {
    last.push_back(i - count);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  require_plain("outer", a);
  require_plain("outer", b);
  return mul(reshape(a, Shape{a.shape().elements(), 1}), reshape(b, Shape{1, b.shape().elements()}));
}

Tensor dot(const Tensor& a, const Tensor& b) {
  require_plain("dot", a);
  require_plain("dot", b);
  if (a.shape().rank() == 0 || b.shape().rank() == 0) return mul(a, b);
  const int64_t of_b = b.shape().rank() == 1 ? 0 : -2;
  if (length(a, -1) != length(b, static_cast<int>(of_b)))
    throw bad_input("[dot] shapes {} and {} do not fit", a.shape().to_string(), b.shape().to_string());
  return tensordot(a, b, {-1}, {of_b});
}

Tensor vecdot(const Tensor& a, const Tensor& b, int64_t axis) {
  require_plain("vecdot", a);
  require_plain("vecdot", b);
  const int of_a = a.shape().axis("vecdot", axis), of_b = b.shape().axis("vecdot", axis);
  if (axis >= 0 || a.shape()[of_a] != b.shape()[of_b]) {
    throw bad_input("[vecdot] axis {} of shapes {} and {}: a negative one, along which they are equally long", axis,
                    a.shape().to_string(), b.shape().to_string());
  }
  const auto [x, y] = promoted("vecdot", a, b);
  const auto wide = [](const Tensor& t) { return is_half(t.dtype()) ? cast(t, DType::f32) : t; };  // no inf - inf
  return cast(sum(mul(wide(x), wide(y)), axis), x.dtype());
}

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  require_plain("bilinear", x1);
  require_plain("bilinear", x2);
  require_rank("bilinear", weight, 3);
  const int rank = x1.shape().rank();
  bool fits = rank >= 1 && x2.shape().rank() == rank && x1.shape()[rank - 1] == weight.shape()[1] &&
              x2.shape()[rank - 1] == weight.shape()[2];
  for (int axis = 0; fits && axis < rank - 1; ++axis) fits = x1.shape()[axis] == x2.shape()[axis];
  if (!fits) {
    throw bad_input("[bilinear] x1 {} and x2 {} do not fit weight {}", x1.shape().to_string(), x2.shape().to_string(),
                    weight.shape().to_string());
  }
  const int64_t outputs = weight.shape()[0], i = weight.shape()[1], j = weight.shape()[2];
  if (bias.defined() && !(bias.shape() == Shape{outputs})) {
    throw bad_input("[bilinear] bias {} does not match weight {}", bias.shape().to_string(),
                    weight.shape().to_string());
  }
  std::vector<int64_t> lengths = lengths_of(x1);
  lengths.pop_back();
  int64_t rows = 1;
  for (const int64_t extent : lengths) rows *= extent;
  lengths.push_back(outputs);
  const Tensor table = reshape(permute(weight, {1, 0, 2}), Shape{i, outputs * j});
  const Tensor half = reshape(matmul(reshape(x1, Shape{rows, i}), table), Shape{rows, outputs, j});
  const Tensor y = reshape(matmul(half, reshape(x2, Shape{rows, j, 1})), Shape(lengths));
  return bias.defined() ? y + bias : y;
}

}  // namespace gabbro
