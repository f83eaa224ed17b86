#include "src/models/weights/sharded_weights.h"

#include "src/models/weights/cut_tensors.h"
#include "src/models/weights/weight_memory.h"

namespace gabbro::llm {
namespace {

// A layer whose columns begin and end inside of blocks: the elements of its input that neighbors have are zero.
class PaddedLinear final : public nn::Linear {
 public:
  PaddedLinear(const nn::Linear& loaded, int64_t before, int64_t after)
      : nn::Linear(loaded.weight, loaded.bias), before_(before), after_(after) {
    order = loaded.order;
  }

  Tensor forward(const Tensor& x) override { return nn::Linear::forward(padded_columns(x, before_, after_)); }

 private:
  int64_t before_, after_;
};

}  // namespace

Tensor ShardedWeights::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  return inner().matrix(name, cuts_.part_of(name, size).size, theirs);
}

std::shared_ptr<nn::Linear> ShardedWeights::projection(const std::string& name, const MatrixSize& size,
                                                       const TransformersLayout& theirs) {
  const MatrixPart part = cuts_.part_of(name, size);
  std::shared_ptr<nn::Linear> layer = inner().projection(name, part.size, theirs);
  if (part.padding.first == 0 && part.padding.count == 0) return layer;
  return std::make_shared<PaddedLinear>(*layer, part.padding.first, part.padding.count);
}

ExpertWeights ShardedWeights::experts(const std::string& name, const ExpertsSize& size) {
  const TensorCuts::ExpertPart part = cuts_.part_of_experts(name, size);
  ExpertWeights weights = inner().experts(name, part.size);
  weights.padding = part.padding;
  return weights;
}

Tensor ShardedWeights::tensor(const std::string& name, const std::vector<int64_t>& shape,
                              const TransformersLayout& theirs, DType dtype) {
  std::vector<int64_t> of_part = shape;
  const std::vector<float> part = cuts_.part_of_values(name, inner().values(name, shape, theirs), of_part);
  return memory() != nullptr ? memory()->tensor(part, Shape(of_part), dtype) : Tensor();
}

}  // namespace gabbro::llm
