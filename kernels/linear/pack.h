// Arguments of the kernels that pack weights.
#pragma once

#include "kernels/linear/packing.h"

namespace gabbro::gpu {

// X(format) for each format that is packed on the device; the others are packed by the host.
#define GABBRO_FOR_EACH_PACKED(X) \
  X(q4_0)                         \
  X(q4_1)                         \
  X(q5_0)                         \
  X(q5_1)                         \
  X(q8_0)                         \
  X(q2_k)                         \
  X(q3_k)                         \
  X(q4_k)                         \
  X(q5_k)                         \
  X(q6_k)                         \
  X(iq4_nl)                       \
  X(iq4_xs)                       \
  X(mxfp4)                        \
  X(q1_0)                         \
  X(q2_0)                         \
  X(tq1_0)                        \
  X(tq2_0)                        \
  X(iq1_s)                        \
  X(iq1_m)                        \
  X(iq2_xxs)                      \
  X(iq2_xs)                       \
  X(iq2_s)                        \
  X(iq3_xxs)                      \
  X(iq3_s)                        \
  X(int4_zp)                      \
  X(int8_f32)                     \
  X(fp8_e4m3)                     \
  X(nf4)

struct PackArgs {
  const u8* source;  // [count / row_blocks] rows in the file's layout
  u8* target;        // of the packed matrix [rows, columns]
  const u16* grid;   // lattice of the format; null where it has none
  PackedLayout layout;
  i64 first_block;  // of 32 codes, counted over all rows: where the source's first goes
  i64 count;        // blocks of 32 codes
  i32 row_blocks;   // of a row
  i64 row_bytes;    // of the source
};

inline constexpr u32 kPackThreads = 256;

}  // namespace gabbro::gpu
