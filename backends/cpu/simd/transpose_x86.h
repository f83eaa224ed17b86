// Transpositions of blocks, for the sets that have AVX2.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace gabbro::cpu::GABBRO_ISA {

// 16 rows of 16 elements, `step` bytes from one to the next: to[c][r] = row r's element c.
inline void transpose_words(const std::byte* from, int64_t step, uint16_t* to) {
  __m256i rows[16], pairs[16], fours[16];
  for (int r = 0; r < 16; ++r) rows[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + r * step));
  for (int r = 0; r < 16; r += 2) {
    pairs[r] = _mm256_unpacklo_epi16(rows[r], rows[r + 1]);      // columns 0-3 and 8-11 of two rows
    pairs[r + 1] = _mm256_unpackhi_epi16(rows[r], rows[r + 1]);  // columns 4-7 and 12-15
  }
  for (int r = 0; r < 16; r += 4) {
    for (int half = 0; half < 2; ++half) {  // columns 4·half + 0, 1 and then 2, 3 of four rows, and those plus 8
      fours[r + 2 * half] = _mm256_unpacklo_epi32(pairs[r + half], pairs[r + 2 + half]);
      fours[r + 2 * half + 1] = _mm256_unpackhi_epi32(pairs[r + half], pairs[r + 2 + half]);
    }
  }
  for (int c = 0; c < 8; ++c) {  // columns c and c + 8
    __m256i eights[2];
    for (int half = 0; half < 2; ++half) {
      const __m256i low = fours[8 * half + c / 2], high = fours[8 * half + 4 + c / 2];
      eights[half] = c % 2 == 0 ? _mm256_unpacklo_epi64(low, high) : _mm256_unpackhi_epi64(low, high);
    }
    auto* out = reinterpret_cast<__m256i*>(to + c * 16);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(eights[0], eights[1], 0x20));
    _mm256_storeu_si256(out + 8, _mm256_permute2x128_si256(eights[0], eights[1], 0x31));
  }
}

// 16 rows of 8 groups of 4 bytes, `step` bytes from one to the next: to + 64 · g + 4 · r = row r's group g.
inline void transpose_fours(const uint8_t* from, int64_t step, uint8_t* to) {
  for (int half = 0; half < 2; ++half) {  // eight rows each
    __m256i rows[8], pairs[8], fours[8];
    for (int r = 0; r < 8; ++r)
      rows[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + (8 * half + r) * step));
    for (int r = 0; r < 8; r += 2) {
      pairs[r] = _mm256_unpacklo_epi32(rows[r], rows[r + 1]);      // groups 0, 1 and 4, 5 of two rows
      pairs[r + 1] = _mm256_unpackhi_epi32(rows[r], rows[r + 1]);  // groups 2, 3 and 6, 7
    }
    for (int r = 0; r < 8; r += 4) {
      for (int i = 0; i < 2; ++i) {  // groups 2i and 2i + 1, each with that plus 4, of four rows
        fours[r + 2 * i] = _mm256_unpacklo_epi64(pairs[r + i], pairs[r + 2 + i]);
        fours[r + 2 * i + 1] = _mm256_unpackhi_epi64(pairs[r + i], pairs[r + 2 + i]);
      }
    }
    auto* const out = reinterpret_cast<__m256i*>(to + 32 * half);
    for (int g = 0; g < 4; ++g) {
      _mm256_storeu_si256(out + 2 * g, _mm256_permute2x128_si256(fours[g], fours[4 + g], 0x20));
      _mm256_storeu_si256(out + 2 * (g + 4), _mm256_permute2x128_si256(fours[g], fours[4 + g], 0x31));
    }
  }
}

// `rows` (1 to 8) rows of 8 floats, `step` apart: eight columns, `to_step` apart, from the first to the last. Columns
// are written whole; where there are fewer rows, what comes behind them is of no use.
inline void transpose_eights(const float* from, int64_t step, int rows, float* to, int64_t to_step) {
  __m256 row[8], pairs[8], fours[8];
  for (int r = 0; r < 8; ++r) row[r] = _mm256_loadu_ps(from + (r < rows ? r : 0) * step);
  for (int r = 0; r < 8; r += 2) {
    pairs[r] = _mm256_unpacklo_ps(row[r], row[r + 1]);      // columns 0, 1 and 4, 5 of two rows
    pairs[r + 1] = _mm256_unpackhi_ps(row[r], row[r + 1]);  // columns 2, 3 and 6, 7
  }
  for (int r = 0; r < 8; r += 4) {
    for (int half = 0; half < 2; ++half) {  // columns 2·half and 2·half + 1, each with that plus 4, of four rows
      fours[r + 2 * half] = _mm256_shuffle_ps(pairs[r + half], pairs[r + 2 + half], 0x44);
      fours[r + 2 * half + 1] = _mm256_shuffle_ps(pairs[r + half], pairs[r + 2 + half], 0xee);
    }
  }
  for (int c = 0; c < 4; ++c) _mm256_storeu_ps(to + c * to_step, _mm256_permute2f128_ps(fours[c], fours[c + 4], 0x20));
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(to + (c + 4) * to_step, _mm256_permute2f128_ps(fours[c], fours[c + 4], 0x31));
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
