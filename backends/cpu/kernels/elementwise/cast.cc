// Conversion between plain dtypes, strided to contiguous. Floats become integers by truncation, held within the
// integer's range (NaN: 0); integers wrap around; anything but zero is true.
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

struct Boolean {
  uint8_t value;
};

// The value as an arithmetic type: halves as float, booleans as 0 or 1.
template <class T>
auto widened(T x) {
  if constexpr (kHalf<T>) {
    return static_cast<float>(x);
  } else if constexpr (std::is_same_v<T, Boolean>) {
    return static_cast<uint8_t>(x.value != 0);
  } else {
    return x;
  }
}

template <class To, class From>
To held_within(From x) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kHigh = -kLow;  // 2ⁿ; of unsigned types below
  constexpr From kEnd = std::is_unsigned_v<To> ? static_cast<From>(std::numeric_limits<To>::max()) + 1 : kHigh;
  if (std::isnan(x)) return 0;
  if (x < kLow) return std::numeric_limits<To>::min();
  if (x >= kEnd) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

template <class To, class From>
To converted(From from) {
  const auto x = widened(from);
  if constexpr (std::is_same_v<To, Boolean>) {
    return Boolean{static_cast<uint8_t>(x != 0)};
  } else if constexpr (kHalf<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<decltype(x)> && std::is_integral_v<To>) {
    return held_within<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void cast_row(const Row& row) {
  if constexpr (kHalf<From> && std::is_same_v<To, float>) {
    widen(static_cast<const From*>(row.in[0]), row.stride[0], static_cast<float*>(row.out), row.count);
  } else if constexpr (std::is_same_v<From, float> && kHalf<To>) {
    if (row.stride[0] == 1) return narrow(static_cast<const float*>(row.in[0]), static_cast<To*>(row.out), row.count);
    map_row<From, To>(row, [](From x) { return converted<To>(x); });
  } else {
    map_row<From, To>(row, [](From x) { return converted<To>(x); });
  }
}

template <class F>
RowFunction with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::boolean:
      return f.template operator()<Boolean>();
    default:
      return nullptr;
  }
}

}  // namespace

KernelPointer make_cast(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 1)) return nullptr;
  const RowFunction row = with_type(request.inputs[0].dtype, [&]<class From>() {
    return with_type(request.outputs[0].dtype, []<class To>() -> RowFunction { return cast_row<From, To>; });
  });
  return row == nullptr ? nullptr : std::make_unique<Elementwise>(request, row);
}

}  // namespace gabbro::cpu::GABBRO_ISA
