#include "src/models/weights/stored_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"

namespace gabbro::llm {

namespace {

void require_range(const std::string& name, const IndexRange& range, int64_t length) {
  if (range.first < 0 || range.length_in(length) > length - range.first)
    throw std::logic_error(fmt::format("{}: [{}, {}) of {}", name, range.first, range.first + range.count, length));
}

}  // namespace

StoredWeights::StoredWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, bool check_values,
                             LoadProgress progress)
    : checkpoint_(checkpoint),
      names_(names),
      counted_(names, checkpoint),
      check_values_(check_values),
      progress_(std::move(progress)) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += stored_form(tensor).data.size();
}

void StoredWeights::require_weight_format(const CheckpointTensor& tensor) const {
  const DType dtype = tensor.dtype();
  if (is_quantized(dtype) || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return;
  throw bad_input("{}: tensor {}: weights in format {} are not supported", checkpoint_.path(), quote(tensor.name),
                  tensor.format);
}

const CheckpointTensor& StoredWeights::checked(const std::string& name, const std::vector<int64_t>& shape) const {
  const CheckpointTensor& tensor = checkpoint_.require_tensor(weight_name(names_, checkpoint_, name));
  // GGML does not tell the lengths of 1 at the front from those that are not there.
  const auto front = std::ranges::find_if(tensor.shape, [](int64_t length) { return length != 1; });
  const int64_t surplus =
      in_gguf() ? std::min(front - tensor.shape.begin(), std::ssize(tensor.shape) - std::ssize(shape)) : 0;
  if (!std::ranges::equal(std::span(tensor.shape).subspan(static_cast<size_t>(std::max<int64_t>(surplus, 0))), shape)) {
    throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint_.path(),
                    quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  require_weight_format(tensor);
  return tensor;
}

void StoredWeights::require_finite(const CheckpointTensor& tensor) const {
  if (!check_values_) return;
  if (const auto found = find_non_finite(tensor.dtype(), tensor.data.data(), tensor.elements()))
    throw damaged_tensor(checkpoint_.path(), tensor.name, *found, tensor.shape);
}

void StoredWeights::loaded(const CheckpointTensor& tensor, size_t bytes, bool used_in_place) {
  if (!used_in_place) tensor.release();  // these pages need not stay in memory
  done_ += bytes;
  if (progress_) progress_(done_, total_);
}

std::vector<float> StoredWeights::values(const std::string& name, std::vector<int64_t> shape,
                                         const TransformersLayout& theirs) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  if (!in_gguf() && theirs.stacked) {
    std::vector<float> values;
    for (const CheckpointTensor* row : stacked_tensors(names_, checkpoint_, name, shape[0], shape[1])) {
      row->prepare();
      require_finite(*row);
      std::ranges::copy(float_values(*row, shape[1], {}), std::back_inserter(values));
      loaded(*row, row->data.size());
    }
    return values;
  }
  if (!in_gguf() && theirs.one_row) shape = {1, count};
  if (!in_gguf() && !theirs.shape.empty()) shape = theirs.shape;
  const CheckpointTensor& tensor = checked(name, shape);
  tensor.prepare();
  require_finite(tensor);
  std::vector<float> values = float_values(tensor, count, in_gguf() ? TransformersLayout{} : theirs);
  loaded(tensor, tensor.data.size());
  return values;
}

int64_t StoredWeights::all_rows(int64_t rows, const TransformersLayout& theirs) const {
  return in_gguf() ? rows : rows + theirs.skipped_rows + theirs.trailing_rows;
}

const CheckpointTensor& StoredWeights::matrix(const std::string& name, const MatrixSize& size,
                                              const TransformersLayout& theirs) const {
  require_range(name, size.row_range, size.rows);
  require_range(name, size.column_range, size.columns);
  const bool transposed = !in_gguf() && theirs.transposed;
  const int64_t rows = all_rows(size.rows, theirs);
  const CheckpointTensor& whole =
      checked(name, transposed ? std::vector<int64_t>{size.columns, rows} : std::vector<int64_t>{rows, size.columns});
  if (transposed && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} is stored transposed, which {} cannot be", checkpoint_.path(), quote(whole.name),
                    whole.format);
  if (!in_gguf() && theirs.factor && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} has a factor next to it, which {} cannot take in", checkpoint_.path(),
                    quote(whole.name), whole.format);
  return whole;
}

StoredWeights::ByteRange StoredWeights::column_bytes(const CheckpointTensor& whole, const MatrixSize& size) const {
  const int64_t first = size.column_range.first, count = size.wanted_columns();
  const DType dtype = whole.dtype();
  const int64_t block = dtype_info(dtype).block_elements;
  if (first % block != 0 || count % block != 0) {
    throw bad_input("{}: tensor {}: columns {} to {} are not whole blocks of {}, which have {} elements",
                    checkpoint_.path(), quote(whole.name), first, first + count, whole.format, block);
  }
  return {dtype_bytes(dtype, static_cast<size_t>(first)), dtype_bytes(dtype, static_cast<size_t>(count))};
}

MatrixInFiles StoredWeights::rows_in_files(const CheckpointTensor& whole, const std::string& name,
                                           const MatrixSize& size, const TransformersLayout& theirs) const {
  const int64_t first = size.row_range.first, skipped = skipped_rows(theirs);
  const size_t bytes = whole.data.size() / static_cast<size_t>(whole.shape[0]);
  const std::byte* const data = whole.data.data() + column_bytes(whole, size).first;
  const auto row = [=, map = in_gguf() ? nullptr : theirs.row](int64_t i) {
    return data + static_cast<size_t>(skipped + (map ? map(first + i) : first + i)) * bytes;
  };
  return {.name = name,
          .dtype = whole.dtype(),
          .rows = size.wanted_rows(),
          .columns = size.wanted_columns(),
          .row = row,
          .files = {whole.file}};
}

}  // namespace gabbro::llm
