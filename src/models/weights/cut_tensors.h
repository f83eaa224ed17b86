// Parts of tensors whose ranges a mixer chooses itself, as one device of a tensor split has them. Without a split the
// tensors are whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

// Mixers cut channels at multiples of this where there are enough of them: the elements of the longest block.
inline constexpr int64_t kChannelUnit = 256;

using IndexRanges = std::vector<IndexRange>;

// `range` of items with `size` elements each, as elements, after `before` of them.
inline IndexRange elements_of(const IndexRange& range, int64_t size, int64_t before = 0) {
  return {before + range.first * size, range.count * size};
}

// A tensor in f32 of WeightSource::tensor() with the first dimension cut to `rows`, in their order.
Tensor tensor_rows(WeightSource& weights, const std::string& name, const std::vector<int64_t>& shape,
                   const IndexRanges& rows, const TransformersLayout& theirs = {});
// A layer of WeightSource::linear() that gives only the results `rows`, in their order. `size` is the whole matrix.
std::shared_ptr<nn::Linear> linear_rows(WeightSource& weights, const std::string& prefix, MatrixSize size,
                                        const IndexRanges& rows, const TransformersLayout& theirs = {});
// Likewise with inputs [..., K of `columns`]. The results are to be summed over the devices.
std::shared_ptr<nn::Linear> linear_columns(WeightSource& weights, const std::string& prefix, MatrixSize size,
                                           const IndexRanges& columns, const TransformersLayout& theirs = {});

// x [..., K] with zeros: [..., before + K + after].
Tensor padded_columns(const Tensor& x, int64_t before, int64_t after);

}  // namespace gabbro::llm
