// Tiles of the paged cache in a block's memory, where matrix cores read them.
#pragma once

#include "kernels/attention/kv_access.h"
#include "kernels/gpu/matrix.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr float kLargestHalf = 65504;

// Keys begin <= key < end.
struct KeyRange {
  i32 begin, end;
};
inline constexpr i32 kNoKey = 0x7fffffff;  // behind all

// Eight neighboring elements of a cache as f16; `scale` advances by `scale_step` per element (0: all share one).
template <bool scaled>
GPU_FUNCTION inline Vec16 load_f16(const KvSide& side, i64 element, i64 scale, i64 scale_step) {
  if constexpr (!scaled) return load_vec16(static_cast<const Half*>(side.data) + element);
  const u64 codes = *reinterpret_cast<const u64*>(static_cast<const i8*>(side.data) + element);
  float values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = static_cast<float>(static_cast<i8>(codes >> (8 * i))) * to_float(side.scale[scale + i * scale_step]);
  }
  Vec16 f16;
#pragma unroll
  for (int w = 0; w < 4; ++w) f16.word[w] = pack_f16x2(values[2 * w], values[2 * w + 1]);
  return f16;
}

// Brings tiles of `tile_keys` keys and their values, of one KV head and sequence, into the block's memory, by all its
// `threads`. A part of the keys is some elements of all of them, a part of the values is all elements of some.
template <bool scaled, int dim, int tile_keys, int threads, int parts = 1>
class CacheTiles {
 public:
  static constexpr int kPartDim = dim / parts, kPartKeys = tile_keys / parts;
  using Keys = TransposedTile<kPartDim, tile_keys>;  // k: elements of a head, columns: keys
  using Values = TransposedTile<kPartKeys, dim>;     // k: keys, columns: elements of a head

  GPU_FUNCTION CacheTiles(const AttentionArgs& a, i32 head) : a_(a), head_(head) {}

  GPU_FUNCTION void select(i32 sequence, const KeyRange& range) {
    sequence_ = sequence;
    range_ = range;
  }

  // A part of the keys of the tile from `base` on; past the last key, up to seven of its page, and zeros.
  GPU_FUNCTION void begin_keys(i32 base, Half* tile, int part = 0) {
    if (a_.kv.dim == dim && base + tile_keys <= range_.end) {
      copy_keys<true>(base, part * kPartDim, tile);
    } else {
      copy_keys<false>(base, part * kPartDim, tile);
    }
    keys_.sent();
  }
  // A part of their values; zeros past the last key, since 0 times an unwritten value may be NaN.
  GPU_FUNCTION void begin_values(i32 base, Half* tile, int part = 0) {
    base += part * kPartKeys;
    // Nearly always, and a third of the instructions.
    if (a_.kv.dim == dim && a_.kv.page >= kPartKeys && base >= range_.begin && base + kPartKeys <= range_.end) {
      copy_values<true>(base, tile);
    } else {
      copy_values<false>(base, tile);
    }
    values_.sent();
  }
  // Waits until the begun tile is complete; up to `later` tiles begun after it may still be in flight. Tiles with
  // scales were complete at once.
  template <int later>
  GPU_FUNCTION void end_keys() {
    if constexpr (!scaled) keys_.template landed<later>();
  }
  template <int later>
  GPU_FUNCTION void end_values() {
    if constexpr (!scaled) values_.template landed<later>();
  }
  // Instead of one of the two, where there are no more.
  GPU_FUNCTION void begin_none() { keys_.sent(); }

 private:
  static constexpr int kVectors = tile_keys * dim / parts / 8 / threads;

  // Elements from `first_d` on; `whole`: all of D and all keys are there.
  template <bool whole>
  GPU_FUNCTION void copy_keys(i32 base, i32 first_d, Half* tile) {
    constexpr int kRowVectors = tile_keys / 8, kRows = threads / kRowVectors;
    const i32 column = static_cast<i32>(thread_index()) % kRowVectors * 8, key = base + column;
    const i32 row = Keys::first_row(static_cast<i32>(thread_index()) / kRowVectors, kVectors);
    const KeySlot place = key_slot(a_.kv, page(key), head_, slot_of(key));
    const i64 step = static_cast<i64>(a_.kv.page) * Keys::row_step(kRows);
    i64 element = place.element + static_cast<i64>(a_.kv.page) * (first_d + row);
#pragma unroll
    for (int i = 0; i < kVectors; ++i, element += step) {
      const i32 own = row + i * Keys::row_step(kRows), d = first_d + own;
      copy(keys_, i, tile + Keys::place(static_cast<u32>(own), static_cast<u32>(column)), a_.keys, element,
           place.scale + static_cast<i64>(d / kScaleGroup) * a_.kv.page, 1,
           whole || (key < range_.end && d < a_.kv.dim));
    }
    if constexpr (scaled) land(keys_);
  }
  // `whole`: all of D, and all keys are seen and on one page.
  template <bool whole>
  GPU_FUNCTION void copy_values(i32 base, Half* tile) {
    constexpr int kRowVectors = dim / 8, kRows = threads / kRowVectors;
    const i32 d = static_cast<i32>(thread_index()) % kRowVectors * 8;
    const i32 first = Values::first_row(static_cast<i32>(thread_index()) / kRowVectors, kVectors);
    constexpr i32 kStep = Values::row_step(kRows);
    ValuePlace place = value_place(a_.kv, page(base + first), head_, slot_of(base + first));
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const i32 slot = first + i * kStep, key = base + slot;
      if constexpr (whole) {
        if (i > 0) place = {place.element + dim * kStep, place.scale + dim / kScaleGroup * kStep};
      } else {
        place = value_place(a_.kv, page(key), head_, slot_of(key));
      }
      copy(values_, i, tile + Values::place(static_cast<u32>(slot), static_cast<u32>(d)), a_.values, place.element + d,
           place.scale + d / kScaleGroup, 0, whole || (key >= range_.begin && key < range_.end && d < a_.kv.dim));
    }
    if constexpr (scaled) land(values_);
  }

  // Converted elements are stored at once: in flight they would need twice the registers of their loads.
  template <class Copy>
  GPU_FUNCTION static void land(Copy& copies) {
    if constexpr (!kLoadsTranspose) copies.landed();
  }

  // Page numbers out of range are held within the cache, keys past the end on the last page.
  GPU_FUNCTION i32 page(i32 key) const {
    const i64 entry = static_cast<i64>(sequence_) * a_.table.columns + (min_of(key, range_.end - 1) >> a_.kv.page_bits);
    return min_of(max_of(a_.table.pages[entry], 0), a_.kv.pages - 1);
  }
  GPU_FUNCTION i32 slot_of(i32 key) const { return key & (a_.kv.page - 1); }
  template <class Copy>
  GPU_FUNCTION static void copy(Copy& copies, int i, Half* to, const KvSide& side, i64 element, i64 scale,
                                i64 scale_step, bool inside) {
    if constexpr (scaled) {
      const Vec16 f16 = inside ? load_f16<true>(side, element, scale, scale_step) : Vec16{};
      if constexpr (kLoadsTranspose) {
        store_vec16(to, f16);
      } else {
        copies.begin(i, to, f16);
      }
    } else {
      copies.begin(i, to, static_cast<const Half*>(side.data) + (inside ? element : 0), inside);
    }
  }

  const AttentionArgs& a_;
  i32 head_;
  i32 sequence_ = 0;
  KeyRange range_{0, 0};
  typename Keys::template Copy<kVectors> keys_;
  typename Values::template Copy<kVectors> values_;
};

// Scores of keys become `softcap · tanh(score / softcap)`, of logarithms to the base 2.
GPU_FUNCTION inline void cap(float softcap, Accumulator& scores) {
#pragma unroll
  for (float& score : scores.value) score = softcap * kLog2E * tanh(score / (softcap * kLog2E));
}

}  // namespace gabbro::gpu::GABBRO_GPU
