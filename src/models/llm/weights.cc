#include "src/models/llm/weights.h"

#include <fmt/ranges.h>

#include <cstring>
#include <stdexcept>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {
namespace {

size_t bytes_of_matrices(const Checkpoint& checkpoint, const Device& device) {
  size_t bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.shape.size() != 2 || !tensor.known_dtype) continue;  // it may be one that the model does not use
    if (tensor.elements() == 0) continue;
    bytes += MemoryBlock::rounded(device.matrix_bytes(*tensor.known_dtype, tensor.shape[0], tensor.shape[1]));
  }
  return bytes;
}

// The row of transformers' order that is row `row` of GGUF's.
int64_t row_in_halves(int64_t row, PairedRows order) {
  const int64_t head = row / order.head_dimension, i = row % order.head_dimension;
  if (i >= order.rotated) return row;
  return head * order.head_dimension + i / 2 + (i % 2) * (order.rotated / 2);
}

// A copy of `count` rows with those of each head in pairs.
std::shared_ptr<std::vector<std::byte>> rows_in_pairs(std::span<const std::byte> data, int64_t count,
                                                      PairedRows order) {
  const size_t row = data.size() / static_cast<size_t>(count);
  auto copy = std::make_shared<std::vector<std::byte>>(data.size());
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(copy->data() + static_cast<size_t>(i) * row,
                data.data() + static_cast<size_t>(row_in_halves(i, order)) * row, row);
  }
  return copy;
}

bool is_aligned(std::span<const std::byte> data, DType dtype) {
  constexpr size_t kOfBlocks = 8;  // as GGUF files have them
  const size_t alignment = is_quantized(dtype) ? kOfBlocks : dtype_info(dtype).block_bytes;
  return reinterpret_cast<uintptr_t>(data.data()) % alignment == 0;
}

}  // namespace

std::string weight_name(std::span<const WeightName> names, CheckpointLayout layout, const std::string& name) {
  if (layout == CheckpointLayout::kGguf) return name;
  const size_t suffix = name.rfind('.');  // ".weight" or ".bias"
  for (const WeightName& known : names) {
    const std::string_view pattern = known.gguf;
    const size_t hole = pattern.find("{}");
    const std::string_view module = std::string_view(name).substr(0, suffix);
    if (hole == pattern.npos) {
      if (module == pattern) return known.hugging_face + name.substr(suffix);
      continue;
    }
    const std::string_view before = pattern.substr(0, hole), after = pattern.substr(hole + 2);
    if (!module.starts_with(before) || !module.ends_with(after) || module.size() <= pattern.size() - 2) continue;
    const std::string_view number = module.substr(hole, module.size() - before.size() - after.size());
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    return fmt::format(fmt::runtime(known.hugging_face), number) + name.substr(suffix);
  }
  throw std::logic_error("no name in transformers' layout for " + name);
}

nn::Projection WeightSource::linear(const std::string& prefix, int64_t rows, int64_t columns, PairedRows order) {
  nn::Projection projection{.weight = matrix(prefix + ".weight", rows, columns, order)};
  if (has(prefix + ".bias")) projection.bias = vector(prefix + ".bias", rows, order);
  return projection;
}

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                                     std::shared_ptr<Device> device, LoadProgress progress)
    : checkpoint_(checkpoint),
      names_(names),
      device_(std::move(device)),
      memory_(device_, bytes_of_matrices(checkpoint, *device_)),
      progress_(std::move(progress)) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += tensor.data.size();
}

std::string CheckpointWeights::name_in_file(const std::string& name) const {
  return weight_name(names_, checkpoint_.layout(), name);
}

bool CheckpointWeights::has(const std::string& name) const { return checkpoint_.tensor(name_in_file(name)) != nullptr; }

const CheckpointTensor& CheckpointWeights::checked(const std::string& name, std::vector<int64_t> shape) const {
  const CheckpointTensor& tensor = checkpoint_.require_tensor(name_in_file(name));
  if (tensor.shape != shape) {
    throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint_.path(),
                    gguf::quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  const DType dtype = tensor.dtype();
  if (!is_quantized(dtype) && dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    throw bad_input("{}: tensor {}: weights in format {} are not supported", checkpoint_.path(),
                    gguf::quote(tensor.name), tensor.format);
  }
  if (!all_finite(dtype, tensor.data.data(), tensor.elements())) {
    throw bad_input("{}: tensor {} has values that are not numbers; the file is damaged", checkpoint_.path(),
                    gguf::quote(tensor.name));
  }
  return tensor;
}

void CheckpointWeights::loaded(const CheckpointTensor& tensor, bool used_in_place) {
  if (!used_in_place) tensor.file->release(tensor.offset(), tensor.data.size());  // these pages need not stay in memory
  done_ += tensor.data.size();
  if (progress_) progress_(done_, total_);
}

Tensor CheckpointWeights::matrix(const std::string& name, int64_t rows, int64_t columns, PairedRows order) {
  const CheckpointTensor& tensor = checked(name, {rows, columns});
  std::shared_ptr<const void> bytes(tensor.file, tensor.data.data());
  if (order.head_dimension != 0 && checkpoint_.layout() == CheckpointLayout::kHuggingFace) {
    const auto copy = rows_in_pairs(tensor.data, rows, order);
    bytes = std::shared_ptr<const void>(copy, copy->data());
  } else if (!is_aligned(tensor.data, tensor.dtype())) {
    const auto copy = std::make_shared<std::vector<std::byte>>(tensor.data.begin(), tensor.data.end());
    bytes = std::shared_ptr<const void>(copy, copy->data());
  }
  Tensor matrix = device_->upload_matrix(tensor.dtype(), rows, columns, bytes, &memory_);
  loaded(tensor, matrix.state().storage.get() == tensor.data.data());
  return matrix;
}

std::vector<float> CheckpointWeights::host_vector(const std::string& name, int64_t length, PairedRows order) {
  const CheckpointTensor& tensor = checked(name, {length});
  std::vector<std::byte> aligned(tensor.data.begin(), tensor.data.end());
  if (order.head_dimension != 0 && checkpoint_.layout() == CheckpointLayout::kHuggingFace)
    aligned = std::move(*rows_in_pairs(tensor.data, length, order));
  std::vector<float> values(static_cast<size_t>(length));
  dequantize_row(tensor.dtype(), aligned.data(), values.data(), length);
  loaded(tensor);
  return values;
}

Tensor CheckpointWeights::upload(std::span<const float> values) {
  return device_->upload(DType::f32, Shape{std::ssize(values)}, values.data());
}

Tensor WeightList::matrix(const std::string& name, int64_t rows, int64_t columns, PairedRows) {
  tensors_.push_back({name, {rows, columns}});
  return {};
}

std::vector<float> WeightList::host_vector(const std::string& name, int64_t length, PairedRows) {
  tensors_.push_back({name, {length}});
  return std::vector<float>(static_cast<size_t>(length), 1.0f);
}

Tensor WeightList::upload(std::span<const float>) { return {}; }

}  // namespace gabbro::llm
