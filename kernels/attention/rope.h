// Rotary position embedding (Su et al. 2021), and elements as the cache keeps them.
#pragma once

#include "kernels/attention/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

// Rotation of element d of a head: the angle position · inverse_frequency.
struct Rotation {
  float cos = 1, sin = 0;
};
GPU_FUNCTION inline bool is_rotated(const RopeArgs& rope, i32 d) {
  return rope.inverse_frequencies != nullptr && d < 2 * rope.half;
}
GPU_FUNCTION inline float inverse_frequency(const RopeArgs& rope, i32 d) {
  return is_rotated(rope, d) ? rope.inverse_frequencies[rope.interleaved ? d / 2 : d % rope.half] : 0;
}
GPU_FUNCTION inline Rotation rotation_by(const RopeArgs& rope, i32 d, i32 position, float frequency) {
  if (!is_rotated(rope, d)) return {};
  const float angle = static_cast<float>(position) * frequency;
  return {cos(angle) * rope.magnitude, sin(angle) * rope.magnitude};
}
GPU_FUNCTION inline Rotation rotation_of(const RopeArgs& rope, i32 d, i32 position) {
  return rotation_by(rope, d, position, inverse_frequency(rope, d));
}
// Index of the other element of d's rotated pair; d itself if it is not rotated.
GPU_FUNCTION inline i32 partner(const RopeArgs& rope, i32 d) {
  if (!is_rotated(rope, d)) return d;
  return rope.interleaved ? d ^ 1 : d < rope.half ? d + rope.half : d - rope.half;
}
GPU_FUNCTION inline float rotated(const RopeArgs& rope, float x, float other, i32 d, const Rotation& rotation) {
  if (!is_rotated(rope, d)) return x;
  const bool first = rope.interleaved ? d % 2 == 0 : d < rope.half;
  return first ? x * rotation.cos - other * rotation.sin : x * rotation.cos + other * rotation.sin;
}
GPU_FUNCTION inline float rotated(const RopeArgs& rope, const float* x, i32 d, const Rotation& rotation) {
  return rotated(rope, x[d], x[partner(rope, d)], d, rotation);
}

// An element as the cache keeps it.
struct KvElement {
  Half half;   // f16
  i8 code;     // i8
  Half scale;  // of the code
  float read;  // what a reader gets
};

// For i8 the 32 lanes of a group share their scale, so all lanes of the wave come here; a value that is not `inside`
// does not count.
template <bool scaled>
GPU_FUNCTION inline KvElement kv_element(float value, bool inside) {
  if constexpr (!scaled) {
    const Half half = to_half(value);
    return {half, 0, {}, to_float(half)};
  } else {
    float peak = inside ? abs(value) : 0;
    for (u32 step = 1; step < kScaleGroup; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
    const Half scale = to_half(peak / 127);
    const float inverse = to_float(scale) > 0 ? 1 / to_float(scale) : 0;  // of what the reader will multiply by
    const auto code = static_cast<i8>(round_to_int(min_of(max_of(value * inverse, -127.0f), 127.0f)));
    return {{}, code, scale, static_cast<float>(code) * to_float(scale)};
  }
}

template <bool scaled>
GPU_FUNCTION inline void store_kv(const KvSide& side, i64 element, i64 scale, const KvElement& x, bool first_of_group) {
  if constexpr (!scaled) {
    static_cast<Half*>(side.data)[element] = x.half;
  } else {
    static_cast<i8*>(side.data)[element] = x.code;
    if (first_of_group) side.scale[scale] = x.scale;
  }
}

// Element d of the key (or value) of a token at the place.
template <bool scaled>
GPU_FUNCTION inline void store_key(const KvSide& side, const KvShape& kv, const KeySlot& place, i32 d,
                                   const KvElement& x) {
  store_kv<scaled>(side, place.element + static_cast<i64>(d) * kv.page,
                   place.scale + static_cast<i64>(d / kScaleGroup) * kv.page, x, d % kScaleGroup == 0);
}
template <bool scaled>
GPU_FUNCTION inline void store_value(const KvSide& side, const ValuePlace& place, i32 d, const KvElement& x) {
  store_kv<scaled>(side, place.element + d, place.scale + d / kScaleGroup, x, d % kScaleGroup == 0);
}

}  // namespace gabbro::gpu::GABBRO_GPU
