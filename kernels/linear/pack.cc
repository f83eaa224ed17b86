// Weight matrices from a file's block formats to the planes of packing.h: a thread for each 32 codes.
#include "kernels/linear/pack.h"

#include "kernels/linear/block_codes.h"

namespace gabbro::gpu::GABBRO_GPU {

// A plane of `width` bits of the 32 codes, bits `from` and up of each: `width` words.
template <int width, int from>
GPU_FUNCTION inline void store_pack_plane(const u8* codes, u8* plane) {
  constexpr int kBytes = 4 * width, kFields = 8 / width, kMask = (1 << width) - 1;
#pragma unroll
  for (int w = 0; w < width; ++w) {
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < 4 * kFields; ++i) {
      const int byte = i / kFields, field = i % kFields;
      word |= static_cast<u32>(codes[4 * w + byte + field * kBytes] >> from & kMask) << (8 * byte + field * width);
    }
    reinterpret_cast<u32*>(plane)[w] = word;
  }
}

GPU_FUNCTION inline void store_pack_word(u32 word, u8* to) { *reinterpret_cast<u16*>(to) = static_cast<u16>(word); }
GPU_FUNCTION inline void store_pack_long(u32 word, u8* to) { *reinterpret_cast<u32*>(to) = word; }

// `kElements` in `kBytes` are a block of the file.
template <class Blocks, Packing p, int kElements, int kBytes>
GPU_FUNCTION inline void pack_blocks(const PackArgs& a) {
  const i64 number = global_index();
  if (number >= a.count) return;
  const i32 in_row = static_cast<i32>(number % a.row_blocks) * kBlock;
  const u8* b = a.source + number / a.row_blocks * a.row_bytes + in_row / kElements * kBytes;
  const int first = in_row % kElements;
  const i64 block = a.first_block + number;

  // Codes.
  u8 codes[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<u8>(Blocks::code(b, first + i, a.grid));
  store_pack_plane<p.low_bits(), 0>(codes, a.target + a.layout.low + block * 4 * p.low_bits());
  if constexpr (p.high_bits() > 0) {
    store_pack_plane<p.high_bits(), p.low_bits()>(codes, a.target + a.layout.high + block * 4 * p.high_bits());
  }

  // Scales.
  u8* scales = a.target + a.layout.scales + block * p.scale_bytes();
  if constexpr (p.sub_scales) {
    constexpr int kGroups = kBlock / p.group;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      scales[g] = static_cast<u8>(Blocks::sub_scale(b, first / p.group + g));
      if (p.minimum) scales[kGroups + g] = static_cast<u8>(Blocks::sub_minimum(b, first / p.group + g));
    }
    if (first != 0) return;
    scales = a.target + a.layout.super_scales + block / (kSuperBlock / kBlock) * p.super_bytes();
  }
  if constexpr (p.float_scale) return store_pack_long(Blocks::scale(b), scales);
  store_pack_word(Blocks::scale(b), scales);
  if (p.minimum) store_pack_word(Blocks::minimum(b), scales + 2);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_PACK(name)                                                             \
  GPU_KERNEL(pack_##name, gabbro::gpu::kPackThreads, gabbro::gpu::PackArgs,           \
             pack_blocks<gabbro::gpu::GABBRO_GPU::blocks::name, GABBRO_PACKING(name), \
                         gabbro::formats::name.block_elements, gabbro::formats::name.block_bytes>)

GABBRO_FOR_EACH_PACKED(GABBRO_PACK)
