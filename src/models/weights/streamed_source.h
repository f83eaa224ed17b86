// Matrices that do not stay on the device go to a stream, as their rows are in the files.
#pragma once

#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/requested_tensor.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

class StreamedSource : public WeightDecorator {
 public:
  // `weights` has the others. Both have to live as long as the loading takes.
  StreamedSource(CheckpointWeights& weights, StreamedWeights& stream)
      : WeightDecorator(weights), weights_(weights), stored_(weights.stored()), stream_(stream) {}

  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;

 private:
  bool takes(const RequestedTensor& requested) const;
  void require_streamable(const CheckpointTensor& tensor, const std::string& name) const;

  CheckpointWeights& weights_;
  StoredWeights& stored_;
  StreamedWeights& stream_;
};

}  // namespace gabbro::llm
