#include "src/ops/rules.h"

#include <algorithm>

#include "src/ops/ops.h"
#include "src/ops/promotion.h"

namespace gabbro {

void require_defined(const char* op, const Tensor& x) {
  if (!x.defined()) throw bad_input("[{}] an input is not a tensor", op);
}

void require_plain(const char* op, const Tensor& x) {
  require_defined(op, x);
  if (!x.spec().packed && !is_quantized(x.dtype())) return;
  throw bad_input("[{}] does not take a {}{} matrix {}: only linear, embedding and dequantize do", op,
                  x.spec().packed ? "packed " : "", dtype_name(x.dtype()), x.shape().to_string());
}

void require_dtype(const char* op, const Tensor& x, std::initializer_list<DType> allowed) {
  require_defined(op, x);
  if (std::ranges::find(allowed, x.dtype()) != allowed.end()) return require_plain(op, x);
  std::string names;
  for (const DType dtype : allowed) names += (names.empty() ? "" : ", ") + std::string(dtype_name(dtype));
  throw bad_input("[{}] does not take {} of shape {} (only {})", op, dtype_name(x.dtype()), x.shape().to_string(),
                  names);
}

void require_rank(const char* op, const Tensor& x, int rank) {
  require_defined(op, x);
  if (x.shape().rank() != rank) throw bad_input("[{}] wants {} axes, not shape {}", op, rank, x.shape().to_string());
}

Tensor record_binary(const Op& op, const Tensor& a, const Tensor& b, std::initializer_list<DType> dtypes) {
  const auto [x, y] = promoted(op.name, a, b);
  require_dtype(op.name, x, dtypes);
  const Shape shape = broadcast_shapes(op.name, a.shape(), b.shape());
  std::vector<Tensor> inputs;  // without the copies of an initializer list
  inputs.reserve(2);
  inputs.push_back(broadcast_if_needed(x, shape));
  inputs.push_back(broadcast_if_needed(y, shape));
  return record(op, std::move(inputs));
}

Tensor broadcast_if_needed(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : broadcast_to(x, shape);
}

Shape with_last(const Shape& shape, int64_t length) {
  std::vector<int64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  lengths.back() = length;
  return Shape(lengths);
}

}  // namespace gabbro
