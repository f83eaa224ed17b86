#include "src/models/weights/load_formats.h"

#include "src/backend/device.h"
#include "src/backend/memory_block.h"
#include "src/models/weights/expert_tensors.h"

namespace gabbro::llm {

std::optional<DType> new_format(const Formats& planned, const std::string& name, DType stored) {
  const auto found = planned.find(name);
  if (found == planned.end() || is_quantized(stored) || !is_quantized(found->second.dtype)) return {};
  return found->second.dtype;
}

DType format_on_device(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                       const std::string& name) {
  const DType stored = stored_form(checkpoint.require_tensor(weight_name(names, checkpoint, name))).dtype();
  return new_format(planned, name, stored).value_or(stored);
}

size_t bytes_of_matrices(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                         const Device& device, const LayerRange* layers) {
  size_t bytes = 0;
  std::optional<EndMatrices> ends;
  if (layers != nullptr) ends.emplace(checkpoint, names);
  std::map<std::string_view, DType> changed;  // by the names of the checkpoint
  const auto change = [&](const std::string& name, const CheckpointTensor& tensor) {
    const auto format = tensor.known_dtype ? new_format(planned, name, *tensor.known_dtype) : std::nullopt;
    if (format) changed[tensor.name] = *format;
  };
  for (const auto& [name, tensor] : planned) {
    if (tensor.experts.experts > 0) {
      const ExpertTensors experts(names, checkpoint, name, tensor.experts);
      for (const CheckpointTensor* expert : experts.tensors()) change(name, *expert);
    } else if (has_weight(names, checkpoint, name)) {
      change(name, checkpoint.require_tensor(weight_name(names, checkpoint, name)));
    }
  }
  for (const CheckpointTensor& of_file : checkpoint.tensors()) {
    const CheckpointTensor& tensor = stored_form(of_file);
    const size_t rank = tensor.shape.size();
    if (rank < 2 || rank > 3 || !tensor.known_dtype) continue;  // it may be one that the model does not use
    if (tensor.elements() == 0) continue;
    if (layers != nullptr &&
        !holds_stored(*layers, *ends, of_file.name, stored_layer_of(of_file.name, checkpoint, names)))
      continue;
    const int64_t columns = tensor.shape.back();
    const auto found = changed.find(tensor.name);
    const DType dtype = found != changed.end() ? found->second : *tensor.known_dtype;
    bytes += MemoryBlock::rounded(device.matrix_bytes(dtype, tensor.elements() / columns, columns));
  }
  return bytes;
}

}  // namespace gabbro::llm
