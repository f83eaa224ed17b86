// The matrices of a layer's heads in a checkpoint.
#pragma once

#include <span>
#include <string>

#include "src/models/weights/weight_names.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// The matrices of a layer's heads in the checkpoint: separate, or in one matrix.
class HeadTensors {
 public:
  // Throws bad_input that names the file and the tensor: missing, or of another shape.
  HeadTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
              const HeadMatrices& size);

  const CheckpointTensor& tensor() const { return *tensor_; }
  bool in_one_piece() const { return whole_; }
  bool has_rows() const { return whole_ || !size_.transposed; }  // else they are columns there
  // Row `row` of [heads · rows, columns] in the file. Only where rows are stored as such.
  const std::byte* row(int64_t row) const;
  // That of the file; f16 where blocks have to be taken apart, since rows become columns.
  DType dtype() const;
  // Row `row` of [heads · rows, columns], and all rows of a head, in dtype().
  void copy_row(int64_t row, std::byte* out) const;
  void copy_head(int64_t head, std::byte* out) const;

 private:
  const std::byte* stored_row(int64_t head, int64_t row) const;

  HeadMatrices size_;
  const CheckpointTensor* tensor_;
  bool whole_;
};

}  // namespace gabbro::llm
