#include "src/models/weights/requested_tensor.h"

#include "src/models/weights/expert_tensors.h"
#include "src/models/weights/head_tensors.h"

namespace gabbro::llm {

std::vector<ModelMatrix> model_matrices(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                        const RequestedTensor& requested) {
  const auto of_heads = [&](const HeadMatrices& size) {
    const HeadTensors heads(names, checkpoint, requested.name, size);
    return ModelMatrix{heads.dtype(), size.heads * size.rows, size.columns};
  };
  if (requested.heads.heads > 0) return {of_heads(requested.heads)};
  if (!requested.taken_out.empty()) {
    std::vector<ModelMatrix> matrices;
    for (const HeadMatrices& size : requested.taken_out) matrices.push_back(of_heads(size));
    return matrices;
  }
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < requested.shape.size(); ++i) rows *= requested.shape[i];
  const CheckpointTensor& stored = checkpoint.require_tensor(weight_name(names, checkpoint, requested.name));
  return {{requested.in_f32 ? DType::f32 : stored.dtype(), rows, requested.shape.back()}};
}

bool has_stored_rows(std::span<const WeightName> names, const Checkpoint& checkpoint,
                     const RequestedTensor& requested) {
  if (requested.in_f32 || !requested.taken_out.empty()) return false;
  if (requested.experts.experts > 0)
    return ExpertTensors(names, checkpoint, requested.name, requested.experts).has_rows();
  if (requested.heads.heads > 0) return HeadTensors(names, checkpoint, requested.name, requested.heads).has_rows();
  const TransformersLayout& theirs = requested.theirs;
  return checkpoint.layout() == CheckpointLayout::kGguf || (!theirs.transposed && !theirs.column && !theirs.factor);
}

}  // namespace gabbro::llm
