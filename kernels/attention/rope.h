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
  u16 bits;    // f16 or bf16
  i8 code;     // i8; of u4 two, where d % 32 is below 16
  Half scale;  // of the code
  float read;  // by a reader; f32 itself
};

// The largest of the values of a group's lanes.
GPU_FUNCTION inline float group_max(float value) {
  for (u32 step = 1; step < kScaleGroup; step *= 2) value = max_of(value, shuffle_xor(value, step));
  return value;
}

// The 32 lanes of a group share their scale, so all lanes of the wave come here; a value that is not `inside` does not
// count.
GPU_FUNCTION inline KvElement i8_element(float value, bool inside) {
  const Half scale = to_half(group_max(inside ? abs(value) : 0) / 127);
  const float inverse = to_float(scale) > 0 ? 1 / to_float(scale) : 0;  // of the factor of readers
  const auto code = static_cast<i8>(round_to_int(min_of(max_of(value * inverse, -127.0f), 127.0f)));
  return {{}, code, scale, static_cast<float>(code) * to_float(scale)};
}

// The element of the largest size has the code 0, which is -8 times the scale (Q4_0 of GGUF).
GPU_FUNCTION inline KvElement u4_element(float value, bool inside) {
  const float high = group_max(inside ? value : 0), low = -group_max(inside ? -value : 0);
  const Half scale = to_half((high >= -low ? high : low) / -8);
  const float inverse = to_float(scale) != 0 ? 1 / to_float(scale) : 0;
  const i32 code = static_cast<i32>(min_of(max_of(0.0f, value * inverse + 8.5f), 15.0f));
  const i32 both = code | shuffle_xor(code, kScaleGroup / 2) << 4;
  return {{}, static_cast<i8>(both), scale, static_cast<float>(code - 8) * to_float(scale)};
}

template <KvType type>
GPU_FUNCTION inline KvElement kv_element(float value, bool inside) {
  if constexpr (type == KvType::kI8) return i8_element(value, inside);
  if constexpr (type == KvType::kU4) return u4_element(value, inside);
  if constexpr (type == KvType::kF32) return {{}, 0, {}, value};
  if constexpr (type == KvType::kBf16) {
    const BFloat rounded = to_bfloat(value);
    return {rounded.bits, 0, {}, to_float(rounded)};
  }
  const Half half = to_half(value);
  return {half.bits, 0, {}, to_float(half)};
}

// Element d to its stored element and scale.
template <KvType type>
GPU_FUNCTION inline void store_kv(const KvSide& side, i64 element, i64 scale, const KvElement& x, i32 d) {
  if constexpr (type == KvType::kF32) {
    static_cast<float*>(side.data)[element] = x.read;
  } else if constexpr (!has_scales(type)) {
    static_cast<u16*>(side.data)[element] = x.bits;
  } else {
    if (type == KvType::kI8 || nibble_shift(d) == 0) static_cast<i8*>(side.data)[element] = x.code;
    if (d % kScaleGroup == 0) side.scale[scale] = x.scale;
  }
}

// Element d of the key (or value) of a token at the place.
template <KvType type>
GPU_FUNCTION inline void store_key(const KvSide& side, const KvShape& kv, const KeySlot& place, i32 d,
                                   const KvElement& x) {
  store_kv<type>(side, place.element + static_cast<i64>(stored_row<type>(d)) * kv.page,
                 place.scale + static_cast<i64>(d / kScaleGroup) * kv.page, x, d);
}
template <KvType type>
GPU_FUNCTION inline void store_value(const KvSide& side, const ValuePlace& place, i32 d, const KvElement& x) {
  store_kv<type>(side, place.element + stored_row<type>(d), place.scale + d / kScaleGroup, x, d);
}

}  // namespace gabbro::gpu::GABBRO_GPU
