// Elementwise functions of two tensors of one dtype, for every plain dtype; of f16 and bf16 by f32. maximum and minimum
// of a NaN are NaN. Integers wrap around; `div` truncates and `floor_divide` rounds down, both give 0 by zero, as does
// `remainder`, whose sign is the divisor's; a negative power of anything but ±1 is 0. A shift by a negative number of
// bits, or by all of them, leaves nothing but the sign.
#include <cmath>
#include <functional>
#include <string_view>
#include <type_traits>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Arithmetic of integers is that of unsigned numbers of at least 32 bits.
template <class T>
using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T, class F>
T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <class T>
  static T of(T a, T b) {
    return wrapped(a, b, std::plus<>());
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return wrapped(a, b, std::minus<>());
  }
};
struct Mul {
  template <class T>
  static T of(T a, T b) {
    return wrapped(a, b, std::multiplies<>());
  }
};
template <class T>
bool is_minus_one(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}
struct Div {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if (is_minus_one(b)) return Sub::of(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    T rest;
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || is_minus_one(b)) return 0;
      rest = static_cast<T>(a % b);
    } else {
      rest = std::fmod(a, b);
      if (rest == 0) return std::copysign(T{0}, b);
    }
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
// Of floats: (a - rest) / b, which is close to an integer, rounded to it.
struct FloorDivide {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const T quotient = Div::of(a, b);
      const bool rounded_up = b != 0 && !is_minus_one(b) && a % b != 0 && (a < 0) != (b < 0);
      return rounded_up ? static_cast<T>(quotient - 1) : quotient;
    } else {
      if (b == 0) return a / b;
      const T rest = std::fmod(a, b), below = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
      const T whole = std::nearbyint((a - rest) / b - below);
      return whole == 0 ? std::copysign(T{0}, a / b) : whole;
    }
  }
};
struct Pow {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b < 0) return a == 1 ? 1 : is_minus_one(a) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : 0;
      Unsigned<T> power = 1, base = static_cast<Unsigned<T>>(a);
      for (auto left = static_cast<Unsigned<T>>(b); left != 0; left >>= 1, base *= base) {
        if ((left & 1U) != 0) power *= base;
      }
      return static_cast<T>(power);
    } else {
      return std::pow(a, b);
    }
  }
};
struct Maximum {
  template <class T>
  static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  static T of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

// Functions of floats alone.
struct Atan2 {
  template <class T>
  static T of(T a, T b) {
    return std::atan2(a, b);
  }
};
struct Hypot {
  template <class T>
  static T of(T a, T b) {
    return std::hypot(a, b);
  }
};

// And of integers alone.
template <class Operation>
struct Bitwise {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Operation{}(a, b));
  }
};
template <class T>
bool shifts_within(T bits) {
  return bits >= 0 && static_cast<uint64_t>(bits) < sizeof(T) * 8;
}
struct LeftShift {
  template <class T>
  static T of(T a, T b) {
    return shifts_within(b) ? static_cast<T>(static_cast<Unsigned<T>>(a) << b) : T{0};
  }
};
struct RightShift {
  template <class T>
  static T of(T a, T b) {
    if (!shifts_within(b)) return a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};

template <class T, class F>
void arithmetic_row(const Row& row) {
  map_row2<T, T>(row, [](T a, T b) { return F::of(a, b); });
}
template <class T, class F>
void comparison_row(const Row& row) {
  map_row2<T, uint8_t>(row, [](T a, T b) { return static_cast<uint8_t>(F{}(a, b)); });
}

struct Binary {
  std::string_view op;
  RowFunction row;
};

template <class T>
RowFunction find(std::string_view op, std::span<const Binary> rows) {
  for (const Binary& binary : rows) {
    if (binary.op == op) return binary.row;
  }
  return nullptr;
}

template <class T>
RowFunction arithmetic(std::string_view op) {
  static constexpr Binary kNumbers[] = {
      {"add", arithmetic_row<T, Add>},
      {"sub", arithmetic_row<T, Sub>},
      {"mul", arithmetic_row<T, Mul>},
      {"div", arithmetic_row<T, Div>},
      {"pow", arithmetic_row<T, Pow>},
      {"maximum", arithmetic_row<T, Maximum>},
      {"minimum", arithmetic_row<T, Minimum>},
      {"floor_divide", arithmetic_row<T, FloorDivide>},
      {"remainder", arithmetic_row<T, Remainder>},
  };
  if (const RowFunction row = find<T>(op, kNumbers)) return row;
  if constexpr (std::is_integral_v<T>) {
    static constexpr Binary kIntegers[] = {
        {"bitwise_and", arithmetic_row<T, Bitwise<std::bit_and<>>>},
        {"bitwise_or", arithmetic_row<T, Bitwise<std::bit_or<>>>},
        {"bitwise_xor", arithmetic_row<T, Bitwise<std::bit_xor<>>>},
        {"left_shift", arithmetic_row<T, LeftShift>},
        {"right_shift", arithmetic_row<T, RightShift>},
    };
    return find<T>(op, kIntegers);
  } else {
    static constexpr Binary kFloats[] = {{"atan2", arithmetic_row<T, Atan2>}, {"hypot", arithmetic_row<T, Hypot>}};
    return find<T>(op, kFloats);
  }
}

template <class T>
RowFunction comparison(std::string_view op) {
  static constexpr Binary kComparisons[] = {
      {"eq", comparison_row<T, std::equal_to<>>}, {"ne", comparison_row<T, std::not_equal_to<>>},
      {"lt", comparison_row<T, std::less<>>},     {"le", comparison_row<T, std::less_equal<>>},
      {"gt", comparison_row<T, std::greater<>>},  {"ge", comparison_row<T, std::greater_equal<>>},
  };
  return find<T>(op, kComparisons);
}

template <class T>
RowFunction row_of(std::string_view op, bool boolean) {
  return boolean ? comparison<T>(op) : arithmetic<T>(op);
}

RowFunction row_of(std::string_view op, DType dtype, bool boolean) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return row_of<float>(op, boolean);
    case DType::f64:
      return row_of<double>(op, boolean);
    case DType::i8:
      return row_of<int8_t>(op, boolean);
    case DType::u8:
      return row_of<uint8_t>(op, boolean);
    case DType::i16:
      return row_of<int16_t>(op, boolean);
    case DType::i32:
      return row_of<int32_t>(op, boolean);
    case DType::i64:
      return row_of<int64_t>(op, boolean);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_typed_binary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 2) || request.inputs[0].dtype != request.inputs[1].dtype) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  const bool boolean = request.outputs[0].dtype == DType::boolean;
  const RowFunction row = row_of(request.op, dtype, boolean);
  if (row == nullptr || (!boolean && request.outputs[0].dtype != dtype)) return nullptr;
  return Elementwise(request, row).through_f32(is_half(dtype));
}

}  // namespace gabbro::cpu::GABBRO_ISA
