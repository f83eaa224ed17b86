#include "src/models/weights/expert_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "src/base/error.h"
#include "src/base/quote.h"

namespace gabbro::llm {

ExpertTensors::ExpertTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                             const ExpertsSize& size)
    : size_(size), stored_rows_(size.rows) {
  const bool gguf = checkpoint.layout() == CheckpointLayout::kGguf;
  const std::string pattern = weight_pattern(names, checkpoint, name);
  const bool apart = pattern.find('*') != pattern.npos;
  for (int64_t e = 0; e < (apart ? size.experts : 1); ++e)
    tensors_.push_back(&checkpoint.require_tensor(numbered(pattern, e)));
  gathered_ = !apart && !gguf && size.transposed && !is_quantized(first().dtype());  // whose blocks are along rows
  std::vector<int64_t> shape = {size.rows, size.columns};
  if (!apart) shape.insert(shape.begin(), size.experts);
  if (gathered_) std::swap(shape[1], shape[2]);
  const bool together = !apart && !gguf;
  if (together && first().shape.size() == 2) {  // Nomic's experts are one matrix of all rows
    shape = {shape[0] * shape[1], shape[2]};
  } else if (together && first().shape.size() == 3 && first().shape[gathered_ ? 2 : 1] == 2 * size.rows) {
    shape[gathered_ ? 2 : 1] = stored_rows_ = 2 * size.rows;
  }
  for (const CheckpointTensor* tensor : tensors_) {
    if (tensor->shape != shape) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      quote(tensor->name), fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
    }
    if (tensor->dtype() != first().dtype()) {
      throw bad_input("{}: tensor {} has format {}, that of the first expert {}", checkpoint.path(),
                      quote(tensor->name), tensor->format, first().format);
    }
  }
  const auto rows = static_cast<size_t>(apart ? stored_rows_ : size.experts * stored_rows_);
  row_bytes_ = first().data.size() / rows;
}

std::vector<std::shared_ptr<const MappedFile>> ExpertTensors::files() const {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const CheckpointTensor* tensor : tensors_) {
    if (std::ranges::find(files, tensor->file) == files.end()) files.push_back(tensor->file);
  }
  return files;
}

namespace {

// Row `row` of an expert's matrix among the rows of it that are stored together.
int64_t row_there(const ExpertsSize& size, int64_t stored_rows, int64_t row) {
  if (stored_rows == size.rows) return row;
  return size.interleaved ? 2 * row + size.part : size.part * size.rows + row;
}

}  // namespace

void ExpertTensors::copy_row(int64_t row, std::byte* out) const {
  if (!gathered_) {
    std::memcpy(out, this->row(row), row_bytes_);
    return;
  }
  const int64_t expert = row / size_.rows, column = row_there(size_, stored_rows_, row % size_.rows);
  const size_t element = dtype_info(first().dtype()).block_bytes;
  const std::byte* from = first().data.data() + static_cast<size_t>(expert) * size_.columns * stored_rows_ * element;
  for (int64_t j = 0; j < size_.columns; ++j)
    std::memcpy(out + j * element, from + (j * stored_rows_ + column) * element, element);
}

const std::byte* ExpertTensors::row(int64_t row) const {
  const int64_t expert = row / size_.rows, there = row_there(size_, stored_rows_, row % size_.rows);
  if (tensors_.size() > 1)
    return tensors_[static_cast<size_t>(expert)]->data.data() + static_cast<size_t>(there) * row_bytes_;
  return first().data.data() + static_cast<size_t>(expert * stored_rows_ + there) * row_bytes_;
}

}  // namespace gabbro::llm
