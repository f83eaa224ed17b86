// Loading the matrices of a checkpoint: in the file's layout or GGUF's, quantized while loading, or streamed.
#include <algorithm>
#include <optional>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/derived_data.h"
#include "src/models/weights/load_formats.h"
#include "src/models/weights/weights.h"

namespace gabbro::llm {
namespace {

// A copy of `rows` rows in the layout of GGUF, of a tensor that has `stored`.
std::shared_ptr<std::vector<std::byte>> in_our_layout(const CheckpointTensor& tensor, int64_t rows, int64_t stored,
                                                      const TransformersLayout& theirs) {
  const size_t row = tensor.data.size() / static_cast<size_t>(stored);
  auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
  for (int64_t i = 0; i < rows; ++i) copy_row(tensor, stored, theirs, i, copy->data() + static_cast<size_t>(i) * row);
  return copy;
}

bool is_aligned(std::span<const std::byte> data, DType dtype) {
  constexpr size_t kOfBlocks = 8;  // as GGUF files have them
  const size_t alignment = is_quantized(dtype) ? kOfBlocks : dtype_info(dtype).block_bytes;
  return reinterpret_cast<uintptr_t>(data.data()) % alignment == 0;
}

}  // namespace

bool CheckpointWeights::is_streamed(const RequestedTensor& requested) const {
  return streamed_ != nullptr && streamed_->takes(requested.name) && has_stored_rows(names_, checkpoint_, requested);
}

// Streamed rows are read from the files.
void CheckpointWeights::require_streamable(const CheckpointTensor& tensor, const std::string& name) const {
  if (!tensor.derived && !new_format(quantize_, name, tensor.dtype())) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: tensor {}: weights that are quantized while loading, or are {}, cannot be streamed",
                          checkpoint_.path(), quote(tensor.name), tensor.format),
              "gabbro convert makes a GGUF file of them, which can");
}

Tensor CheckpointWeights::streamed_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                                        const TransformersLayout& theirs) {
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.row;
  const int64_t skipped = skipped_rows(theirs);
  const size_t bytes = whole.data.size() / static_cast<size_t>(whole.shape[0]);
  const auto row = [=, first = size.first, data = whole.data.data(),
                    map = converted ? theirs.row : nullptr](int64_t i) {
    return data + static_cast<size_t>(skipped + (map ? map(first + i) : first + i)) * bytes;
  };
  return streamed_->add({.name = name,
                         .dtype = whole.dtype(),
                         .rows = size.count > 0 ? size.count : size.rows,
                         .columns = size.columns,
                         .row = row,
                         .files = {whole.file}});
}

// On the device; where others are streamed, its own memory even if the mapped file would do.
Tensor CheckpointWeights::uploaded(DType dtype, int64_t rows, int64_t columns,
                                   const std::shared_ptr<const void>& bytes) {
  if (streamed_ == nullptr || device_->matrix_bytes(dtype, rows, columns) > 0)
    return device_->upload_matrix(dtype, rows, columns, bytes, &memory_);
  const size_t size = dtype_bytes(dtype, static_cast<size_t>(rows * columns));
  const std::shared_ptr<void> own = memory_.take(size);
  device_->copy_to_device(own.get(), bytes.get(), size);
  return device_->tensor_in(own, dtype, Shape{rows, columns});
}

int64_t CheckpointWeights::skipped_rows(const TransformersLayout& theirs) const {
  return checkpoint_.layout() == CheckpointLayout::kHuggingFace ? theirs.skipped_rows : 0;
}

// The rows that are stored, of a matrix of `rows`.
int64_t CheckpointWeights::all_rows(int64_t rows, const TransformersLayout& theirs) const {
  return checkpoint_.layout() == CheckpointLayout::kHuggingFace ? rows + theirs.skipped_rows + theirs.trailing_rows
                                                                : rows;
}

const CheckpointTensor& CheckpointWeights::checked_matrix(const std::string& name, MatrixSize size,
                                                          const TransformersLayout& theirs) const {
  const bool transposed = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.transposed;
  const int64_t rows = all_rows(size.rows, theirs);
  const CheckpointTensor& whole =
      checked(name, transposed ? std::vector<int64_t>{size.columns, rows} : std::vector<int64_t>{rows, size.columns});
  if (transposed && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} is stored transposed, which {} cannot be", checkpoint_.path(), quote(whole.name),
                    whole.format);
  if (checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.factor && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} has a factor next to it, which {} cannot take in", checkpoint_.path(),
                    quote(whole.name), whole.format);
  return whole;
}

Tensor CheckpointWeights::matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  return upload_rows(checked_matrix(name, size, theirs), name, size, theirs);
}

nn::Projection CheckpointWeights::projection(const std::string& name, MatrixSize size,
                                             const TransformersLayout& theirs) {
  const CheckpointTensor& whole = checked_matrix(name, size, theirs);
  const bool moved = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.column &&
                     is_quantized(whole.dtype());  // columns of blocks stay where they are
  if (!whole.ordered && !moved) return {.weight = upload_rows(whole, name, size, theirs), .bias = {}, .order = {}};
  std::vector<int32_t> order(static_cast<size_t>(size.columns));
  for (int64_t j = 0; j < size.columns; ++j)
    order[static_cast<size_t>(moved ? theirs.column(j) : j)] = static_cast<int32_t>(j);
  if (whole.ordered) {
    const std::vector<int32_t> ours = order;
    std::ranges::transform(whole.ordered->order, order.begin(),
                           [&](int32_t i) { return ours[static_cast<size_t>(i)]; });
  }
  Tensor& indices = orders_[order];
  if (!indices.defined()) indices = device_->upload(DType::i32, Shape{std::ssize(order)}, order.data());
  TransformersLayout rows = theirs;
  rows.column = nullptr;
  const CheckpointTensor& matrix = whole.ordered ? whole.ordered->matrix : whole;
  return {.weight = upload_rows(matrix, name, size, rows), .bias = {}, .order = indices};
}

Tensor CheckpointWeights::upload_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                                      const TransformersLayout& theirs) {
  if (is_streamed({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs})) {
    require_streamable(whole, name);
    return streamed_rows(whole, name, size, theirs);
  }
  whole.prepare();
  const int64_t skipped = skipped_rows(theirs);
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && !theirs.is_same();
  const int64_t rows = size.count > 0 ? size.count : size.rows;
  const CheckpointTensor wanted = rows == whole.shape[0] || converted ? whole : whole.rows(skipped + size.first, rows);
  const bool copied = converted || !is_aligned(wanted.data, wanted.dtype());
  const bool read = copied || new_format(quantize_, name, wanted.dtype());
  if (read || device_->matrix_bytes(wanted.dtype(), rows, size.columns) > 0) check_values(wanted);
  std::shared_ptr<const void> bytes(wanted.file, wanted.data.data());
  if (converted) {
    const auto copy = in_our_layout(whole, size.rows, all_rows(size.rows, theirs), theirs);
    if (theirs.factor && check_weights_) {
      const int64_t shape[] = {size.rows, size.columns};
      if (const auto found = find_non_finite(wanted.dtype(), copy->data(), size.rows * size.columns))
        throw bad_input("{}: tensor {}: with its factor {} is too large for {}", checkpoint_.path(), quote(whole.name),
                        describe(*found, shape), dtype_name(wanted.dtype()));
    }
    const size_t row = copy->size() / static_cast<size_t>(size.rows);
    bytes = std::shared_ptr<const void>(copy, copy->data() + static_cast<size_t>(size.first) * row);
  } else if (copied) {
    const auto copy = std::make_shared<std::vector<std::byte>>(wanted.data.begin(), wanted.data.end());
    bytes = std::shared_ptr<const void>(copy, copy->data());
  }
  DType dtype = wanted.dtype();
  bytes = quantized(name, rows, size.columns, std::move(bytes), dtype);
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  loaded(wanted, whole.data.size() / static_cast<size_t>(all_rows(size.rows, theirs)) * static_cast<size_t>(rows),
         matrix.state().storage.get() == wanted.data.data());
  return matrix;
}

std::shared_ptr<const void> CheckpointWeights::quantized(const std::string& name, int64_t count, int64_t columns,
                                                         std::shared_ptr<const void> rows, DType& dtype) const {
  const std::optional<DType> format = new_format(quantize_, name, dtype);
  if (!format) return rows;
  const auto* source = static_cast<const std::byte*>(rows.get());
  const auto width = static_cast<size_t>(columns);
  const size_t source_row = dtype_bytes(dtype, width), target_row = dtype_bytes(*format, width);
  const auto target = std::make_shared<std::vector<std::byte>>(target_row * static_cast<size_t>(count));
  for_row_ranges(count, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> values(width);
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      dequantize_row(dtype, source + row * source_row, values.data(), columns);
      std::byte* const to = target->data() + row * target_row;
      quantize_row(*format, values.data(), to, columns);
      if (const auto found = find_overflow(*format, values, to)) {
        const int64_t shape[] = {count, columns};
        throw bad_input("{}: tensor {}: {} is too large for {}", checkpoint_.path(), quote(name),
                        describe({static_cast<int64_t>(row) * columns + found->index, found->value}, shape),
                        dtype_name(*format));
      }
    }
  });
  dtype = *format;
  return {target, target->data()};
}

Tensor CheckpointWeights::matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  const auto values = std::make_shared<std::vector<float>>(read_floats(name, {size.rows, size.columns}, theirs));
  const std::shared_ptr<const void> bytes(values, values->data());
  if (streamed_ != nullptr) return uploaded(DType::f32, size.rows, size.columns, bytes);  // the plan has room for it
  return device_->upload_matrix(DType::f32, size.rows, size.columns, bytes);
}

Tensor CheckpointWeights::head_matrices(const std::string& name, const HeadMatrices& size, bool together) {
  const HeadTensors heads(names_, checkpoint_, name, size);
  const CheckpointTensor& tensor = heads.tensor();
  require_weight_format(tensor);
  const int64_t rows = size.heads * size.rows;
  const DType dtype = heads.dtype();
  if (!together && is_streamed({.name = name, .shape = size.shape(), .heads = size})) {
    require_streamable(tensor, name);
    const auto row = [heads](int64_t i) { return heads.row(i); };
    return streamed_->add({name, dtype, rows, size.columns, row, {tensor.file}});
  }
  tensor.prepare();
  check_values(tensor);
  std::shared_ptr<const void> bytes(tensor.file, tensor.data.data());
  if (!heads.in_one_piece() || !is_aligned(tensor.data, dtype)) {
    const size_t head = dtype_bytes(dtype, static_cast<size_t>(size.rows * size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size.heads) * head);
    for (int64_t i = 0; i < size.heads; ++i) heads.copy_head(i, copy->data() + static_cast<size_t>(i) * head);
    bytes = {copy, copy->data()};
  }
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  loaded(tensor, dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)),
         matrix.state().storage.get() == tensor.data.data());
  return matrix;
}

Tensor CheckpointWeights::experts(const std::string& name, const ExpertsSize& size) {
  const ExpertTensors experts(names_, checkpoint_, name, size);
  const CheckpointTensor& first = experts.first();
  DType dtype = first.dtype();
  for (const CheckpointTensor* tensor : experts.tensors()) require_weight_format(*tensor);
  const int64_t rows = size.experts * size.rows;
  if (is_streamed({.name = name, .shape = {size.experts, size.rows, size.columns}, .experts = size})) {
    for (const CheckpointTensor* tensor : experts.tensors()) require_streamable(*tensor, name);
    const auto row = [experts](int64_t i) { return experts.row(i); };
    const MatrixInFiles stored = {name, dtype, rows, size.columns, row, experts.files()};
    return streamed_->takes_by_need(name) ? streamed_->add_experts(stored) : streamed_->add(stored);
  }
  for (const CheckpointTensor* tensor : experts.tensors()) {
    tensor->prepare();
    check_values(*tensor);
  }
  std::shared_ptr<const void> bytes(first.file, first.data.data());
  if (!experts.in_one_piece() || !is_aligned(first.data, dtype)) {
    const size_t row = dtype_bytes(dtype, static_cast<size_t>(size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
    for (int64_t i = 0; i < rows; ++i) experts.copy_row(i, copy->data() + static_cast<size_t>(i) * row);
    bytes = {copy, copy->data()};
  }
  const size_t total = dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)) / experts.tensors().size();
  bytes = quantized(name, rows, size.columns, std::move(bytes), dtype);
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  const bool in_place = matrix.state().storage.get() == first.data.data();
  for (const CheckpointTensor* tensor : experts.tensors()) loaded(*tensor, total, in_place);
  return matrix;
}

}  // namespace gabbro::llm
