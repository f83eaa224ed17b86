// The tensors of a checkpoint by the names of GGUF, checked; no device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/models/weights/counted_tensors.h"
#include "src/models/weights/streamed_weights.h"
#include "src/models/weights/transformers_layout.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// How far loading is: bytes of weights that are on the device, and of all.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// All functions throw bad_input as WeightSource does.
class StoredWeights {
 public:
  StoredWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, bool check_values,
                LoadProgress progress);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  std::span<const WeightName> names() const { return names_; }
  bool in_gguf() const { return checkpoint_.layout() == CheckpointLayout::kGguf; }
  bool checks_values() const { return check_values_; }

  bool has(const std::string& name) const { return counted_.has(name); }
  // The tensor with the rows and columns of `size`, in whatever layout it is stored.
  const CheckpointTensor& matrix(const std::string& name, const MatrixSize& size,
                                 const TransformersLayout& theirs) const;
  std::vector<float> values(const std::string& name, std::vector<int64_t> shape, const TransformersLayout& theirs);

  int64_t skipped_rows(const TransformersLayout& theirs) const { return in_gguf() ? 0 : theirs.skipped_rows; }
  // The rows that are stored, of a matrix of `rows`.
  int64_t all_rows(int64_t rows, const TransformersLayout& theirs) const;
  // The bytes of each stored row that the wanted columns are in. Throws where these are not whole blocks.
  struct ByteRange {
    size_t first = 0, count = 0;
  };
  ByteRange column_bytes(const CheckpointTensor& whole, const MatrixSize& size) const;
  // Rows as the files have them.
  MatrixInFiles rows_in_files(const CheckpointTensor& whole, const std::string& name, const MatrixSize& size,
                              const TransformersLayout& theirs) const;

  void require_weight_format(const CheckpointTensor& tensor) const;
  void require_finite(const CheckpointTensor& tensor) const;  // only where values are checked
  void loaded(const CheckpointTensor& tensor, size_t bytes, bool used_in_place = false);

 private:
  const CheckpointTensor& checked(const std::string& name, const std::vector<int64_t>& shape) const;

  const Checkpoint& checkpoint_;
  std::span<const WeightName> names_;
  CountedTensors counted_;
  bool check_values_;
  LoadProgress progress_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace gabbro::llm
