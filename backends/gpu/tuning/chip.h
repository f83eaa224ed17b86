// Thresholds between algorithms, by chip: the rules for shapes without a measurement (tuning.h). A chip without a row
// has the numbers of the first row.
#pragma once

#include <cstdint>
#include <string_view>

namespace gabbro::gpu {

struct Chip {
  std::string_view target;  // the beginning of the architecture, "gfx1100", "gfx11", "sm_90"; empty: all chips

  // Products with T tokens. Up to `small_batch_tokens` the kernels that read the weights once per eight tokens are the
  // fastest. Above, where there are matrix cores, the kernels for a batch are, or for f16 weights a vendor's library:
  // for other weights a library takes as long for 16 tokens as for 64 (8B Q4_K_M on an H100: 24 ms, where the kernels
  // for eight tokens take 9 ms per eight). Without either, above `untiled_tokens` tiles are: they reach 0.53, 0.94 and
  // 1.53 times the speed of the kernels for eight tokens with 16, 32 and 64 tokens.
  int64_t small_batch_tokens = 4;
  int64_t untiled_tokens = 32;
  // The largest T with which the kernels for eight tokens are worth a measurement.
  int64_t measured_small_batch_tokens = 128;
  // The largest T without a library for weights that it reads as a f16 copy.
  int64_t converted_tokens = 16;
  // The largest T of the kernels for a batch. They read weights once per kMaxBatchTile tokens, which costs less than
  // their conversion for a library up to here (8B Q4_K_M on an H100: 192 tokens take as long, 128 take 0.78 times as
  // long).
  int64_t batch_tokens = 192;
  // The largest T for weights of 16 bits, which a library reads as fast as their f16 copy. With 64 sequences of an 8B
  // model in f16 on an H200 the kernels for a batch give 9,060 tokens/s, and cuBLASLt 8,870.
  int64_t batch_tokens_16bit = 64;
  // With this many mean slots of an expert, or more, tiles have kMaxBatchTile slots and convert weights once for most
  // experts; with fewer, tiles of 16 lose less.
  int64_t large_tile_slots = 12;

  // Attention uses matrix cores with this many tokens, or more, if the cache can be read 16 bytes at a time. Queries
  // and probabilities become f16; with fewer tokens that gains hardly anything, and they stay f32.
  int64_t tiled_attention_tokens = 64;
  // Blocks that keep the device busy: with fewer the keys are split, into splits of `split_keys` keys or more.
  int64_t attention_blocks = 256;
  int64_t split_keys = 512;
};

// The row of an architecture ("gfx1100", "sm_90"): the longest target that it begins with.
const Chip& find_chip(std::string_view architecture);

}  // namespace gabbro::gpu
