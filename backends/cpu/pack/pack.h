// Weights in the arrangement that the linear kernels stream: see pack/layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

// Bytes of the packed form of a row-major [rows, columns], or 0 where there is none for this dtype or width.
size_t packed_bytes(DType dtype, int64_t rows, int64_t columns);

// Packs; called by all workers together.
void pack(DType dtype, int64_t rows, int64_t columns, const void* host, void* target, Worker& worker);

}  // namespace gabbro::cpu::GABBRO_ISA
