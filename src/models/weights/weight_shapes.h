// The sizes with which a family asks for its weights: matrices or a range of them, experts, heads.
#pragma once

#include <cstdint>
#include <vector>

namespace gabbro::llm {

// Indices [first, first + count) of one dimension; count 0: all.
struct IndexRange {
  int64_t first = 0, count = 0;

  int64_t length_in(int64_t length) const { return count > 0 ? count : length; }
  bool is_all_of(int64_t length) const { return length_in(length) == length; }
};

// A matrix in GGUF's layout, or a range of its rows and columns, which then have the shape [N, K] of the result.
// Columns of a block format are whole blocks.
struct MatrixSize {
  int64_t rows = 0, columns = 0;  // of the whole matrix
  IndexRange row_range{}, column_range{};
  bool is_cut = false;  // the ranges are this device's part of a tensor split (WeightSource::shard())

  int64_t wanted_rows() const { return row_range.length_in(rows); }           // N
  int64_t wanted_columns() const { return column_range.length_in(columns); }  // K
};

// The matrices of all experts of a layer, each [rows, columns]. If transformers stores the rows of two of them
// together, [E, 2 · rows, columns], this is the first (0) or the second (1).
struct ExpertsSize {
  int64_t experts = 0, rows = 0, columns = 0;
  int64_t used = 0;  // experts that a token needs
  int part = 0;
  bool interleaved = false;  // of the rows that are stored together every other one
  bool transposed = false;   // transformers stores [E, columns, rows]
  // The wanted part of each matrix; columns of a block format are whole blocks.
  IndexRange row_range{}, column_range{};

  int64_t wanted_rows() const { return row_range.length_in(rows); }           // N
  int64_t wanted_columns() const { return column_range.length_in(columns); }  // K
  bool is_whole() const { return row_range.is_all_of(rows) && column_range.is_all_of(columns); }
};

// The matrices of all heads of a layer, each [rows, columns], where one matrix has `stored` rows of each head: the rows
// from `first` on; transposed, the columns are these.
struct HeadMatrices {
  int64_t heads = 0, rows = 0, columns = 0;
  int64_t first = 0, stored = 0;
  bool transposed = false;
  IndexRange head_range{};  // of these heads only

  int64_t wanted_heads() const { return head_range.length_in(heads); }
  std::vector<int64_t> shape() const { return {heads, rows, columns}; }
  std::vector<int64_t> stored_shape() const { return {heads * stored, transposed ? rows : columns}; }
};

}  // namespace gabbro::llm
