// Dtype promotion: the one place that defines it. It follows the Python array API standard
// (2024.12, "Type promotion rules"), and PyTorch where the standard is silent.
//
// - Two tensors of one kind (integers, or floats) meet in the smallest dtype that holds both: u8 and i8 in i16, f16 and
//   bf16 in f32.
// - bool meets any other dtype in that one; an integer meets a float in the float.
// - The default integer is i32 and the default float f32. Functions that give fractions (sqrt, mean, div) take bool and
//   integers as f32. Sums and products of bool and integers are of i64. Indices and places are of i32.
// - A number of the host is weak: it takes the tensor's dtype. Only where its kind does not fit does the tensor change:
//   a fraction with integers or bool makes f32, an integer with bool i32.
// - Block formats meet nothing: linear, embedding and dequantize alone take them.
// f64 is computed by the CPU alone; other devices say so when they plan.
#pragma once

#include <cstdint>
#include <variant>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// A number of the host, of one of three kinds.
class Number {
 public:
  Number(bool value) : value_(value) {}
  Number(int value) : value_(int64_t{value}) {}
  Number(int64_t value) : value_(value) {}
  Number(float value) : value_(double{value}) {}
  Number(double value) : value_(value) {}

  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  int64_t integer() const;  // a bool as 0 or 1; a real one truncated, and held within i64
  double real() const;

 private:
  std::variant<bool, int64_t, double> value_;
};

inline constexpr DType kDefaultInteger = DType::i32;
inline constexpr DType kDefaultFloat = DType::f32;

constexpr bool is_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::i64; }

// The dtype in which two tensors meet; neither is a block format.
DType promote(DType a, DType b);
// Promotion of a tensor with a number.
DType promote(DType a, const Number& b);
// That of fractions of it: itself, or f32 for integers and bool.
constexpr DType as_float(DType dtype) { return is_floating(dtype) ? dtype : kDefaultFloat; }
// A number as a tensor of shape () on x's device, weak in promotion: promoted(x, weak(x, 2)) leaves x unchanged.
Tensor weak(const Tensor& x, const Number& number);

}  // namespace gabbro
#pragma GCC visibility pop
