#include "backends/gpu/ops/library_matrix.h"

#include <algorithm>
#include <string>

#include "backends/gpu/pack.h"
#include "kernels/linear/packing.h"
#include "src/base/converted_weights.h"

namespace gabbro::gpu {

std::optional<LibraryMatrix> LibraryMatrix::make(const std::string& library, const abi::TensorView& weight,
                                                 int64_t tokens, int64_t depth, const MakeContext& context) {
  LibraryMatrix matrix;
  const int64_t rows = weight.shape[0];
  matrix.columns_ = weight.shape[1];
  int64_t slice_rows = rows;
  const bool converted = weight.dtype != DType::f16;
  if (converted) {
    const auto most = static_cast<int64_t>(context.free_memory() / 8);
    for (const int64_t weights : {kConvertedWeights, kFewConvertedWeights}) {
      slice_rows = converted_rows(rows, matrix.columns_, weights);
      matrix.scratch_bytes_ = slice_rows * matrix.columns_ * 2;
      if (matrix.scratch_bytes_ <= most) break;
    }
    if (matrix.scratch_bytes_ > most) return std::nullopt;
  }
  for (int64_t first = 0; first < rows; first += slice_rows) {
    const int64_t count = std::min(slice_rows, rows - first);
    auto product = context.product(library, {.rows = count,
                                             .tokens = tokens,
                                             .depth = matrix.columns_,
                                             .w = {.step = converted ? matrix.columns_ : weight.strides[0]},
                                             .x = {.step = depth},
                                             .y_step = rows,
                                             .alpha = is_quantized(weight.dtype) ? 1 / kWeightScale : 1});
    if (product == nullptr) return std::nullopt;
    matrix.slices_.push_back({first, count, std::move(product)});
  }
  if (converted) {
    matrix.convert_ = context.function("convert_weights_f16_" + std::string(kernel_format(weight.dtype)));
    matrix.threads_of_row_ = static_cast<u32>(matrix.columns_ / (is_quantized(weight.dtype) ? kBlock : 8));
  }
  return matrix;
}

void LibraryMatrix::enqueue(const Launcher& run, const LinearMatrix& matrix, const Half* x, const float* addend,
                            void* scratch) const {
  for (const Slice& slice : slices_) {
    const void* weights = matrix.low;
    if (convert_ != nullptr) {
      weights = scratch;
      run(convert_, {blocks_for(slice.rows * threads_of_row_, kLinearThreads)},
          ConvertWeightsArgs{.matrix = matrix,
                             .f16 = static_cast<Half*>(scratch),
                             .first_row = static_cast<i32>(slice.first_row),
                             .rows = static_cast<i32>(slice.rows),
                             .columns = static_cast<i32>(columns_)});
    }
    run(slice.product.get(), {.w = weights,
                              .x = x,
                              .addend = addend == nullptr ? nullptr : addend + slice.first_row,
                              .bias = nullptr,
                              .y = matrix.y + slice.first_row});
  }
}

}  // namespace gabbro::gpu
