#include "src/ops/functions/labels.h"

#include "src/ops/ops.h"

namespace gabbro {

Tensor counted_labels(const Tensor& labels, int64_t ignored) {
  const Tensor wide = labels.dtype() == DType::i64 ? labels : cast(labels, DType::i32);  // holds `ignored`
  return not_equal(wide, full(labels.device(), Shape{}, ignored, wide.dtype()));
}

Tensor label_positions(const Tensor& labels, int64_t classes, const IndexUse& use, int64_t ignored) {
  return positions_of(labels, classes, label_attributes(use, ignored));
}

Tensor take_labels(const Tensor& x, const Tensor& labels, const IndexUse& use, int64_t ignored) {
  const Attributes attributes = label_attributes(use, ignored);
  return take_along_last(x, readable_indices(labels, x.shape()[1], use, attributes), attributes);
}

}  // namespace gabbro
