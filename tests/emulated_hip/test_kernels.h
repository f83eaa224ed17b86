// Arguments of the kernels of the runtime's own tests.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct AddArgs {
  i32* data;  // one for each thread
  i32 summand;
};
struct OrderArgs {
  u32* counter;  // of blocks that have begun
  u32* blocks;   // out: their indices in that order
};
struct GarbageArgs {
  u32* out;  // [64] words of a block's memory that nothing has written
};
struct LargeArgs {
  u32 words[1025];  // more than 4096 bytes
};

}  // namespace gabbro::gpu
