#include "src/ops/products.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/ops/arrays.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

std::vector<int64_t> lengths_of(const Tensor& x) { return {x.shape().lengths().begin(), x.shape().lengths().end()}; }

int64_t length(const Tensor& x, int axis) { return x.shape()[x.shape().axis("tensordot", axis)]; }

// [..., G·r, M, N] as [..., G, r, M, N]; one head for all as [..., 1, 1, M, N].
Tensor grouped(const Tensor& x, int64_t groups) {
  const int rank = x.shape().rank();
  std::vector<int64_t> lengths = lengths_of(x);
  if (rank < 3) lengths.insert(lengths.begin(), 1);
  const int64_t heads = lengths[lengths.size() - 3], parts = heads == 1 ? 1 : groups;
  lengths[lengths.size() - 3] = heads / std::max<int64_t>(1, parts);
  lengths.insert(lengths.end() - 3, parts);
  return reshape(x, Shape(lengths));
}

void require_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const char* op = "scaled_dot_product_attention";
  for (const Tensor* x : {&q, &k, &v}) require_dtype(op, *x, {DType::f32, DType::f16, DType::bf16, DType::f64});
  const int rank = q.shape().rank();
  bool fits = rank >= 2 && k.shape().rank() == rank && v.shape().rank() == rank;
  for (int axis = 0; fits && axis < rank - 3; ++axis)
    fits = k.shape()[axis] == q.shape()[axis] && v.shape()[axis] == q.shape()[axis];
  fits = fits && k.shape()[rank - 1] == q.shape()[rank - 1] && v.shape()[rank - 2] == k.shape()[rank - 2];
  if (fits && rank > 2) {
    const int64_t heads = q.shape()[rank - 3], groups = k.shape()[rank - 3];
    fits = v.shape()[rank - 3] == groups && (groups == 0 ? heads == 0 : heads % groups == 0);
  }
  if (!fits) {
    throw bad_input("[{}] q {}, k {} and v {} do not fit", op, q.shape().to_string(), k.shape().to_string(),
                    v.shape().to_string());
  }
}

// Which keys a query sees, or null.
Tensor seen(const Tensor& q, const Tensor& k, const DotProductAttention& options) {
  Tensor mask = options.mask;
  if (options.causal) {
    const int rank = q.shape().rank();
    const Tensor before = tri(q.device(), q.shape()[rank - 2], k.shape()[rank - 2], 0, DType::boolean);
    if (!mask.defined()) return before;
    if (mask.dtype() == DType::boolean) return logical_and(mask, before);
    const double never = -std::numeric_limits<double>::infinity();
    return where(before, mask, full(mask.device(), Shape{}, never, mask.dtype()));
  }
  return mask;
}

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
  const Tensor products = mul(a, b);
  return cast(sum(products, axis), products.dtype());
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

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const DotProductAttention& options) {
  require_attention(q, k, v);
  const int rank = q.shape().rank();
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const int64_t groups = rank > 2 ? k.shape()[rank - 3] : 1;
  const bool heads = rank > 2 && q.shape()[rank - 3] != groups;
  const auto part = [&](const Tensor& x) { return heads ? grouped(cast(x, wide), groups) : cast(x, wide); };
  const int64_t depth = q.shape()[rank - 1];
  const double scale = options.scale.value_or(depth > 0 ? 1 / std::sqrt(static_cast<double>(depth)) : 0);

  Tensor scores = matmul(part(q) * scale, matrix_transpose(part(k)));  // [..., L, S]
  const Tensor mask = seen(q, k, options);
  Tensor weights;
  if (!mask.defined()) {
    weights = softmax(scores);
  } else {
    const Shape shape =
        broadcast_shapes("scaled_dot_product_attention", mask.shape(), Shape{q.shape()[rank - 2], k.shape()[rank - 2]});
    const Tensor allowed = heads && shape.rank() > 2 ? grouped(mask, groups) : mask;
    if (mask.dtype() != DType::boolean) {
      weights = softmax(scores + cast(allowed, wide));
    } else {
      const double never = -std::numeric_limits<double>::infinity();
      const Tensor hidden = softmax(where(allowed, scores, full(q.device(), Shape{}, never, wide)));
      weights = where(allowed, hidden, full(q.device(), Shape{}, 0, wide));
    }
  }
  std::vector<int64_t> lengths = lengths_of(q);
  lengths.back() = v.shape()[rank - 1];
  return cast(reshape(matmul(weights, part(v)), Shape(lengths)), dtype);
}

}  // namespace gabbro
