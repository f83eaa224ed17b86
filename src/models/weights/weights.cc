// Loading a checkpoint: which tensors there are, their checks, and vectors.
#include "src/models/weights/weights.h"
#include "src/base/quote.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/models/weights/counted_tensors.h"
#include "src/models/weights/input_squares.h"
#include "src/models/weights/load_formats.h"

namespace gabbro::llm {

nn::Projection WeightSource::linear(const std::string& prefix, MatrixSize size, const TransformersLayout& theirs) {
  nn::Projection projection = this->projection(prefix + ".weight", size, theirs);
  attach(prefix + ".weight", size, theirs, projection);
  if (!has(prefix + ".bias")) return projection;
  TransformersLayout of_bias = theirs;
  of_bias.transposed = false;
  of_bias.factor = nullptr;
  const std::vector<float> bias = host_vector(prefix + ".bias", size.rows, of_bias);
  const size_t count = static_cast<size_t>(size.count > 0 ? size.count : size.rows);
  projection.bias = upload(std::span(bias).subspan(static_cast<size_t>(size.first), count));
  return projection;
}

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                                     std::shared_ptr<Device> device, const LoadModelOptions& options)
    : checkpoint_(checkpoint),
      names_(names),
      counted_(std::make_shared<CountedTensors>(names, checkpoint)),
      device_(std::move(device)),
      quantize_(planned_formats(checkpoint, options.quantize)),
      memory_(device_, options.streamed != nullptr ? options.streamed->resident_bytes()
                                                   : bytes_of_matrices(checkpoint, names, quantize_, *device_)),
      check_weights_(options.check_weights),
      progress_(options.progress),
      streamed_(options.streamed),
      adapters_(options.adapters),
      observer_(options.observer) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += stored_form(tensor).data.size();
}

bool CheckpointWeights::has(const std::string& name) const { return counted_->has(name); }

void CheckpointWeights::require_weight_format(const CheckpointTensor& tensor) const {
  const DType dtype = tensor.dtype();
  if (is_quantized(dtype) || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return;
  throw bad_input("{}: tensor {}: weights in format {} are not supported", checkpoint_.path(), quote(tensor.name),
                  tensor.format);
}

const CheckpointTensor& CheckpointWeights::checked(const std::string& name, std::vector<int64_t> shape) const {
  const CheckpointTensor& tensor = checkpoint_.require_tensor(weight_name(names_, checkpoint_, name));
  // GGML does not tell the lengths of 1 at the front from those that are not there.
  const bool gguf = checkpoint_.layout() == CheckpointLayout::kGguf;
  const auto front = std::ranges::find_if(tensor.shape, [](int64_t length) { return length != 1; });
  const int64_t surplus =
      gguf ? std::min(front - tensor.shape.begin(), std::ssize(tensor.shape) - std::ssize(shape)) : 0;
  if (!std::ranges::equal(std::span(tensor.shape).subspan(static_cast<size_t>(std::max<int64_t>(surplus, 0))), shape)) {
    throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint_.path(),
                    quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  require_weight_format(tensor);
  return tensor;
}

void CheckpointWeights::check_values(const CheckpointTensor& tensor) const {
  if (!check_weights_) return;
  if (const auto found = find_non_finite(tensor.dtype(), tensor.data.data(), tensor.elements()))
    throw damaged_tensor(checkpoint_.path(), tensor.name, *found, tensor.shape);
}

void CheckpointWeights::loaded(const CheckpointTensor& tensor, size_t bytes, bool used_in_place) {
  if (!used_in_place) tensor.release();  // these pages need not stay in memory
  done_ += bytes;
  if (progress_) progress_(done_, total_);
}

std::vector<float> CheckpointWeights::read_floats(const std::string& name, std::vector<int64_t> shape,
                                                  const TransformersLayout& theirs) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  const bool gguf = checkpoint_.layout() == CheckpointLayout::kGguf;
  if (!gguf && theirs.stacked) {
    std::vector<float> values;
    for (const CheckpointTensor* row : stacked_tensors(names_, checkpoint_, name, shape[0], shape[1])) {
      row->prepare();
      check_values(*row);
      std::ranges::copy(float_values(*row, shape[1], {}), std::back_inserter(values));
      loaded(*row, row->data.size());
    }
    return values;
  }
  if (!gguf && theirs.one_row) shape = {1, count};
  if (!gguf && !theirs.shape.empty()) shape = theirs.shape;
  const CheckpointTensor& tensor = checked(name, std::move(shape));
  tensor.prepare();
  check_values(tensor);
  std::vector<float> values = float_values(tensor, count, gguf ? TransformersLayout{} : theirs);
  loaded(tensor, tensor.data.size());
  return values;
}

std::vector<float> CheckpointWeights::host_vector(const std::string& name, int64_t length,
                                                  const TransformersLayout& theirs) {
  return read_floats(name, {length}, theirs);
}

Tensor CheckpointWeights::upload(std::span<const float> values) {
  return device_->upload(DType::f32, Shape{std::ssize(values)}, values.data());
}

}  // namespace gabbro::llm
