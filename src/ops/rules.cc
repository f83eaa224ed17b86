#include "src/ops/rules.h"

#include <algorithm>

namespace gabbro {

void require_dtype(const char* op, const Tensor& x, std::initializer_list<DType> allowed) {
  if (std::ranges::find(allowed, x.dtype()) != allowed.end()) return;
  std::string names;
  for (const DType dtype : allowed) names += (names.empty() ? "" : ", ") + std::string(dtype_name(dtype));
  throw bad_input("[{}] does not take {} (only {})", op, dtype_name(x.dtype()), names);
}

void require_rank(const char* op, const Tensor& x, int rank) {
  if (x.shape().rank() != rank) throw bad_input("[{}] wants {} axes, not shape {}", op, rank, x.shape().to_string());
}

Shape with_last(const Shape& shape, int64_t length) {
  std::vector<int64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  lengths.back() = length;
  return Shape(lengths);
}

}  // namespace gabbro
