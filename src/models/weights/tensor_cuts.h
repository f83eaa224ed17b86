// One device's part of a model's tensors: rows of the matrices that read the stream, columns of those that add to it,
// heads, and rows of the vocabulary. Vectors of the stream and routers are on each device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/models/weights/tensor_shard.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// The sizes that locate heads in tensors.
struct HeadSizes {
  std::string architecture;  // for messages
  int64_t heads = 0, kv_heads = 0, dimension = 0;
};

// The wanted range of a matrix. Columns may begin and end inside of blocks: `padding` are columns of the first and
// the last block that belong to neighbors.
struct MatrixPart {
  MatrixSize size;
  IndexRange padding{};  // before and after: first and count
  bool sums = false;     // its columns are cut
};

// Functions of names in GGUF and sizes. They throw bad_input for a tensor that has no cut, and name it.
class TensorCuts {
 public:
  // `block_of` gives the elements of a block of a tensor.
  TensorCuts(const TensorShard& shard, HeadSizes sizes, std::function<int64_t(const std::string& name)> block_of)
      : shard_(shard), sizes_(std::move(sizes)), block_of_(std::move(block_of)) {}

  const TensorShard& shard() const { return shard_; }

  MatrixPart part_of(const std::string& name, const MatrixSize& size) const;
  struct ExpertPart {
    ExpertsSize size;
    IndexRange padding{};  // of columns, as in MatrixPart
  };
  ExpertPart part_of_experts(const std::string& name, const ExpertsSize& size) const;
  // A part of a vector or a small matrix, of heads, of experts' biases or of the stream. Its shape replaces `shape`.
  std::vector<float> part_of_values(const std::string& name, std::vector<float> all, std::vector<int64_t>& shape) const;

 private:
  MatrixPart columns_of(const std::string& name, const MatrixSize& size, const IndexRange& owned) const;
  IndexRange head_rows(int64_t rows, bool of_queries) const;
  int64_t unit_of_down(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& name) const;

  const TensorShard& shard_;
  HeadSizes sizes_;
  std::function<int64_t(const std::string& name)> block_of_;
};

}  // namespace gabbro::llm
