#include "src/formats/quantized_folders/integers.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::published {
namespace {

constexpr int64_t kIntegerBlock = 32;

// Properties of all groups.
struct Facts {
  bool half_scales = true;    // f16 has them
  bool signed_levels = true;  // all levels fit the signed integers of `bits`
};

// Reads scales and zero points of all groups, until what is asked is known.
Facts facts_of(const Integers& m) {
  const auto all_groups = [&](const auto& check) {
    for (int64_t row = 0; row < m.rows; ++row) {
      for (int64_t g = 0; g < m.group_count(); ++g) {
        if (!check(row, g)) return false;
      }
    }
    return true;
  };
  const int largest = (1 << m.bits) - 1, middle = m.bits == 8 ? 128 : 8;
  const auto is_half = [&](int64_t row, int64_t g) { return is_exact_half(m.scale(row, g)); };
  const auto is_signed = [&](int64_t row, int64_t g) {
    const int zero = m.zero(row, g);
    return zero <= middle && largest - zero < middle;
  };
  return {.half_scales = m.half_scales || all_groups(is_half), .signed_levels = all_groups(is_signed)};
}

void store_f16(float value, std::byte* to) {
  const uint16_t bits = float_to_half_bits(value);
  std::memcpy(to, &bits, sizeof bits);
}

// A block format of 32 codes of one group: its scale, then minus the zero point where that is stored, then the codes as
// nibbles, or as bytes less the zero point.
struct BlockLayout {
  DType dtype;
  bool float_scale, zero_point, nibbles;
  int zero;  // code of level 0 of the nibbles
};
constexpr BlockLayout kLayouts[] = {
    {.dtype = DType::q4_0, .float_scale = false, .zero_point = false, .nibbles = true, .zero = 8},
    {.dtype = DType::int4_zp, .float_scale = false, .zero_point = true, .nibbles = true, .zero = 0},
    {.dtype = DType::q8_0, .float_scale = false, .zero_point = false, .nibbles = false, .zero = 0},
    {.dtype = DType::int8_f32, .float_scale = true, .zero_point = false, .nibbles = false, .zero = 0},
};

void store_block(const BlockLayout& layout, const uint8_t* codes, float scale, int zero, std::byte* block) {
  if (layout.float_scale) {
    std::memcpy(block, &scale, sizeof scale);
    block += sizeof scale;
  } else {
    store_f16(scale, block);
    block += sizeof(uint16_t);
  }
  if (layout.zero_point) {
    store_f16(static_cast<float>(-zero), block);
    block += sizeof(uint16_t);
  }
  const int shift = layout.zero_point ? 0 : layout.zero - zero;
  for (int i = 0; i < 16 && layout.nibbles; ++i)
    block[i] = static_cast<std::byte>((codes[i] + shift) | (codes[i + 16] + shift) << 4);
  for (int i = 0; i < kIntegerBlock && !layout.nibbles; ++i) block[i] = static_cast<std::byte>(codes[i] - zero);
}

void fill_row(const Integers& m, DType dtype, int64_t row, const uint8_t* codes, std::byte* out) {
  if (is_quantized(dtype)) {
    const size_t bytes = dtype_info(dtype).block_bytes;
    const BlockLayout& layout = *std::ranges::find(kLayouts, dtype, &BlockLayout::dtype);
    for (int64_t k = 0; k < m.columns; k += kIntegerBlock, out += bytes)
      store_block(layout, codes + k, m.scale(row, k / m.group), m.zero(row, k / m.group), out);
    return;
  }
  std::vector<float> scales(static_cast<size_t>(m.group_count())), zeros(scales.size());
  for (size_t g = 0; g < scales.size(); ++g) {
    scales[g] = m.scale(row, static_cast<int64_t>(g));
    zeros[g] = static_cast<float>(m.zero(row, static_cast<int64_t>(g)));
  }
  std::vector<float> values(static_cast<size_t>(m.columns));
  for (int64_t k = 0; k < m.columns; ++k) {
    const auto g = static_cast<size_t>(m.groups.empty() ? k / m.group : m.groups[static_cast<size_t>(k)]);
    values[static_cast<size_t>(k)] = scales[g] * (static_cast<float>(codes[k]) - zeros[g]);
  }
  quantize_row(dtype, values.data(), out, m.columns);
}

// Column j of `out` is column order[j] of the matrix; empty: in order.
void fill(const Integers& m, DType dtype, const std::vector<int32_t>& order, std::span<std::byte> out) {
  const size_t row_bytes = dtype_bytes(dtype, static_cast<size_t>(m.columns));
  for_row_ranges((m.rows + kRowsAtOnce - 1) / kRowsAtOnce, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> codes(static_cast<size_t>(kRowsAtOnce * m.columns)), ordered(order.size());
    for (int64_t first = begin * kRowsAtOnce; first < std::min(end * kRowsAtOnce, m.rows); first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, m.rows - first);
      m.codes(first, count, codes.data());
      for (int64_t i = 0; i < count; ++i) {
        const uint8_t* row = codes.data() + i * m.columns;
        for (size_t k = 0; k < order.size(); ++k) ordered[k] = row[order[k]];
        fill_row(m, dtype, first + i, order.empty() ? row : ordered.data(),
                 out.data() + static_cast<size_t>(first + i) * row_bytes);
      }
    }
  });
}

}  // namespace

namespace {

// Whether this order of the columns is the order of their groups, and each group is full.
bool is_sorted_by_group(const Integers& m, const std::vector<int32_t>& order) {
  for (size_t k = 0; k < m.groups.size(); ++k) {
    const size_t column = order.empty() ? k : static_cast<size_t>(order[k]);
    if (m.groups[column] != static_cast<int64_t>(k) / m.group) return false;
  }
  return true;
}

// The block format that has the matrix exactly, were its columns in the order of their groups; nothing, and why.
std::optional<DType> exact_format(const Integers& m, std::string_view& reason) {
  const Facts facts = facts_of(m);
  if (m.columns % kIntegerBlock != 0 || m.group % kIntegerBlock != 0) {
    reason = "its groups are not multiples of 32 columns";
  } else if (m.bits <= 4 && facts.half_scales) {
    return facts.signed_levels ? DType::q4_0 : DType::int4_zp;
  } else if (m.bits == 8 && facts.signed_levels) {
    return facts.half_scales ? DType::q8_0 : DType::int8_f32;
  } else {
    reason = facts.half_scales ? "its zero points are not in the middle" : "its scales are not f16 numbers";
  }
  return {};
}

}  // namespace

void make_matrix(Integers integers, Matrix& out) {
  if (is_sorted_by_group(integers, {})) integers.groups.clear();
  std::vector<int32_t> order(integers.groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t k) { return integers.groups[static_cast<size_t>(k)]; });
  const std::optional<DType> exact = exact_format(integers, out.dequantized_for);
  out.shape = {integers.rows, integers.columns};
  out.dtype = exact && order.empty() ? *exact : integers.bfloat_scales ? DType::bf16 : DType::f16;
  const bool sorts = !order.empty() && is_sorted_by_group(integers, order);
  if (exact && !order.empty() && !sorts) out.dequantized_for = "its groups have different numbers of columns";
  const auto shared = std::make_shared<const Integers>(std::move(integers));
  out.fill = [shared, dtype = out.dtype](std::span<std::byte> memory) { fill(*shared, dtype, {}, memory); };
  if (!exact || !sorts) return;
  const auto ordered_fill = [shared, dtype = *exact, order](std::span<std::byte> memory) {
    fill(*shared, dtype, order, memory);
  };
  out.ordered = {.dtype = *exact, .fill = ordered_fill, .order = std::move(order)};
}

}  // namespace gabbro::published
