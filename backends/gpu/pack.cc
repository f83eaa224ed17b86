#include "backends/gpu/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "backends/common/dequantized.h"
#include "src/base/half.h"
#include "src/formats/quant/quant.h"

namespace gabbro::gpu {
namespace {

// 32 codes to a plane of `width` bits, taking bits `from` and up of each.
void store_plane(const uint8_t* codes, int width, int from, std::byte* plane) {
  const int bytes = 4 * width, fields = 8 / width, mask = (1 << width) - 1;
  for (int i = 0; i < bytes; ++i) {
    int byte = 0;
    for (int field = 0; field < fields; ++field) byte |= (codes[i + field * bytes] >> from & mask) << (field * width);
    plane[i] = static_cast<std::byte>(byte);
  }
}

void store_word(uint16_t bits, std::byte* to) { std::memcpy(to, &bits, 2); }

struct PlaneWriter {
  DType dtype;
  Packing p;
  PackedLayout layout;
  int64_t columns;
  std::byte* target;

  // `codes`: 32 of them; `block` is counted over all rows.
  void codes(const uint8_t* from, int64_t block) const {
    if (p.bits == 8) {
      for (int i = 0; i < kBlock; ++i) {  // signed from here on
        target[layout.low + block * kBlock + i] = static_cast<std::byte>(from[i] ^ (p.e4m3 ? 0 : 0x80));
      }
      return;
    }
    store_plane(from, p.low_bits(), 0, target + layout.low + block * 4 * p.low_bits());
    if (p.high_bits() > 0) {
      store_plane(from, p.high_bits(), p.low_bits(), target + layout.high + block * 4 * p.high_bits());
    }
  }

  void store_scales(const DecodedBlock& block, std::byte* to) const {
    if (p.float_scale) {
      std::memcpy(to, &block.scale, sizeof block.scale);
      return;
    }
    const float scale = std::ldexp(block.scale, p.scale_shift);
    store_word(p.bfloat_scale ? float_to_bfloat_bits(scale) : float_to_half_bits(scale), to);
    if (p.minimum) store_word(float_to_half_bits(block.minimum), to + 2);
  }

  // Stores group `g` of the 256 codes from `first` on.
  void store_sub_scale(const DecodedBlock& block, int g, int64_t first) const {
    const int groups = kBlock / p.group;
    std::byte* to = target + layout.scales + (first / kBlock + g / groups) * p.scale_bytes() + g % groups;
    *to = static_cast<std::byte>(block.sub_scales[g]);
    if (p.minimum) to[groups] = static_cast<std::byte>(block.sub_minimums[g]);
  }

  void row(const std::byte* source, int64_t row) const {
    const DTypeInfo info = dtype_info(dtype);
    const auto decode = quant_format(dtype).decode;
    DecodedBlock block;
    for (int64_t first = 0; first < columns; first += info.block_elements) {
      decode(source + first / info.block_elements * info.block_bytes, block);
      const int64_t at = row * columns + first;
      for (int i = 0; i < info.block_elements; i += kBlock) {
        codes(block.codes + i, (at + i) / kBlock);
        if (!p.sub_scales) store_scales(block, target + layout.scales + (at + i) / kBlock * p.scale_bytes());
      }
      if (!p.sub_scales) continue;
      store_scales(block, target + layout.super_scales + at / kSuperBlock * p.super_bytes());
      for (int g = 0; g < kSuperBlock / p.group; ++g) store_sub_scale(block, g, at);
    }
  }
};

}  // namespace

bool has_kernels(DType dtype) { return !kernel_format(dtype).empty(); }

std::string_view kernel_format(DType dtype) {
  struct Row {
    std::string_view name;
    Packing packing;
  };
  static constexpr Row kRows[] = {
#define GABBRO_APPLY(name) {#name, packing_of(formats::name)},
      GABBRO_FOR_EACH_FORMAT(GABBRO_APPLY)
#undef GABBRO_APPLY
  };
  if (!is_quantized(dtype)) return dtype_name(dtype);
  const auto* found = std::ranges::find(kRows, packing_of(quant_traits(dtype)), &Row::packing);
  return found != std::end(kRows) ? found->name : std::string_view();
}

size_t packed_bytes(DType dtype, int64_t rows, int64_t columns) {
  if (!is_quantized(dtype) || rows <= 0 || columns <= 0 || columns % dtype_info(dtype).block_elements != 0) return 0;
  if (!has_kernels(dtype)) return abi::dequantized_bytes(rows, columns);
  return static_cast<size_t>(packed_layout(packing_of(quant_traits(dtype)), rows, columns).bytes);
}

std::vector<std::byte> pack_matrix(DType dtype, int64_t rows, int64_t columns, const void* host) {
  const Packing p = packing_of(quant_traits(dtype));
  std::vector<std::byte> packed(packed_bytes(dtype, rows, columns));
  const PlaneWriter writer{dtype, p, packed_layout(p, rows, columns), columns, packed.data()};
  const auto row_bytes = static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(columns)));
  const auto* source = static_cast<const std::byte*>(host);
  const auto share = [&](int64_t begin, int64_t end) {
    if (!has_kernels(dtype)) return abi::dequantize_rows(dtype, host, columns, begin, end, packed.data());
    for (int64_t row = begin; row < end; ++row) writer.row(source + row * row_bytes, row);
  };
  const int64_t threads =
      std::clamp<int64_t>(rows * columns >> 20, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> helpers;
  for (int64_t i = 1; i < threads; ++i) helpers.emplace_back(share, rows * i / threads, rows * (i + 1) / threads);
  share(0, rows / threads);
  return helpers.clear(), packed;
}

std::vector<PlaneRows> plane_rows(const abi::PackRequest& r) {
  const auto rows_of = [&](int64_t plane, int64_t row_bytes) {
    return PlaneRows{static_cast<size_t>(plane + r.first_row * row_bytes),
                     static_cast<size_t>(r.row_count * row_bytes)};
  };
  if (!has_kernels(r.dtype)) return {rows_of(0, static_cast<int64_t>(abi::dequantized_bytes(1, r.columns)))};
  const Packing p = packing_of(quant_traits(r.dtype));
  const PackedLayout layout = packed_layout(p, r.rows, r.columns);
  std::vector<PlaneRows> planes = {rows_of(layout.low, r.columns * p.low_bits() / 8),
                                   rows_of(layout.scales, r.columns / kBlock * p.scale_bytes())};
  if (p.high_bits() > 0) planes.push_back(rows_of(layout.high, r.columns * p.high_bits() / 8));
  if (p.sub_scales) planes.push_back(rows_of(layout.super_scales, r.columns / kSuperBlock * p.super_bytes()));
  return planes;
}

LinearMatrix packed_matrix(DType dtype, int64_t rows, int64_t columns, const void* data) {
  const Packing p = packing_of(quant_traits(dtype));
  const PackedLayout layout = packed_layout(p, rows, columns);
  const auto* base = static_cast<const u8*>(data);
  return {.low = base + layout.low,
          .high = base + layout.high,
          .scales = base + layout.scales,
          .super_scales = base + layout.super_scales,
          .rows = static_cast<i32>(rows)};
}

}  // namespace gabbro::gpu
