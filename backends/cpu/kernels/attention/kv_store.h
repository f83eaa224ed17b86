// Writing one token's keys or values into the paged cache: rounding to f16, or to i8 with one scale per 32 elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "backends/cpu/kernels/attention/kv_cache.h"

namespace gabbro::cpu::GABBRO_ISA {

struct KvTarget {
  void* cache;
  void* scale;  // null for f16
};

// x / scale to the nearest integer in ±127; NaN gives -127.
inline int8_t quantized(float x, float inverse_scale) {
  const float scaled = x * inverse_scale;
  if (!(scaled > -127.0f)) return -127;
  return static_cast<int8_t>(std::nearbyint(std::min(scaled, 127.0f)));
}

// One head: element d goes to data[d · stride] and its scale to scale[(d / 32) · stride].
inline void store_head(const KvShape& shape, const float* x, void* data, uint16_t* scale, int64_t stride) {
  if (!shape.bytes) {
    auto* to = static_cast<uint16_t*>(data);
    uint16_t lanes[kLanes];
    int64_t d = 0;
    for (; d + kLanes <= shape.dim; d += kLanes) {
      if (stride == 1) {
        store_half(to + d, load(x + d));
        continue;
      }
      store_half(lanes, load(x + d));
      for (int j = 0; j < kLanes; ++j) to[(d + j) * stride] = lanes[j];
    }
    for (; d < shape.dim; ++d) to[d * stride] = float_to_half_bits(x[d]);
    return;
  }
  auto* to = static_cast<int8_t*>(data);
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const float largest = reduce_max(max(abs(load(x + d)), abs(load(x + d + kLanes))));
    const uint16_t bits = float_to_half_bits(largest / 127);
    const float rounded = half_bits_to_float(bits);  // what the reader will multiply by
    scale[d / kScaleGroup * stride] = bits;
    const float inverse = rounded > 0 ? 1 / rounded : 0;
    for (int64_t i = d; i < d + kScaleGroup; ++i) to[i * stride] = quantized(x[i], inverse);
  }
}

// A token's slot in the cache.
struct CacheSlot {
  int64_t page;
  int64_t token;  // in the page
};

// Nothing if the sequence, the position or its page is out of range: such a token is padding.
inline std::optional<CacheSlot> slot_of(const KvShape& shape, const PageTable& table, int64_t sequence,
                                        int64_t position) {
  if (sequence < 0 || sequence >= table.sequences || position < 0 || position >= table.tokens(shape)) return {};
  const int64_t page = table.pages[sequence * table.columns + (position >> shape.shift)];
  if (page < 0 || page >= shape.pages) return {};
  return CacheSlot{.page = page, .token = position & (shape.page - 1)};
}

// Keys or values of all heads of one token; head h is at x + h · head_stride.
inline void store_token(const KvShape& shape, const KvTarget& target, CacheSlot slot, bool keys, const float* x,
                        int64_t head_stride) {
  for (int64_t head = 0; head < shape.heads; ++head) {
    const KvBlock block = keys ? key_block(shape, target.cache, target.scale, slot.page, head, slot.token)
                               : value_block(shape, target.cache, target.scale, slot.page, head, slot.token);
    store_head(shape, x + head * head_stride, const_cast<void*>(block.data), const_cast<uint16_t*>(block.scale),
               keys ? shape.page : 1);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
