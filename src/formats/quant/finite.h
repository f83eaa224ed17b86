// Checks of weights: NaN and infinity, which damaged files have, and values too large for the format they are written
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gabbro/dtype.h"

namespace gabbro {

// True when every element is a finite number. For block formats it reads only the scales and minimums, which decide it.
// `elements` is a multiple of the block size.
bool all_finite(DType dtype, const std::byte* source, int64_t elements);

struct FoundValue {
  int64_t index;
  float value;
};

// The first element that is NaN or infinite; nothing where all_finite() is true. In a block whose scale is damaged but
// whose elements are finite, the first.
std::optional<FoundValue> find_non_finite(DType dtype, const std::byte* source, int64_t elements);
std::optional<FoundValue> find_non_finite(std::span<const float> values);

// For floats of 8 bits, by their names in safetensors files: "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ" and
// "F8_E5M2FNUZ". Nothing of other names.
std::optional<FoundValue> find_non_finite_f8(std::string_view format, std::span<const std::byte> codes);

// "nan at (3, 17)": a value and its place in a tensor of this shape.
std::string describe(const FoundValue& found, std::span<const int64_t> shape);

// The largest magnitude, by its bits: NaN is above infinity. 0 of nothing.
float farthest(std::span<const float> values);

// Rounding to `dtype` lost the size of a value: f16 and bf16 became infinite, or a block's scale or minimum is the
// largest that its code has. `encoded` is what quantize_row() made of the finite `values`. Returns the farthest from
// zero of the first such block.
std::optional<FoundValue> find_overflow(DType dtype, std::span<const float> values, const std::byte* encoded);

}  // namespace gabbro
