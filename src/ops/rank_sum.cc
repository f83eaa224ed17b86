// Sums over devices that compute one thing together.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// Every backend with such sums has a kernel: they have no composition on one device.
const Op kRankSum = {.name = "rank_sum", .infer = like_first};

Tensor rank_sum(const Tensor& x, int64_t sums, size_t rank) {
  require_dtype("rank_sum", x, {DType::f32, DType::f16, DType::bf16});
  return record(kRankSum, {x}, {{"sums", sums}, {"rank", static_cast<int64_t>(rank)}});
}

}  // namespace gabbro
