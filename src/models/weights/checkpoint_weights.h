// The weights of a checkpoint on a device: in the file's layout or GGUF's, or quantized while loading.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/models/weights/layer_range.h"
#include "src/models/weights/planned_tensor.h"
#include "src/models/weights/stored_weights.h"
#include "src/models/weights/weight_memory.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

struct WeightOptions {
  bool check_values = true;  // refuse values that are not numbers, in all weights that loading reads anyway
  Formats quantize{};        // f32, f16 and bf16 matrices that get these formats; the others stay unchanged
  LoadProgress progress{};
  const LayerRange* layers = nullptr;  // those that are loaded; null: all
  // The bytes of all matrices, which get separate memory; nothing: those that need no packing may stay in the file.
  std::optional<size_t> resident_bytes{};
  std::optional<size_t> shard_bytes{};  // of the matrices of one device's part; nothing: the source is whole
};

// The checkpoint has to live as long as the loading takes.
class CheckpointWeights : public WeightSource {
 public:
  CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, std::shared_ptr<Device> device,
                    const WeightOptions& options);

  StoredWeights& stored() { return stored_; }
  bool is_quantized_while_loading(const std::string& name, DType stored) const;
  // The format that a matrix has on the device; of experts that of the first one.
  DType format_of(const std::string& name) const;

  bool has(const std::string& name) const override { return stored_.has(name); }
  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs = {}) override {
    return stored_.values(name, shape, theirs);
  }
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;

 private:
  Tensor upload_rows(const CheckpointTensor& whole, const std::string& name, const MatrixSize& size,
                     const TransformersLayout& theirs);
  // Throws damaged_tensor for a wanted row or column with a value that is not a number, where values are checked.
  void require_finite_part(const CheckpointTensor& whole, const MatrixSize& size, const void* bytes) const;
  // The wanted rows in the layout of GGUF, all columns of them.
  std::shared_ptr<const void> converted_rows(const CheckpointTensor& whole, const MatrixSize& size,
                                             const TransformersLayout& theirs) const;
  // Rows of a matrix that are to be quantized while loading, in the new format, which goes to `dtype`; else `rows`.
  std::shared_ptr<const void> quantized(const std::string& name, int64_t count, int64_t columns,
                                        std::shared_ptr<const void> rows, DType& dtype) const;

  StoredWeights stored_;
  Formats quantize_;
  WeightMemory memory_;
  std::map<std::vector<int32_t>, Tensor> orders_;  // of columns; matrices with the same input often share one
};

}  // namespace gabbro::llm
