#include "src/engine/largest_ids.h"

#include "src/ops/ops.h"

namespace gabbro {

Tensor largest_ids(const Tensor& logits) { return finite_ids(logits, argmax(logits, -1, true)); }

Tensor finite_ids(const Tensor& logits, const Tensor& places) {
  return where(isfinite(take_along_axis(logits, places)), places, scalar(logits.device(), -1, DType::i32));
}

}  // namespace gabbro
