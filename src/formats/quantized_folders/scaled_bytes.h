// Matrices of bytes, E4M3 floats or signed integers, with f32 scales of tiles of rows and columns.
#pragma once

#include "src/formats/quantized_folders/published.h"

namespace gabbro::published {

struct ScaledBytes {
  const CheckpointTensor* values;  // [rows, columns]
  const CheckpointTensor* scales;  // of number_types(): [⌈rows / tile_rows⌉, ⌈columns / tile_columns⌉] of them
  int64_t tile_rows, tile_columns;
  float factor = 1;  // of the scales
  bool e4m3 = true;  // else signed integers
};

// FP8_E4M3 or INT8_F32, or Q8_0 where all scales are f16 numbers; bf16 if tiles are not multiples of 32 columns.
Matrix scaled_matrix(std::string name, std::string_view format, const ScaledBytes& bytes);

// The tiles of a matrix [rows, columns] by the shape of its scales: one for all, one for each row, or such of
// `block_rows` by `block_columns`. Throws bad_input that names the tensor where it is none of these.
void find_tiles(int64_t block_rows, int64_t block_columns, ScaledBytes& bytes);

}  // namespace gabbro::published
