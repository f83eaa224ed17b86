// Arguments of all_reduce: y = the sum of x over the ranks, added up in f32 in the order of the ranks, and rounded to
// the dtype; then the addend, if there is one, is added. Each rank stores its x into the inboxes of the others, and
// reads its own inbox.
//
// One shot: each rank adds up everything. Two shots, for larger sizes: rank r adds up slice r, and stores the sums into
// the inboxes. Words, for small sizes: one shot whose elements carry the number of the sum, so that no flag
// is needed behind them. The bits are the same.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr u32 kMostRanks = 32;       // lanes of the smallest wave
inline constexpr u32 kReduceBlocks = 256;   // of a launch, at most: all of them have to run at once, on all devices
inline constexpr u32 kFlagStep = 32;        // u32 from flag to flag: 128 bytes
inline constexpr u32 kReduceThreads = 512;  // of a block
inline constexpr u32 kReduceVectors = 4;    // of four elements, of a thread in a step
inline constexpr u32 kReduceSteps = 256;    // of a block in a launch, at most
inline constexpr u32 kWordBlocks = 64;      // of each launch of words: all count its number

// Memory of a rank that all devices can write: on AMD cards uncached (hipDeviceMallocUncached), zeros at first. Two
// parts take turns, so that a rank may be one all_reduce ahead of another that still reads.
struct ReduceInbox {
  u32* flags;       // [2 phases][kReduceBlocks][ranks], kFlagStep apart: the number of the all_reduce, and its step
  float* partials;  // [2 parts][ranks - 1][capacity], of the other ranks
  float* sums;      // [2 parts][capacity], of two shots
  u64* words;       // [2 parts][ranks][capacity of words], at 16 bytes
};

struct AllReduceArgs {
  const void* x;               // [count]
  const void* addend;          // [count], or null
  void* y;                     // [count], or x
  const ReduceInbox* inboxes;  // of all ranks, by this device's addresses: a table in its memory
  u32* counters;               // [blocks] of this rank's memory: all_reduces so far, any number at first, one for
                               // all ranks; a replayed graph counts on. Words have others
  // Host memory: the first element becomes 1 + the peer whose flag did not come in time. A rank that finds it set, or
  // sets it, waits for no flag any more, and its y is undefined.
  u32* failure;
  i64 count;     // of elements
  i64 capacity;  // of an inbox, in elements; a multiple of 4; of words: another
  u32 rank, ranks;
  u64 most_ticks;  // of waiting for a flag, before the peer counts as lost: ticks() of peer_memory.h
};

}  // namespace gabbro::gpu
