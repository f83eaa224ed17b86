// How transformers stores a tensor where that differs from GGUF's layout.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/models/weights/weight_names.h"

namespace gabbro::llm {

// How transformers stores a tensor where that differs from GGUF's layout, in which it is asked for.
struct TransformersLayout {
  std::function<int64_t(int64_t row)> row;  // the row there of each row here; empty: the same
  bool transposed = false;                  // stored [columns, rows]
  float offset = 0;                         // added to the values of a vector
  bool one_row = false;                     // a vector is stored as [1, n]
  bool stacked = false;                     // each row is a tensor there, whose number is "*" of the name
  int64_t skipped_rows = 0;                 // that a matrix begins with, and that GGUF's lacks
  int64_t trailing_rows = 0;                // the same of its end
  // For vectors and matrices that are read in f32: the shape there, if it is another one; the element there of each
  // element here (empty: the same); and what becomes of a value.
  std::vector<int64_t> shape{};
  std::function<int64_t(int64_t element)> element{};
  float (*value)(float) = nullptr;
  // For matrices of floats: the column there of each column here; and a factor on each row here, which GGUF has in it.
  std::function<int64_t(int64_t column)> column{};
  std::function<float(int64_t row)> factor{};

  bool is_same() const { return !row && !transposed && offset == 0 && !is_computed() && !column && !factor; }
  bool is_computed() const { return !shape.empty() || element || value != nullptr || stacked; }
};

// Copies row `row` of GGUF's layout out of a tensor of `rows` rows there (a vector has rows of one element).
void copy_row(const CheckpointTensor& tensor, int64_t rows, const TransformersLayout& theirs, int64_t row,
              std::byte* out);

// The `count` values of a vector or a small matrix, in GGUF's layout.
std::vector<float> float_values(const CheckpointTensor& tensor, int64_t count, const TransformersLayout& theirs);

// The vectors of `columns` elements that are the rows of a matrix here (TransformersLayout::stacked). Throws bad_input
// that names the file and the tensor: missing, or of another shape.
std::vector<const CheckpointTensor*> stacked_tensors(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                                     const std::string& name, int64_t rows, int64_t columns);

// Heads that are rotated in pairs (2i, 2i + 1): GGUF files have them in that order; files of transformers have the
// elements i and i + `rotated` / 2 of a head as a pair.
TransformersLayout paired_rows(int64_t head_dimension, int64_t rotated);

// `layout` with one factor on all rows; without one where it is 1.
TransformersLayout with_factor(float factor, TransformersLayout layout = {});

}  // namespace gabbro::llm
