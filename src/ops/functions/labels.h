// Labels: numbers of classes, of any integer dtype. Negative ones are out of range; `ignored` counts for nothing.
#pragma once

#include <cstdint>

#include "src/ops/index_rules.h"

namespace gabbro {

inline constexpr int64_t kNoLabel = INT64_MIN;  // for `ignored`

// bool of the labels' shape: true if not `ignored`.
Tensor counted_labels(const Tensor& labels, int64_t ignored);

// The labels as i32 within [0, classes), 0 for an ignored one. One out of range raises IndexError, as in pick.h.
Tensor label_positions(const Tensor& labels, int64_t classes, const IndexUse& use, int64_t ignored);

// x [N, V], labels [N, 1] -> [N, 1]: x[n, labels[n]], 0 for an ignored label.
Tensor take_labels(const Tensor& x, const Tensor& labels, const IndexUse& use, int64_t ignored);

}  // namespace gabbro
