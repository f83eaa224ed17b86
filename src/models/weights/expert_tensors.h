// The matrices of a layer's experts in a checkpoint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/models/weights/weight_names.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// The rows of a layer's experts in the checkpoint: one tensor for all, or one for each.
class ExpertTensors {
 public:
  // `name` is GGUF's. Throws bad_input that names the file and the tensor: missing, of another shape or format than the
  // others.
  ExpertTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                const ExpertsSize& size);

  std::span<const CheckpointTensor* const> tensors() const { return tensors_; }
  const CheckpointTensor& first() const { return *tensors_.front(); }
  // Row `row` of [E · rows, columns]. Only where rows are stored as such.
  const std::byte* row(int64_t row) const;
  bool has_rows() const { return !gathered_; }
  void copy_row(int64_t row, std::byte* out) const;
  // Its files, each once.
  std::vector<std::shared_ptr<const MappedFile>> files() const;
  // Whether these rows follow each other in the file.
  bool in_one_piece() const { return tensors_.size() == 1 && stored_rows_ == size_.rows && !gathered_; }

 private:
  ExpertsSize size_;
  int64_t stored_rows_;  // of an expert
  size_t row_bytes_;
  bool gathered_ = false;  // stored transposed
  std::vector<const CheckpointTensor*> tensors_;
};

}  // namespace gabbro::llm
