#include "src/models/weights/checkpoint_weights.h"

#include <algorithm>
#include <cstring>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/derived_data.h"
#include "src/models/weights/expert_tensors.h"
#include "src/models/weights/head_tensors.h"
#include "src/models/weights/load_formats.h"

namespace gabbro::llm {

namespace {

bool is_aligned(std::span<const std::byte> data, DType dtype) {
  constexpr size_t kOfBlocks = 8;  // as GGUF files have them
  const size_t alignment = is_quantized(dtype) ? kOfBlocks : dtype_info(dtype).block_bytes;
  return reinterpret_cast<uintptr_t>(data.data()) % alignment == 0;
}

// A range of bytes from each of `rows` rows of `row_bytes`.
std::shared_ptr<const void> columns_of(const std::byte* matrix, int64_t rows, size_t row_bytes,
                                       StoredWeights::ByteRange columns) {
  const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * columns.count);
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
    std::memcpy(copy->data() + i * columns.count, matrix + i * row_bytes + columns.first, columns.count);
  return {copy, copy->data()};
}

// The wanted rows and columns of all experts.
std::shared_ptr<const void> part_of_experts(const ExpertTensors& experts, const ExpertsSize& size) {
  const DType dtype = experts.first().dtype();
  const size_t row = dtype_bytes(dtype, static_cast<size_t>(size.columns));
  const size_t before = dtype_bytes(dtype, static_cast<size_t>(size.column_range.first));
  const size_t part = dtype_bytes(dtype, static_cast<size_t>(size.wanted_columns()));
  const auto copy =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size.experts * size.wanted_rows()) * part);
  std::vector<std::byte> whole(row);
  std::byte* to = copy->data();
  for (int64_t expert = 0; expert < size.experts; ++expert) {
    for (int64_t i = 0; i < size.wanted_rows(); ++i, to += part) {
      experts.copy_row(expert * size.rows + size.row_range.first + i, whole.data());
      std::memcpy(to, whole.data() + before, part);
    }
  }
  return {copy, copy->data()};
}

}  // namespace

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                                     std::shared_ptr<Device> device, const WeightOptions& options)
    : WeightSource(&memory_),
      stored_(checkpoint, names, options.check_values, options.progress),
      quantize_(options.quantize),
      memory_(device,
              options.resident_bytes ? *options.resident_bytes
              : options.shard_bytes  ? *options.shard_bytes
                                     : bytes_of_matrices(checkpoint, names, options.quantize, *device, options.layers),
              !options.resident_bytes) {}

DType CheckpointWeights::format_of(const std::string& name) const {
  return format_on_device(stored_.checkpoint(), stored_.names(), quantize_, name);
}

bool CheckpointWeights::is_quantized_while_loading(const std::string& name, DType stored) const {
  return new_format(quantize_, name, stored).has_value();
}

Tensor CheckpointWeights::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  return upload_rows(stored_.matrix(name, size, theirs), name, size, theirs);
}

std::shared_ptr<nn::Linear> CheckpointWeights::projection(const std::string& name, const MatrixSize& size,
                                                          const TransformersLayout& theirs) {
  const CheckpointTensor& whole = stored_.matrix(name, size, theirs);
  const bool moved = !stored_.in_gguf() && theirs.column && is_quantized(whole.dtype());  // blocks stay where they are
  if (!whole.ordered && !moved) return std::make_shared<nn::Linear>(upload_rows(whole, name, size, theirs));
  if (!size.column_range.is_all_of(size.columns)) {
    throw bad_input("{}: tensor {}: its columns are stored in another order, so a range of them cannot be loaded",
                    stored_.checkpoint().path(), quote(whole.name));
  }
  std::vector<int32_t> order(static_cast<size_t>(size.columns));
  for (int64_t j = 0; j < size.columns; ++j)
    order[static_cast<size_t>(moved ? theirs.column(j) : j)] = static_cast<int32_t>(j);
  if (whole.ordered) {
    const std::vector<int32_t> ours = order;
    std::ranges::transform(whole.ordered->order, order.begin(),
                           [&](int32_t i) { return ours[static_cast<size_t>(i)]; });
  }
  Tensor& indices = orders_[order];
  if (!indices.defined()) indices = memory_.device()->upload(DType::i32, Shape{std::ssize(order)}, order.data());
  TransformersLayout rows = theirs;
  rows.column = nullptr;
  const CheckpointTensor& matrix = whole.ordered ? whole.ordered->matrix : whole;
  auto layer = std::make_shared<nn::Linear>(upload_rows(matrix, name, size, rows));
  layer->order = indices;
  return layer;
}

std::shared_ptr<const void> CheckpointWeights::converted_rows(const CheckpointTensor& whole, const MatrixSize& size,
                                                              const TransformersLayout& theirs) const {
  const int64_t stored = stored_.all_rows(size.rows, theirs), rows = size.wanted_rows();
  const size_t row = whole.data.size() / static_cast<size_t>(stored);
  const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
  for (int64_t i = 0; i < rows; ++i)
    copy_row(whole, stored, theirs, size.row_range.first + i, copy->data() + static_cast<size_t>(i) * row);
  if (theirs.factor && stored_.checks_values()) {
    const int64_t shape[] = {rows, size.columns};
    if (const auto found = find_non_finite(whole.dtype(), copy->data(), rows * size.columns))
      throw bad_input("{}: tensor {}: with its factor {} is too large for {}", stored_.checkpoint().path(),
                      quote(whole.name), describe(*found, shape), dtype_name(whole.dtype()));
  }
  return {copy, copy->data()};
}

void CheckpointWeights::require_finite_part(const CheckpointTensor& whole, const MatrixSize& size,
                                            const void* bytes) const {
  const int64_t columns = size.wanted_columns();
  if (!stored_.checks_values()) return;
  const auto found = find_non_finite(whole.dtype(), static_cast<const std::byte*>(bytes), size.wanted_rows() * columns);
  if (!found) return;
  auto at = *found;
  at.index =
      (size.row_range.first + found->index / columns) * size.columns + size.column_range.first + found->index % columns;
  const int64_t shape[] = {size.rows, size.columns};
  throw damaged_tensor(stored_.checkpoint().path(), whole.name, at, shape);
}

Tensor CheckpointWeights::upload_rows(const CheckpointTensor& whole, const std::string& name, const MatrixSize& size,
                                      const TransformersLayout& theirs) {
  const StoredWeights::ByteRange part = stored_.column_bytes(whole, size);
  whole.prepare();
  const int64_t rows = size.wanted_rows(), columns = size.wanted_columns();
  const bool converted = !stored_.in_gguf() && !theirs.is_same();
  const CheckpointTensor wanted = rows == whole.shape[0] || converted
                                      ? whole
                                      : whole.rows(stored_.skipped_rows(theirs) + size.row_range.first, rows);
  const bool narrowed = columns != size.columns;
  const bool copied = converted || narrowed || !is_aligned(wanted.data, wanted.dtype());
  const bool read = copied || new_format(quantize_, name, wanted.dtype());
  const bool is_part = narrowed || (converted && rows != size.rows);
  const bool checked = read || memory_.device()->matrix_bytes(wanted.dtype(), rows, columns) > 0;
  if (checked && !is_part) stored_.require_finite(wanted);
  const size_t row_bytes = whole.data.size() / static_cast<size_t>(stored_.all_rows(size.rows, theirs));
  std::shared_ptr<const void> bytes(wanted.file, wanted.data.data());
  if (converted) bytes = converted_rows(whole, size, theirs);
  if (narrowed || (copied && !converted))
    bytes = columns_of(static_cast<const std::byte*>(bytes.get()), rows, row_bytes, part);
  if (checked && is_part) require_finite_part(whole, size, bytes.get());
  DType dtype = wanted.dtype();
  bytes = quantized(name, rows, columns, std::move(bytes), dtype);
  Tensor matrix = memory_.matrix(dtype, rows, columns, bytes);
  stored_.loaded(wanted, part.count * static_cast<size_t>(rows), matrix.state().storage.get() == wanted.data.data());
  return matrix;
}

std::shared_ptr<const void> CheckpointWeights::quantized(const std::string& name, int64_t count, int64_t columns,
                                                         std::shared_ptr<const void> rows, DType& dtype) const {
  const std::optional<DType> format = new_format(quantize_, name, dtype);
  if (!format) return rows;
  if (columns % dtype_info(*format).block_elements != 0) {
    throw bad_input("{}: tensor {}: row length {} is not a multiple of {}'s block size {}", stored_.checkpoint().path(),
                    quote(name), columns, dtype_name(*format), dtype_info(*format).block_elements);
  }
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
        throw bad_input("{}: tensor {}: {} is too large for {}", stored_.checkpoint().path(), quote(name),
                        describe({static_cast<int64_t>(row) * columns + found->index, found->value}, shape),
                        dtype_name(*format));
      }
    }
  });
  dtype = *format;
  return {target, target->data()};
}

Tensor CheckpointWeights::heads(const std::string& name, const HeadMatrices& size, bool /*together*/) {
  const HeadTensors heads(stored_.names(), stored_.checkpoint(), name, size);
  const CheckpointTensor& tensor = heads.tensor();
  stored_.require_weight_format(tensor);
  const int64_t rows = size.wanted_heads() * size.rows;
  const DType dtype = heads.dtype();
  tensor.prepare();
  stored_.require_finite(tensor);
  std::shared_ptr<const void> bytes(tensor.file, tensor.data.data());
  if (size.wanted_heads() != size.heads || !heads.in_one_piece() || !is_aligned(tensor.data, dtype)) {
    const size_t head = dtype_bytes(dtype, static_cast<size_t>(size.rows * size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size.wanted_heads()) * head);
    for (int64_t i = 0; i < size.wanted_heads(); ++i)
      heads.copy_head(size.head_range.first + i, copy->data() + static_cast<size_t>(i) * head);
    bytes = {copy, copy->data()};
  }
  Tensor matrix = memory_.matrix(dtype, rows, size.columns, bytes);
  stored_.loaded(tensor, dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)),
                 matrix.state().storage.get() == tensor.data.data());
  return matrix;
}

ExpertWeights CheckpointWeights::experts(const std::string& name, const ExpertsSize& size) {
  const ExpertTensors experts(stored_.names(), stored_.checkpoint(), name, size);
  const CheckpointTensor& first = experts.first();
  DType dtype = first.dtype();
  for (const CheckpointTensor* tensor : experts.tensors()) stored_.require_weight_format(*tensor);
  const int64_t rows = size.experts * size.wanted_rows(), columns = size.wanted_columns();
  for (const CheckpointTensor* tensor : experts.tensors()) {
    tensor->prepare();
    if (size.is_whole()) stored_.require_finite(*tensor);
  }
  std::shared_ptr<const void> bytes(first.file, first.data.data());
  if (!size.is_whole()) {
    bytes = part_of_experts(experts, size);
    const MatrixSize part{.rows = rows, .columns = columns};
    require_finite_part(first, part, bytes.get());
  } else if (!experts.in_one_piece() || !is_aligned(first.data, dtype)) {
    const size_t row = dtype_bytes(dtype, static_cast<size_t>(size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
    for (int64_t i = 0; i < rows; ++i) experts.copy_row(i, copy->data() + static_cast<size_t>(i) * row);
    bytes = {copy, copy->data()};
  }
  const size_t total = dtype_bytes(dtype, static_cast<size_t>(rows * columns)) / experts.tensors().size();
  bytes = quantized(name, rows, columns, std::move(bytes), dtype);
  Tensor matrix = memory_.matrix(dtype, rows, columns, bytes);
  const bool in_place = matrix.state().storage.get() == first.data.data();
  for (const CheckpointTensor* tensor : experts.tensors()) stored_.loaded(*tensor, total, in_place);
  return {.matrix = matrix};
}

}  // namespace gabbro::llm
