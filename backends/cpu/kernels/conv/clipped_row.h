// A row of elements as a sliding window sees it: every `step`-th element from `left` on, and something else where that
// is outside the row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// Parts that a whole is cut into; the last one may be smaller.
inline int64_t pieces(int64_t whole, int64_t piece) { return (whole + piece - 1) / piece; }

struct ClippedRow {
  ClippedRow(int64_t row_length, int64_t from, int64_t every, int64_t elements)
      : left(from),
        step(every),
        count(elements),
        begin(std::clamp<int64_t>((every - 1 - from) / every, 0, elements)),
        end(std::clamp<int64_t>((row_length - from + every - 1) / every, begin, elements)) {}

  int64_t left;  // may be negative
  int64_t step;
  int64_t count;       // of elements that are clipped, or would be
  int64_t begin, end;  // the ones inside the row
};

// Works in pieces whose lengths the compiler knows; the last one may overlap the one before: the rows of small images
// are too short for a call.
inline void copy_short(const float* from, int64_t count, float* to) {
  const auto in_pieces = [&]<int64_t kPiece>() {
    const auto copy = [&](int64_t i) {
      if constexpr (kPiece == kLanes) {
        store(to + i, load(from + i));
      } else {
        std::copy_n(from + i, kPiece, to + i);
      }
    };
    for (int64_t i = 0; i + kPiece < count; i += kPiece) copy(i);
    copy(count - kPiece);
  };
  if (count >= kLanes) {
    in_pieces.template operator()<kLanes>();
  } else if (count >= 8) {
    in_pieces.template operator()<8>();
  } else if (count >= 4) {
    in_pieces.template operator()<4>();
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

// `row` is null where all of it is outside.
inline void copy_clipped(const ClippedRow& clipped, const float* row, float outside, float* to) {
  const int64_t begin = row == nullptr ? clipped.count : clipped.begin,
                end = row == nullptr ? clipped.count : clipped.end;
  for (int64_t i = 0; i < begin; ++i) to[i] = outside;
  if (begin < end && clipped.step == 1) {
    copy_short(row + clipped.left + begin, end - begin, to + begin);
  } else if (clipped.step == 2) {  // which the compiler has vectors for
    for (int64_t i = begin; i < end; ++i) to[i] = row[clipped.left + i * 2];
  } else {
    for (int64_t i = begin; i < end; ++i) to[i] = row[clipped.left + i * clipped.step];
  }
  for (int64_t i = end; i < clipped.count; ++i) to[i] = outside;
}

// Every `step`-th row of a plane from `first` on, `rows` of them.
struct ClippedRows {
  int64_t height, length;  // of the plane
  int64_t first, step, rows;
};

// Copies the clipped rows, zeros outside, `pitch` elements from row to row. Not inlined: the registers are in use where
// it is called.
[[gnu::noinline]] inline void copy_clipped_rows(const ClippedRow& row, const ClippedRows& rows, const float* plane,
                                                int64_t pitch, float* to) {
  const ClippedRow clipped = row;
  for (int64_t i = 0, h = rows.first; i < rows.rows; ++i, h += rows.step, to += pitch) {
    copy_clipped(clipped, h >= 0 && h < rows.height ? plane + h * rows.length : nullptr, 0, to);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
