// The weights that a family asks for by name while it is built: from a checkpoint onto a device, or only listed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gabbro/nn/linear.h"
#include "src/models/weights/transformers_layout.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

class ExpertSlots;   // streamed_weights.h
class WeightMemory;  // weight_memory.h
class TensorCuts;    // tensor_cuts.h
struct TensorShard;  // tensor_shard.h

// The matrices of all experts of a layer.
struct ExpertWeights {
  Tensor matrix;  // [E · N, K], or [slots · N, K], as `expert_linear` wants it; undefined: there is none
  std::shared_ptr<ExpertSlots> slots{};  // of experts that are read by need; null: all are in `matrix`
  // Elements of the input before and after this device's, which belong to others: zeros.
  IndexRange padding{};  // before and after: first and count
  // Gets each input and the experts i32 [T, U] of its tokens; empty: none does.
  std::function<void(const Tensor& x, const Tensor& ids)> observe{};
};

// All functions throw bad_input that names the file and the tensor: missing, of another shape, of a format that does
// not run, or with values that are not numbers. Changes of a checkpoint's weights are decorators of its source
// (weight_decorator.h).
class WeightSource {
 public:
  // Without `memory` all tensors are undefined. With `cuts` the tensors are one device's parts.
  explicit WeightSource(WeightMemory* memory, const TensorCuts* cuts = nullptr) : memory_(memory), cuts_(cuts) {}
  WeightSource(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  virtual bool has(const std::string& name) const = 0;  // a tensor's: "output.weight"
  // As `linear` and `embedding` want it.
  virtual Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) = 0;
  // As a layer without bias, whose columns may be in another order.
  virtual std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                                 const TransformersLayout& theirs = {}) = 0;
  // The values of a tensor of any shape, on the host.
  virtual std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                                    const TransformersLayout& theirs = {}) = 0;
  virtual ExpertWeights experts(const std::string& name, const ExpertsSize& size) = 0;
  // One matrix of H · N rows; `together`: GGUF's tensor `name` is the matrix that has them all.
  virtual Tensor heads(const std::string& name, const HeadMatrices& size, bool together) = 0;

  // values() on the device: a vector in f32; any shape, such as [O, I, H, W] of a convolution, in f32, f16 or bf16.
  Tensor vector(const std::string& name, int64_t length, const TransformersLayout& theirs = {}) {
    return tensor(name, {length}, theirs);
  }
  virtual Tensor tensor(const std::string& name, const std::vector<int64_t>& shape,
                        const TransformersLayout& theirs = {}, DType dtype = DType::f32);
  // PREFIX.weight, and PREFIX.bias if it is there. The bias of a matrix whose columns are cut is on rank 0 only.
  std::shared_ptr<nn::Linear> linear(const std::string& prefix, const MatrixSize& size,
                                     const TransformersLayout& theirs = {});
  // Null: the tensors are whole. Else they are one device's parts, and results of the matrices whose columns are cut
  // are summed over the devices.
  const TensorShard* shard() const;
  const TensorCuts* cuts() const { return cuts_; }
  // Constants of the model: f32 [n] on the device.
  Tensor upload(std::span<const float> values) const;

  WeightMemory* memory() const { return memory_; }

 private:
  WeightMemory* memory_;
  const TensorCuts* cuts_;
};

}  // namespace gabbro::llm
