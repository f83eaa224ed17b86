// Elements of the paged cache, read two at a time.
#pragma once

#include "kernels/attention/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

// Two elements of the cache as they are stored: neighboring keys of one d, or neighboring d of one value.
template <KvType type>
struct RawPair {
  u32 bits;
  Half scales[2];
};
template <>
struct RawPair<KvType::kF32> {
  float a, b;
};
struct Pair {
  float a, b;
};
// Loads element d. `step` is from the scale of the first to that of the second.
template <KvType type>
GPU_FUNCTION inline RawPair<type> load_pair(const KvSide& side, i64 element, i32 d, i64 scale, i32 step) {
  if constexpr (type == KvType::kF32) {
    const auto pair = *reinterpret_cast<const FloatPair*>(static_cast<const float*>(side.data) + element);
    return {pair.a, pair.b};
  } else if constexpr (has_scales(type)) {
    const u32 bits = *reinterpret_cast<const u16*>(static_cast<const i8*>(side.data) + element);
    return {type == KvType::kU4 ? bits >> nibble_shift(d) : bits, {side.scale[scale], side.scale[scale + step]}};
  } else {
    return {*reinterpret_cast<const u32*>(static_cast<const u16*>(side.data) + element), {}};
  }
}
template <KvType type>
GPU_FUNCTION inline Pair pair_of(const RawPair<type>& raw) {
  if constexpr (type == KvType::kF32) {
    return {raw.a, raw.b};
  } else if constexpr (type == KvType::kI8) {
    return {static_cast<float>(static_cast<i8>(raw.bits)) * to_float(raw.scales[0]),
            static_cast<float>(static_cast<i8>(raw.bits >> 8)) * to_float(raw.scales[1])};
  } else if constexpr (type == KvType::kU4) {
    return {static_cast<float>(static_cast<i32>(raw.bits & 15) - 8) * to_float(raw.scales[0]),
            static_cast<float>(static_cast<i32>(raw.bits >> 8 & 15) - 8) * to_float(raw.scales[1])};
  } else if constexpr (type == KvType::kBf16) {
    return {to_float(BFloat{static_cast<u16>(raw.bits)}), to_float(BFloat{static_cast<u16>(raw.bits >> 16)})};
  } else {
    return {to_float(Half{static_cast<u16>(raw.bits)}), to_float(Half{static_cast<u16>(raw.bits >> 16)})};
  }
}
// Words of registers that a pair takes.
constexpr int pair_words(KvType type) { return has_scales(type) || type == KvType::kF32 ? 2 : 1; }

}  // namespace gabbro::gpu::GABBRO_GPU
