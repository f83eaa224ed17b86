// One device's part of a model's tensors: rows of the matrices that read the stream, columns of those that add to it,
// heads, and rows of the vocabulary. Vectors of the stream and routers are on each device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/models/weights/tensor_shard.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

// The sizes that locate heads in tensors.
struct HeadSizes {
  std::string architecture;  // for messages
  int64_t heads = 0, kv_heads = 0, dimension = 0;
};

// All functions throw bad_input for a tensor that has no cut, and name it.
class ShardedWeights : public WeightDecorator {
 public:
  // `block_of` gives the elements of a block of a tensor, by its name in GGUF.
  ShardedWeights(WeightSource& inner, const TensorShard& shard, const HeadSizes& sizes,
                 std::function<int64_t(const std::string& name)> block_of)
      : WeightDecorator(inner), shard_(shard), sizes_(sizes), block_of_(std::move(block_of)) {}

  const TensorShard* shard() const override { return &shard_; }

  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  // The bias of a matrix whose columns are cut is on rank 0 alone.
  std::shared_ptr<nn::Linear> linear(const std::string& prefix, const MatrixSize& size,
                                     const TransformersLayout& theirs = {}) override;
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor tensor(const std::string& name, const std::vector<int64_t>& shape, const TransformersLayout& theirs = {},
                DType dtype = DType::f32) override;

 private:
  // The wanted range of a matrix. Columns may begin and end inside of blocks: `padding` are columns of the first and
  // the last block that belong to neighbors.
  struct Part {
    MatrixSize size;
    IndexRange padding;  // before and after: first and count
    bool sums = false;   // its columns are cut
  };
  Part part_of(const std::string& name, const MatrixSize& size) const;
  Part columns_of(const std::string& name, const MatrixSize& size, const IndexRange& owned) const;
  IndexRange head_rows(int64_t rows, bool of_queries) const;
  int64_t unit_of_down(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& name) const;

  const TensorShard& shard_;
  HeadSizes sizes_;
  std::function<int64_t(const std::string& name)> block_of_;
};

}  // namespace gabbro::llm
