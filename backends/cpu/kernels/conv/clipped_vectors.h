// Clipped rows of a sliding window (clipped_row.h), copied by whole vectors to rows that have room for these. For sets
// whose vectors have masks (kMasksLanes).
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// A row, and which lanes of its vectors are inside.
struct ClippedVectors {
  static constexpr int64_t kMost = 9;

  explicit ClippedVectors(const ClippedRow& clipped) : row(clipped) {
    constexpr float kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F32 half = splat(0.5f * static_cast<float>(clipped.end - clipped.begin));
    for (int64_t j = 0; j * kLanes < clipped.count; ++j) {  // those that are as near to the middle
      const int64_t ends = clipped.begin + clipped.end - 1 - 2 * j * kLanes;
      inside[j] = abs(load(kNumbers) - splat(0.5f * static_cast<float>(ends))) < half;
    }
  }

  ClippedRow row;
  Mask inside[kMost];
};

// Zeros, a vector at least: the loop is a call of the C library's, which costs more than most rows.
inline void clear_vectors(float* to, int64_t count) {
  store(to, zero_f32());
  for (int64_t i = kLanes; i < count; i += kLanes) store(to + i, zero_f32());
}

// Source and target of a copy. Elements loaded next to a row are from elsewhere in x.
struct ClippedCopy {
  std::span<const float> x;
  int64_t plane;    // where it begins in x, if it has rows
  int64_t pitch;    // from row to row of `to`
  int64_t between;  // from `to` on, the elements that a step of two leaves out; 0: nowhere
  float* to;
};

// copy_clipped_rows() for a step of one or two.
template <int kStep>
[[gnu::noinline]] void copy_clipped_vectors(const ClippedVectors& clipped, const ClippedVectors& between,
                                            const ClippedRows& rows, const ClippedCopy& copy) {
  const int64_t count = clipped.row.count, vectors = pieces(count, kLanes), reach = vectors * kLanes * kStep;
  const int64_t length = rows.length, size = static_cast<int64_t>(copy.x.size());
  int64_t at = copy.plane + rows.first * length + clipped.row.left;
  float* to = copy.to;
  const bool has_between = kStep == 2 && copy.between != 0;
  ClippedRows row = rows;
  row.rows = 1;
  for (int64_t i = 0; i < rows.rows; ++i, row.first += rows.step, at += rows.step * length, to += copy.pitch) {
    if (row.first < 0 || row.first >= rows.height) {
      clear_vectors(to, count);
      if (has_between) clear_vectors(to + copy.between, count);
      continue;
    }
    if (at < 0 || at + reach > size) {  // the first and the last rows of x
      copy_clipped_rows(clipped.row, row, copy.x.data() + copy.plane, copy.pitch, to);
      if (has_between) {
        copy_clipped_rows(between.row, row, copy.x.data() + copy.plane, copy.pitch, to + copy.between);
      }
      continue;
    }
    const float* from = copy.x.data() + at;
    for (int64_t j = 0; j < vectors; ++j, from += kLanes * kStep) {
      store(to + j * kLanes, zero_unless(clipped.inside[j], kStep == 1 ? load(from) : load_even(from)));
      if (has_between) store(to + copy.between + j * kLanes, zero_unless(between.inside[j], load_odd(from)));
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
