// Weights of a checkpoint that are counted and not loaded: for plans of a model that is not run, and their memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/models/weights/stored_weights.h"
#include "src/models/weights/weight_memory.h"
#include "src/models/weights/weight_source.h"
#include "src/plan/planned_memory.h"

namespace gabbro::llm {

// Its tensors have the shapes, formats and packing that CheckpointWeights gives them, and addresses of `memory`: graphs
// of them can be planned (PlanningScope), and must not be run. All matrices share a block, as CheckpointWeights has it;
// those that would stay in the mapped file count too. `separate`: each matrix has its own memory, as with
// WeightOptions::resident_bytes of 0.
class PlannedWeights : public WeightSource {
 public:
  PlannedWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, std::shared_ptr<Device> device,
                 PlannedMemory& memory, bool separate = false);

  bool has(const std::string& name) const override { return stored_.has(name); }
  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs = {}) override;  // zeros
  Tensor tensor(const std::string& name, const std::vector<int64_t>& shape, const TransformersLayout& theirs = {},
                DType dtype = DType::f32) override;
  // Throws std::logic_error: diffusion models have none of these.
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;

 private:
  void require(const std::string& name) const;
  std::shared_ptr<void> take(size_t bytes);  // of the block of all matrices
  Tensor planned(DType dtype, const std::vector<int64_t>& shape, bool is_matrix);

  StoredWeights stored_;
  WeightMemory memory_;
  PlannedMemory& planned_;
  size_t block_bytes_, block_used_ = 0;
  std::shared_ptr<void> block_;
};

}  // namespace gabbro::llm
