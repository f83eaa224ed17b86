// Weights from the arrangement of the file into the one that the linear kernels stream (pack/layout.h), and single rows
// back out of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/pack/layout.h"

namespace gabbro::cpu::GABBRO_ISA {

// Bytes of the packed form of a row-major [rows, columns], or 0 if there is none for this dtype or width. Plain weights
// have none: they are read in place, from the file's pages.
size_t packed_bytes(DType dtype, int64_t rows, int64_t columns);

// Packs; called by all workers together.
void pack(DType dtype, int64_t rows, int64_t columns, const void* host, void* target, Worker& worker);

// A matrix in a file's or tensor's layout. Steps are in bytes; that of columns counts for plain dtypes only.
struct StridedMatrix {
  const std::byte* data;
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t row_step;
  int64_t column_step;
};

// The rows of one panel of plain elements, in sequence.
void gather_rows(const StridedMatrix& matrix, int64_t panel, void* target);

// One panel of it, panel_bytes(dtype, columns) at `target` (64-byte aligned).
void pack_panel(const StridedMatrix& matrix, int64_t panel, void* target);

// Row `row` (0 to 15) of a packed panel of a quantized format as f32 [columns].
void unpack_row(DType dtype, const void* panel, int row, int64_t columns, float* out);

}  // namespace gabbro::cpu::GABBRO_ISA
