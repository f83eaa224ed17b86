// Attention over tensors (Vaswani et al. 2017). In f16 and bf16, and in f32 where it is asked for, it is an op, for
// which a device may have a kernel that never writes the scores to memory (Dao 2023); else its composition.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gabbro/ops/products.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

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

void require_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  for (const Tensor* x : {&q, &k, &v}) require_dtype(kName, *x, kFloating);
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
    throw bad_input("[{}] q {}, k {} and v {} do not fit", kName, q.shape().to_string(), k.shape().to_string(),
                    v.shape().to_string());
  }
  if (!mask.defined()) return;
  std::vector<int64_t> lengths = lengths_of(q);
  lengths.back() = k.shape()[rank - 2];
  const Shape scores(lengths);
  if (broadcast_shapes(kName, mask.shape(), scores) != scores) {
    throw bad_input("[{}] a mask {} does not fit scores {}", kName, mask.shape().to_string(), scores.to_string());
  }
}

// The mask of the keys that a query attends to, or null.
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

double scale_of(const Tensor& q, const DotProductAttention& options) {
  const int64_t depth = q.shape()[q.shape().rank() - 1];
  return options.scale.value_or(depth > 0 ? 1 / std::sqrt(static_cast<double>(depth)) : 0);
}

Tensor composition(const Tensor& q, const Tensor& k, const Tensor& v, const DotProductAttention& options) {
  const int rank = q.shape().rank();
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const int64_t groups = rank > 2 ? k.shape()[rank - 3] : 1;
  const bool heads = rank > 2 && q.shape()[rank - 3] != groups;
  const auto part = [&](const Tensor& x) { return heads ? grouped(cast(x, wide), groups) : cast(x, wide); };

  Tensor scores = matmul(part(q) * scale_of(q, options), matrix_transpose(part(k)));  // [..., L, S]
  const Tensor mask = seen(q, k, options);
  Tensor weights;
  if (!mask.defined()) {
    weights = softmax(scores);
  } else {
    const Tensor never = full(q.device(), Shape{}, -std::numeric_limits<double>::infinity(), wide);
    const Tensor zero = full(q.device(), Shape{}, 0, wide);
    const Tensor own = heads && mask.shape().rank() > 2 ? grouped(mask, groups) : mask;
    // Weights of what is not seen are zeros, which softmax says only where something is seen.
    if (mask.dtype() == DType::boolean) {
      weights = where(own, softmax(where(own, scores, never)), zero);
    } else {
      scores = scores + cast(own, wide);
      const Tensor hidden = equal(scores, never);  // has no gradient, also where a query attends to nothing
      weights = where(hidden, zero, softmax(where(hidden, never, scores)));
    }
  }
  std::vector<int64_t> lengths = lengths_of(q);
  lengths.back() = v.shape()[rank - 1];
  return cast(reshape(matmul(weights, part(v)), Shape(lengths)), dtype);
}

// [L, D] and [H, L, D] as [B, H, L, D].
Tensor of_batches(const Tensor& x) {
  std::vector<int64_t> lengths = lengths_of(x);
  lengths.insert(lengths.begin(), static_cast<size_t>(4 - x.shape().rank()), 1);
  return reshape(x, Shape(lengths));
}

}  // namespace

// Inputs: q, k, v(, mask), all [B, H or G, rows, columns]. Attributes: scale, causal.
const Op kDotProductAttention = {
    .name = kName,
    .infer =
        [](const Args& a) {
          const Shape& q = a[0].shape();
          return result(Shape{q[0], q[1], q[2], a[2].shape()[3]}, a[0].dtype());
        },
    .compose =
        [](const Args& a) {
          return std::vector{composition(a[0], a[1], a[2],
                                         {.mask = a.size() == 4 ? a[3] : Tensor(),
                                          .causal = a.attributes.integer("causal") != 0,
                                          .scale = a.attributes.real("scale")})};
        },
};

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const DotProductAttention& options) {
  require_attention(q, k, v, options.mask);
  const bool is_half_precision = (q.dtype() == DType::f16 || q.dtype() == DType::bf16) && k.dtype() == q.dtype() &&
                                 v.dtype() == q.dtype() && q.shape().rank() <= 4;
  const bool is_whole = options.whole && q.dtype() == DType::f32 && k.dtype() == DType::f32 &&
                        v.dtype() == DType::f32 && q.shape().rank() <= 4;
  if (!is_half_precision && !is_whole) return composition(q, k, v, options);
  std::vector<Tensor> inputs{of_batches(q), of_batches(k), of_batches(v)};
  if (options.mask.defined()) {
    const DType dtype = options.mask.dtype();
    const bool plain = dtype == DType::boolean || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    inputs.push_back(of_batches(plain ? options.mask : cast(options.mask, DType::f32)));
  }
  const Tensor y = record(kDotProductAttention, std::move(inputs),
                          {{"scale", scale_of(q, options)}, {"causal", int64_t{options.causal}}});
  std::vector<int64_t> lengths = lengths_of(q);
  lengths.back() = v.shape()[v.shape().rank() - 1];
  return y.shape() == Shape(lengths) ? y : reshape(y, Shape(lengths));
}

}  // namespace gabbro
