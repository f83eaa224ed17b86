// Elementwise functions of two tensors of one dtype, of f16 and bf16 by f32, and `clamp` of three. maximum and minimum
// of a NaN are NaN. With i32 arithmetic wraps around, division truncates toward zero and by zero gives 0; a negative
// power of anything but ±1 is 0.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/pieces.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/f32.h"
#include "backends/cpu/simd/library.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

int32_t wrap(uint32_t value) { return static_cast<int32_t>(value); }
uint32_t bits(int32_t value) { return static_cast<uint32_t>(value); }

struct Add {
  float operator()(float a, float b) const { return a + b; }
  F32 operator()(F32 a, F32 b) const { return a + b; }
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) + bits(b)); }
};
struct Sub {
  float operator()(float a, float b) const { return a - b; }
  F32 operator()(F32 a, F32 b) const { return a - b; }
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) - bits(b)); }
};
struct Mul {
  float operator()(float a, float b) const { return a * b; }
  F32 operator()(F32 a, F32 b) const { return a * b; }
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) * bits(b)); }
};
struct Div {
  float operator()(float a, float b) const { return a / b; }
  F32 operator()(F32 a, F32 b) const { return a / b; }
  int32_t operator()(int32_t a, int32_t b) const {
    if (b == 0) return 0;
    return b == -1 ? wrap(0u - bits(a)) : a / b;
  }
};
struct Pow {
  int32_t operator()(int32_t a, int32_t b) const {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    uint32_t power = 1;
    for (uint32_t base = bits(a), left = bits(b); left != 0; left >>= 1, base *= base) {
      if ((left & 1u) != 0) power *= base;
    }
    return wrap(power);
  }
};
struct Maximum {
  float operator()(float a, float b) const { return a > b || a != a ? a : b; }
  int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};
struct Minimum {
  float operator()(float a, float b) const { return a < b || a != a ? a : b; }
  int32_t operator()(int32_t a, int32_t b) const { return a < b ? a : b; }
};

template <class T, class F>
void arithmetic_row(const Row& row) {
  map_row2<T, T>(row, F{});
}

// The powers of 2 are exp2.
void pow_row(const Row& row) {
  if (row.stride[0] == 0 && *static_cast<const float*>(row.in[0]) == 2)
    return pieces_of<float, f32::exp2>(
        {.in = {row.in[1]}, .stride = {row.stride[1]}, .out = row.out, .count = row.count});
  map_pieces2<float>(row, [](const float* a, const float* b, float* y) {
    for (int i = 0; i < kPiece; ++i) y[i] = ::powf(a[i], b[i]);
  });
}

// f16 and bf16, in registers.
template <class T, class F>
void arithmetic_row_f16(const Row& row) {
  const auto *a = static_cast<const T*>(row.in[0]), *b = static_cast<const T*>(row.in[1]);
  auto* y = static_cast<T*>(row.out);
  const int64_t sa = row.stride[0], sb = row.stride[1];
  if ((sa != 0 && sa != 1) || (sb != 0 && sb != 1)) return half_row<T>(row, arithmetic_row<float, F>, 2, false);
  const auto row_of = [&](auto first, auto second) {
    int64_t i = 0;
    for (; i + kLanes <= row.count; i += kLanes) store_rounded(y + i, F{}(first(i), second(i)));
    for (; i < row.count; ++i) y[i] = T(F{}(static_cast<float>(a[i * sa]), static_cast<float>(b[i * sb])));
  };
  const auto each = [](const T* x) { return [x](int64_t i) { return load_as_f32(x + i); }; };
  const auto same = [](const T* x) { return [v = splat(static_cast<float>(*x))](int64_t) { return v; }; };
  if (sa == 1 && sb == 1) return row_of(each(a), each(b));
  if (sa == 1) return row_of(each(a), same(b));
  if (sb == 1) return row_of(same(a), each(b));
  row_of(same(a), same(b));
}

template <class T, class F>
void comparison_row(const Row& row) {
  map_row2<T, uint8_t>(row, [](T a, T b) { return static_cast<uint8_t>(F{}(a, b)); });
}

template <class F>
void logical_row(const Row& row) {
  map_row2<uint8_t, uint8_t>(row, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(F{}(a != 0, b != 0)); });
}

// x, lowest, highest.
template <class T>
void clamp_row(const Row& row) {
  const T *x = static_cast<const T*>(row.in[0]), *low = static_cast<const T*>(row.in[1]),
          *high = static_cast<const T*>(row.in[2]);
  for (int64_t i = 0; i < row.count; ++i) {
    const T above = Maximum{}(x[i * row.stride[0]], low[i * row.stride[1]]);
    static_cast<T*>(row.out)[i] = Minimum{}(above, high[i * row.stride[2]]);
  }
}

struct Binary {
  const char* op;
  DType result;  // of f32 inputs: f32 (the inputs' own) or boolean
  RowFunction f32;
  RowFunction i32;
  RowFunction boolean;
  RowFunction f16 = nullptr, bf16 = nullptr;  // null: by f32
};

template <class F>
constexpr Binary arithmetic(const char* op) {
  return {op, DType::f32, arithmetic_row<float, F>, arithmetic_row<int32_t, F>, nullptr};
}

template <class F>
constexpr Binary arithmetic_in_registers(const char* op) {
  Binary binary = arithmetic<F>(op);
  binary.f16 = arithmetic_row_f16<Half, F>;
  binary.bf16 = arithmetic_row_f16<BFloat, F>;
  return binary;
}

template <class F>
constexpr Binary comparison(const char* op) {
  return {op, DType::boolean, comparison_row<float, F>, comparison_row<int32_t, F>, nullptr};
}

template <class F>
constexpr Binary logical(const char* op) {
  return {op, DType::boolean, nullptr, nullptr, logical_row<F>};
}

constexpr Binary kBinary[] = {
    arithmetic_in_registers<Add>("add"),
    arithmetic_in_registers<Sub>("sub"),
    arithmetic_in_registers<Mul>("mul"),
    arithmetic_in_registers<Div>("div"),
    {"pow", DType::f32, pow_row, arithmetic_row<int32_t, Pow>, nullptr},
    arithmetic<Maximum>("maximum"),
    arithmetic<Minimum>("minimum"),
    comparison<std::equal_to<>>("eq"),
    comparison<std::not_equal_to<>>("ne"),
    comparison<std::less<>>("lt"),
    comparison<std::less_equal<>>("le"),
    comparison<std::greater<>>("gt"),
    comparison<std::greater_equal<>>("ge"),
    logical<std::logical_and<>>("logical_and"),
    logical<std::logical_or<>>("logical_or"),
};

}  // namespace

std::unique_ptr<Kernel> make_binary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 2) || request.inputs[0].dtype != request.inputs[1].dtype) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  for (const Binary& binary : kBinary) {
    if (std::string_view(binary.op) != request.op) continue;
    const DType result = binary.result == DType::boolean ? DType::boolean : dtype;
    const RowFunction row = dtype == DType::f32 || is_half(dtype) ? binary.f32
                            : dtype == DType::i32                 ? binary.i32
                            : dtype == DType::boolean             ? binary.boolean
                                                                  : nullptr;
    if (row == nullptr || request.outputs[0].dtype != result) return nullptr;
    return by_rows(request, row, binary.f16, binary.bf16);
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_clamp(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 3)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  if (request.inputs[1].dtype != dtype || request.inputs[2].dtype != dtype || request.outputs[0].dtype != dtype)
    return nullptr;
  if (dtype == DType::i32) return std::make_unique<Elementwise>(request, clamp_row<int32_t>);
  if (dtype != DType::f32 && !is_half(dtype)) return nullptr;
  return Elementwise(request, clamp_row<float>).through_f32(is_half(dtype));
}

}  // namespace gabbro::cpu::GABBRO_ISA
