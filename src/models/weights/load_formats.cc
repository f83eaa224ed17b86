#include "src/models/weights/load_formats.h"

#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/models/llm/model_plan.h"

namespace gabbro::llm {

std::optional<DType> new_format(const Formats& planned, const std::string& name, DType stored) {
  const auto found = planned.find(name);
  if (found == planned.end() || is_quantized(stored) || !is_quantized(found->second.dtype)) return {};
  return found->second.dtype;
}

Formats planned_formats(const Checkpoint& checkpoint, const FileType* type) {
  Formats formats;
  if (type == nullptr) return formats;
  const auto require_no_importance = [&](bool needed) {
    if (!needed) return;
    throw Error(ErrorCode::kBadInput, fmt::format("--quantize {} needs an importance matrix", type->name),
                "gabbro convert --imatrix makes a file with one");
  };
  require_no_importance(needs_importance(*type));
  for (PlannedTensor& tensor : planned_tensors(plan_of(checkpoint), *type)) {
    if (tensor.shape.size() < 2) continue;
    require_no_importance(needs_importance(*type, tensor.name, tensor.dtype));
    if (is_quantized(tensor.dtype) && quant_format(tensor.dtype).encode == nullptr)
      throw Error(ErrorCode::kBadInput, fmt::format("there is no encoder for {}", dtype_name(tensor.dtype)),
                  "choose another --quantize");
    formats.emplace(tensor.name, std::move(tensor));
  }
  return formats;
}

size_t bytes_of_matrices(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                         const Device& device) {
  size_t bytes = 0;
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
    const int64_t columns = tensor.shape.back();
    const auto found = changed.find(tensor.name);
    const DType dtype = found != changed.end() ? found->second : *tensor.known_dtype;
    bytes += MemoryBlock::rounded(device.matrix_bytes(dtype, tensor.elements() / columns, columns));
  }
  return bytes;
}

}  // namespace gabbro::llm
