// The inner products of `linear`: one or two panels of weights with one tile of tokens. Results are f32 [W][16] per
// panel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/linear/linear_activations.h"

namespace gabbro::cpu::GABBRO_ISA {

// Asks for the `bytes` that come `distance` after `at`: the processor's own prefetcher stops at the end of each panel
// and page. Past the end of the weights it does nothing.
template <int64_t bytes, int64_t distance>
[[gnu::always_inline]] inline void prefetch_ahead(const void* at) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(at) + distance + i);
}

// Up to kFewTokens tokens, straight from the packed form.
using FewQuantized = void (*)(const void* panel, int64_t columns, const WordTile& x, float* y);

// Up to kSmallBatch tokens (W), for plain weights, which are read in place: the rows of up to kFewPanels panels, each
// of consecutive elements. x: [W][K]; results: [panels][W][16]. Panels are interleaved, since a core reads several
// streams of addresses faster than one, if they are pages apart (Zen 3: four panels of F16 1.2 to 1.4 times as fast as
// one).
struct PlainRows {
  const std::byte* first;
  int64_t step;  // bytes from one row to the next
  int count;
  int64_t columns;
};
using FewPlain = void (*)(const PlainRows& rows, const float* x, int width, float* y);

FewQuantized few_quantized(DType dtype, int width);
FewPlain few_plain(DType dtype, int width);

// Up to kSmallBatch tokens, in tiles, also from the packed form: `count` (1 or 2) panels of one format.
struct PackedPanels {
  const void* const* panels;
  int64_t ahead;  // bytes from a panel to the one that will be read in its place in the next item
};
using PackedDot = void (*)(const PackedPanels& weights, int64_t columns, const WordTile& x, float* y);
PackedDot packed_dot(DType dtype, int width, int count);  // width: 4 or kPackedTile

// More tokens, weights as codes of 16 bits: a panel is unpacked once, and then meets all tiles from the nearest caches.
// Whatever the format, a chunk of a row has one scale.
struct UnpackedPanel {
  int16_t* codes;   // [K/2][16][2], dealt as in WordTile, within ±kWordLevels
  float* scales;    // [K/32][16]
  float* minimums;  // [K/group][16], where the format has them
  static int64_t bytes(DType dtype, int64_t columns);
  static UnpackedPanel at(char* memory, int64_t columns);
};
using Unpack = void (*)(const void* panel, int64_t columns, const UnpackedPanel& out);
// `count` (1 or 2) panels of formats with one function.
using MultiTokenI16 = void (*)(const UnpackedPanel* panels, int64_t columns, const WordTile& x, float* y);

// f16, bf16 and quantized formats; K is a multiple of kChunk.
Unpack unpack_function(DType dtype);
MultiTokenI16 multi_token_i16(DType dtype, int width, int count);

// More tokens, any plain weights: `count` (1 or 2) panels.
using ManyPlain = void (*)(const void* const* panels, int64_t columns, const float* x, float* y);

ManyPlain many_plain(DType dtype, int width, int count);

}  // namespace gabbro::cpu::GABBRO_ISA
