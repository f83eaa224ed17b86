// Arguments of the random numbers.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// Element i comes from word i % 4 of Philox's block number offset + i / 4. A thread a block of four.
struct RandomArgs {
  const u32* key;  // seed, offset, stream: 64 bits each, the low word first
  void* y;
  i64 total;
  i64 low;    // of integers: y = low + word · range / 2^32
  u64 range;  // at most 2^32
};

}  // namespace gabbro::gpu
