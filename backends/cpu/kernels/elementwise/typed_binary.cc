// Elementwise functions of two tensors of one dtype, for every plain dtype; of f16 and bf16 by f32. maximum and minimum
// of a NaN are NaN. Integers wrap around; `div` truncates and `floor_divide` rounds down, both give 0 by zero, as does
// `remainder`, whose sign is the divisor's; a negative power of anything but ±1 is 0. A shift by a negative number of
// bits, or by all of them, leaves nothing but the sign.
#include <cmath>
#include <functional>
#include <string_view>
#include <type_traits>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/pieces.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/f64.h"
#include "backends/cpu/simd/library.h"

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
// Division toward zero, with the remainder, which is exact; but for what fmod has to do, where `exact` is not set.
template <class T>
struct Division {
  T whole, rest;
  bool exact;
};
// f32 operands in f64, which holds both exactly.
inline Division<double> division(float a, float b) {
  const double whole = std::trunc(static_cast<double>(a) / b), rest = a - whole * b;
  return {whole, rest, static_cast<bool>(static_cast<int>(std::fabs(whole) < 0x1p24) & static_cast<int>(rest == rest))};
}
inline Division<double> division(double a, double b) {
  const double quotient = a / b, near = std::trunc(quotient), left = f64::fma(-near, b, a);
  // The quotient may have been rounded up to a whole number: then the rest has not the sign of a.
  const double step =
      f64::select(std::copysign(1.0, left) * std::copysign(1.0, a) < 0, std::copysign(1.0, quotient), 0.0);
  const double whole = near - f64::select(left == 0, 0.0, step), rest = f64::fma(-whole, b, a);
  return {whole, rest,
          static_cast<bool>(static_cast<int>(std::fabs(quotient) < 0x1p51) & static_cast<int>(left == left))};
}
// 1 where the sign of a rest is not the divisor's, else 0.
inline double sign_differs(double rest, double b) {
  return f64::select(rest == 0, 0.0, f64::select(std::copysign(1.0, rest) * std::copysign(1.0, b) < 0, 1.0, 0.0));
}
// Integers of up to 32 bits, by f64, which holds their quotients exactly.
template <class T>
Division<T> whole_division(T a, T b) {
  const int32_t x = a, y = b;
  const bool special = y == 0 || y == -1;
  const auto quotient = static_cast<int32_t>(static_cast<double>(x) / (special ? 1 : y));
  const auto whole = y == 0 ? 0u : y == -1 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(quotient);
  const auto rest = y == 0 ? 0u : static_cast<uint32_t>(x) - whole * static_cast<uint32_t>(y);
  return {static_cast<T>(whole), static_cast<T>(rest), true};
}
inline Division<int64_t> whole_division(int64_t a, int64_t b) {
  if (b == 0) return {0, 0, true};
  if (b == -1) return {Sub::of(int64_t{0}, a), 0, true};
  return {a / b, a % b, true};
}

struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const T rest = whole_division(a, b).rest;
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      return of(a, b, {.whole = 0, .rest = std::fmod(a, b), .exact = true});
    }
  }
  template <class T>
  static T of(T, T b, const Division<double>& division) {
    const T rest = static_cast<T>(division.rest), other = rest + b;
    const T shifted = sign_differs(division.rest, b) == 0 ? rest : other;
    return division.rest == 0 ? std::copysign(T{0}, b) : shifted;
  }
};
struct FloorDivide {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const Division<T> division = whole_division(a, b);
      const bool below = division.rest != 0 && (division.rest < 0) != (b < 0);
      return static_cast<T>(division.whole - static_cast<T>(below));
    } else {  // (a - rest) / b, which is close to an integer, rounded to it
      if (b == 0) return a / b;
      const T rest = std::fmod(a, b), below = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
      const T whole = std::nearbyint((a - rest) / b - below);
      return whole == 0 ? std::copysign(T{0}, a / b) : whole;
    }
  }
  template <class T>
  static T of(T a, T b, const Division<double>& division) {
    const double whole = division.whole - sign_differs(division.rest, b);
    const T zero = std::copysign(T{0}, a / b), result = static_cast<T>(whole);
    return whole == 0 ? zero : result;
  }
};
struct Pow {  // of integers
  template <class T>
  static T of(T a, T b) {
    if (b < 0) return a == 1 ? 1 : is_minus_one(a) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : 0;
    Unsigned<T> power = 1, base = static_cast<Unsigned<T>>(a);
    for (auto left = static_cast<Unsigned<T>>(b); left != 0; left >>= 1, base *= base) {
      if ((left & 1U) != 0) power *= base;
    }
    return static_cast<T>(power);
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

// Integers only.
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
// Results of a division: floats in vectors, and then again those elements whose division is not exact.
template <class T, class F>
void division_row(const Row& row) {
  if constexpr (std::is_integral_v<T>) {
    map_row2<T, T>(row, [](T a, T b) { return F::of(a, b); });
  } else {
    map_pieces2<T>(row, [](const T* a, const T* b, T* y) {
      int inexact = 0;
      for (int i = 0; i < kPiece; ++i) {
        const Division<double> divided = division(a[i], b[i]);
        y[i] = F::of(a[i], b[i], divided);
        inexact |= static_cast<int>(!divided.exact);
      }
      if (inexact == 0) return;
      for (int i = 0; i < kPiece; ++i) {
        if (!division(a[i], b[i]).exact) y[i] = F::of(a[i], b[i]);
      }
    });
  }
}

// Functions of floats that simd/library.h has.
template <class T, float (*kFloat)(float, float), double (*kDouble)(double, double)>
void library_row(const Row& row) {
  map_pieces2<T>(row, [](const T* a, const T* b, T* y) {
    for (int i = 0; i < kPiece; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        y[i] = kFloat(a[i], b[i]);
      } else {
        y[i] = kDouble(a[i], b[i]);
      }
    }
  });
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
      {"maximum", arithmetic_row<T, Maximum>},
      {"minimum", arithmetic_row<T, Minimum>},
      {"floor_divide", division_row<T, FloorDivide>},
      {"remainder", division_row<T, Remainder>},
  };
  if (const RowFunction row = find<T>(op, kNumbers)) return row;
  if constexpr (std::is_integral_v<T>) {
    static constexpr Binary kIntegers[] = {
        {"pow", arithmetic_row<T, Pow>},
        {"bitwise_and", arithmetic_row<T, Bitwise<std::bit_and<>>>},
        {"bitwise_or", arithmetic_row<T, Bitwise<std::bit_or<>>>},
        {"bitwise_xor", arithmetic_row<T, Bitwise<std::bit_xor<>>>},
        {"left_shift", arithmetic_row<T, LeftShift>},
        {"right_shift", arithmetic_row<T, RightShift>},
    };
    return find<T>(op, kIntegers);
  } else {
    static constexpr Binary kFloats[] = {
        {"pow", library_row<T, ::powf, ::pow>},
        {"atan2", library_row<T, ::atan2f, ::atan2>},
        {"hypot", library_row<T, ::hypotf, ::hypot>},
    };
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
