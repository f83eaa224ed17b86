#include "src/formats/quant/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/error.h"
#include "src/formats/quant/lanes.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro {
namespace {

using quant::is_finite_half, quant::load_nibbles, quant::load_word;

template <class Bits>
bool all_below(const std::byte* source, int64_t count, Bits exponent) {
  bool fine = true;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, source + static_cast<size_t>(i) * sizeof(bits), sizeof(bits));
    fine &= (bits & exponent) != exponent;  // all ones: infinity or NaN
  }
  return fine;
}

// Whether check(block) is true of each of `count` blocks.
template <class Check>
bool all_blocks(const std::byte* block, int64_t count, size_t bytes, Check check) {
  bool fine = true;
  for (int64_t b = 0; b < count; ++b, block += bytes) fine &= check(block);
  return fine;
}

bool all_scales_finite(const QuantTraits& traits, const std::byte* source, int64_t count) {
  const std::byte* first = source + traits.scale_at;
  const auto bytes = static_cast<size_t>(traits.block_bytes);
  switch (traits.scale) {
    case ScaleCode::kF16:
      return all_blocks(first, count, bytes, [](const std::byte* at) { return is_finite_half(load_word(at)); });
    case ScaleCode::kF16Nibbles:
      return all_blocks(first, count, bytes, [](const std::byte* at) { return is_finite_half(load_nibbles(at)); });
    case ScaleCode::kE8M0:  // 255 is a NaN, and 253 and 254 times the largest level overflow
      return all_blocks(first, count, bytes, [](const std::byte* at) { return std::to_integer<int>(*at) < 253; });
    case ScaleCode::kF32:  // the largest level times it is finite too
      return all_blocks(first, count, bytes, [](const std::byte* at) {
        float scale;
        std::memcpy(&scale, at, sizeof scale);
        return std::fabs(scale) < 0x1p119f;
      });
    case ScaleCode::kUE4M3:
      return true;  // its NaN reads as 0
  }
  return false;
}

}  // namespace

bool all_finite(DType dtype, const std::byte* source, int64_t elements) {
  if (is_quantized(dtype)) {
    const QuantTraits& traits = quant_traits(dtype);
    const int64_t blocks = elements / traits.block_elements;
    if (!all_scales_finite(traits, source, blocks)) return false;
    return !traits.has_minimum() ||
           all_blocks(source + traits.minimum_at, blocks, static_cast<size_t>(traits.block_bytes),
                      [](const std::byte* at) { return is_finite_half(load_word(at)); });
  }
  switch (dtype) {
    case DType::f32:
      return all_below<uint32_t>(source, elements, 0x7f800000u);
    case DType::f16:
      return all_below<uint16_t>(source, elements, 0x7c00);
    case DType::bf16:
      return all_below<uint16_t>(source, elements, 0x7f80);
    case DType::f64:
      return all_below<uint64_t>(source, elements, 0x7ff0000000000000);
    default:
      throw bad_input("weights of type {} are not supported", dtype_name(dtype));
  }
}

float farthest(std::span<const float> values) {
  using quant::IntLanes, quant::kLanes;
  IntLanes most{}, also_most{};
  size_t i = 0;
  const auto magnitudes = [&](size_t at) { return (IntLanes)quant::load_lanes(values.data() + at) & 0x7fffffff; };
  for (; i + 2 * kLanes <= values.size(); i += 2 * kLanes) {
    const IntLanes a = magnitudes(i), b = magnitudes(i + kLanes);
    most = a > most ? a : most;
    also_most = b > also_most ? b : also_most;
  }
  int32_t peak = 0;
  for (int lane = 0; lane < kLanes; ++lane) peak = std::max({peak, most[lane], also_most[lane]});
  for (; i < values.size(); ++i) peak = std::max(peak, std::bit_cast<int32_t>(std::fabs(values[i])));
  return std::bit_cast<float>(peak);
}

std::optional<FoundValue> find_non_finite(std::span<const float> values) {
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (found == values.end()) return std::nullopt;
  return FoundValue{found - values.begin(), *found};
}

namespace {

// NaN and infinity unchanged, and 0 for numbers, which may be larger than floats.
float damage_of_double(const std::byte* at) {
  double value;
  std::memcpy(&value, at, sizeof value);
  return std::isfinite(value) ? 0.0f : static_cast<float>(value);
}

}  // namespace

std::optional<FoundValue> find_non_finite(DType dtype, const std::byte* source, int64_t elements) {
  const int64_t block = is_quantized(dtype) ? quant_traits(dtype).block_elements : 1;
  const int64_t step = 1024 * block;
  for (int64_t first = 0; first < elements; first += step) {
    const int64_t count = std::min(step, elements - first);
    const std::byte* const part = source + dtype_bytes(dtype, static_cast<size_t>(first));
    if (all_finite(dtype, part, count)) continue;
    std::vector<float> values(static_cast<size_t>(count));
    if (dtype == DType::f64) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = damage_of_double(part + i * sizeof(double));
    } else {
      dequantize_row(dtype, part, values.data(), count);
    }
    if (const auto found = find_non_finite(values)) return FoundValue{first + found->index, found->value};
    int64_t damaged = 0;
    while (all_finite(dtype, part + dtype_bytes(dtype, static_cast<size_t>(damaged)), block)) damaged += block;
    return FoundValue{first + damaged, values[static_cast<size_t>(damaged)]};
  }
  return std::nullopt;
}

std::optional<FoundValue> find_non_finite_f8(std::string_view format, std::span<const std::byte> codes) {
  struct Float8 {
    std::string_view name;
    uint8_t mask, nan;  // (code & mask) is `nan` of a NaN
    uint8_t infinity;   // of an infinity; 0: there is none
  };
  // OCP 8-bit Floating Point Specification 1.0; Graphcore's and AMD's forms "FNUZ" have one NaN, the code of -0.
  static constexpr Float8 kFormats[] = {{"F8_E4M3", 0x7f, 0x7f, 0},
                                        {"F8_E5M2", 0x7c, 0x7c, 0x7c},
                                        {"F8_E8M0", 0xff, 0xff, 0},
                                        {"F8_E4M3FNUZ", 0xff, 0x80, 0},
                                        {"F8_E5M2FNUZ", 0xff, 0x80, 0}};
  const auto* const known = std::ranges::find(kFormats, format, &Float8::name);
  if (known == std::end(kFormats)) return std::nullopt;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto code = std::to_integer<uint8_t>(codes[i]);
    if ((code & known->mask) != known->nan) continue;
    const bool infinite = known->infinity != 0 && (code & 0x7f) == known->infinity;
    const float value = infinite ? HUGE_VALF : NAN;
    return FoundValue{static_cast<int64_t>(i), infinite && (code & 0x80) != 0 ? -value : value};
  }
  return std::nullopt;
}

std::string describe(const FoundValue& found, std::span<const int64_t> shape) {
  std::string place;
  int64_t rest = found.index;
  for (auto length = shape.rbegin(); length != shape.rend(); rest /= std::max<int64_t>(*length, 1), ++length)
    place = fmt::format("{}{}{}", rest % std::max<int64_t>(*length, 1), place.empty() ? "" : ", ", place);
  return fmt::format("{} at ({})", std::isnan(found.value) ? NAN : found.value, place);
}

namespace {

// Below it no format overflows: the least is that of NVFP4, 448 · 6.
constexpr float kAlwaysFits = 1024;

bool is_largest_half(uint16_t bits) { return (bits & 0x7fff) >= 0x7bff; }  // or infinite

bool is_saturated(const QuantTraits& traits, std::span<const float> values, const std::byte* block) {
  if (traits.has_minimum() && is_largest_half(load_word(block + traits.minimum_at))) return true;
  const std::byte* const scale = block + traits.scale_at;
  switch (traits.scale) {
    case ScaleCode::kF16:
      return is_largest_half(load_word(scale));
    case ScaleCode::kF16Nibbles:
      return is_largest_half(load_nibbles(scale));
    case ScaleCode::kE8M0:  // units of blocks end at 2^120
      return farthest(values) > 6 * 0x1p120f;
    case ScaleCode::kF32:
      return !all_scales_finite(traits, block, 1);
    case ScaleCode::kUE4M3:
      return farthest(values) > 6 * 448;
  }
  return false;
}

}  // namespace

std::optional<FoundValue> find_overflow(DType dtype, std::span<const float> values, const std::byte* encoded) {
  if (dtype == DType::f32 || farthest(values) < kAlwaysFits) return std::nullopt;
  if (!is_quantized(dtype)) {
    const auto found = find_non_finite(dtype, encoded, std::ssize(values));
    return found ? std::optional(FoundValue{found->index, values[static_cast<size_t>(found->index)]}) : std::nullopt;
  }
  const QuantTraits& traits = quant_traits(dtype);
  const auto block = static_cast<size_t>(traits.block_elements);
  for (size_t first = 0; first < values.size(); first += block, encoded += traits.block_bytes) {
    const std::span<const float> part = values.subspan(first, block);
    if (farthest(part) < kAlwaysFits || !is_saturated(traits, part, encoded)) continue;
    const auto peak = std::ranges::max_element(part, {}, [](float value) { return std::fabs(value); });
    return FoundValue{static_cast<int64_t>(first) + (peak - part.begin()), *peak};
  }
  return std::nullopt;
}

}  // namespace gabbro
