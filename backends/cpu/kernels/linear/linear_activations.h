// The activations of a linear as its dot products want them: tokens in tiles, quantized or f32, with an RMSNorm before
// where one is fused in.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/pack/layout.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kFewTokens = 4;   // up to here a product streams packed weights once and is bound by memory
inline constexpr int kPackedTile = 8;  // of the tiles that meet packed weights after that,
inline constexpr int kPackedTokens = kTileVectors == 2 ? 8 : 4;  // of such a tile at once, with sums in registers
inline constexpr int kSmallBatch = 16;                           // up to here: the decode steps of several sequences
inline constexpr int kTileTokens = 12;  // of the widest tile: a multiple of what any set multiplies at once

// Tokens of a tile per step, for a kernel with registers for `most`: a divisor of the width.
constexpr int tokens_at_once(int width, int most) {
  while (width % most != 0) --most;
  return most;
}

// Quantized activations are codes of 16 bits within ±kWordLevels, a scale per chunk: 32 products of two fit 32 bits. In
// 8 bits, as llama.cpp has them, activations are what costs a quantized model most of its precision: KL against f32
// activations 2e-3 to 3e-3, with 16 bits 1e-6. A chunk with no value above kLeastWordPeak counts as zeros:
// kWordLevels / peak would overflow.
inline constexpr float kWordLevels = 8191, kLeastWordPeak = 0x1p-114f;
static_assert(kChunk * 8191LL * 8191 < 1LL << 31);

// Sums that a format needs of each group of activations besides their codes: with s the sum of the group's codes,
// either the start of its integer dot product, i32 -zero·s, or for formats with a minimum f32 scale·s.
struct GroupSums {
  int group;
  int zero;
  bool minimum;
  bool operator==(const GroupSums&) const = default;
};

// W tokens. Pair p of token t holds two codes: of each four k, first k and k + 2, then k + 1 and k + 3, as
// even_bytes and odd_bytes deal the weights. A code stands for scales[k/32][t] times itself.
struct WordTile {
  const int16_t* codes;  // [K/2][W][2]
  const float* scales;   // [K/32][W]
  const int32_t* sums;   // [K/group][W], i32 or f32 (GroupSums)
};

// How T tokens are cut into tiles. Up to kFewTokens, or up to kSmallBatch if all weights are plain, are one tile. Else
// tiles are full_width() wide; the last one's width is the next multiple of four, with tokens of zeros.
class Tiling {
 public:
  Tiling(int64_t tokens, bool plain) : tokens_(tokens), few_(tokens <= (plain ? kSmallBatch : kFewTokens)) {}
  int64_t tokens() const { return tokens_; }
  bool few() const { return few_; }
  bool small_batch() const { return !few() && tokens_ <= kSmallBatch; }
  bool packed() const { return tokens_ <= kSmallBatch; }  // whether quantized weights are used in the packed form
  int64_t count() const { return few() ? 1 : (tokens_ + full_width() - 1) / full_width(); }
  int full_width() const { return few() ? static_cast<int>(tokens_) : small_batch() ? kPackedTile : kTileTokens; }
  int64_t first(int64_t tile) const { return tile * full_width(); }
  int used(int64_t tile) const {
    const int64_t left = tokens_ - first(tile);
    return static_cast<int>(left < full_width() ? left : full_width());
  }
  int width(int64_t tile) const { return few() ? full_width() : (used(tile) + 3) / 4 * 4; }

 private:
  int64_t tokens_;
  bool few_;
};

// Prepares tiles of one x [T, K] in memory that the caller gives. K is a multiple of 32 where `words`.
struct ActivationPlan {
  int64_t columns;
  bool plain = false;           // f32 tiles [K][W] are wanted,
  bool rows = false;            // or [W][K]
  bool words = false;           // 16-bit tiles are wanted,
  std::vector<GroupSums> sums;  // with these
  bool norm = false;
  float epsilon = 0;

  int64_t tile_bytes(int width) const {  // a multiple of 64
    return words ? sums_at(width, static_cast<int>(sums.size())) : words_at(width);
  }
  int64_t row_bytes() const { return (columns * 4 + 63) / 64 * 64; }  // of the temporary below

  // Columns [begin, end), multiples of kChunk but for K itself.
  struct Columns {
    int64_t begin, end;
  };
  // The tokens of a tile.
  struct Tokens {
    const float* x;            // [used][K]
    const float* norm_weight;  // [K] if `norm`
    int used;
    int width;  // of the tile, at least `used`
  };
  // Fills `part` of the tile at `target` (64-byte aligned) with the tokens, and with zeros up to the tile's width.
  // `row` is a temporary of row_bytes().
  void prepare(const Tokens& tokens, Columns part, char* target, float* row) const;

  const float* plain_tile(const char* tile) const { return reinterpret_cast<const float*>(tile); }
  // With the sums of place `variant` in `sums`.
  WordTile word_tile(const char* tile, int width, int variant) const {
    return {.codes = reinterpret_cast<const int16_t*>(tile + words_at(width)),
            .scales = reinterpret_cast<const float*>(tile + scales_at(width)),
            .sums = reinterpret_cast<const int32_t*>(tile + sums_at(width, variant))};
  }

 private:
  // Offsets of a tile's parts. Inline, since they are needed for each panel and tile.
  static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t words_at(int width) const { return plain || rows ? aligned(columns * width * 4) : 0; }
  int64_t scales_at(int width) const { return words_at(width) + aligned(columns * width * 2); }
  int64_t sums_at(int width, int variant) const {
    return scales_at(width) + aligned(columns / 8 * width) + variant * aligned(columns / 4 * width);
  }
  void quantize(const float* x, int token, int width, Columns part, char* tile) const;
  // Sums of the codes of a chunk's first and second half, and the chunk's scale.
  struct ChunkSums {
    int32_t low, high;
    float scale;
  };
  void add_sums(const ChunkSums& chunk_sums, int64_t chunk, int token, int width, char* tile) const;
};

// y = x · weight / rms(x).
void rms_norm_row(const float* x, const float* weight, float epsilon, int64_t columns, float* y);

}  // namespace gabbro::cpu::GABBRO_ISA
