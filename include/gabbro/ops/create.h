// Creation of tensors: from numbers of the host, and by a rule. zeros, ones and full take no memory for each element
// until an op writes them out. Sizes that do not fit are refused by Shape, which holds up to 2^48 elements.
#pragma once

#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "gabbro/ops/promotion.h"

#pragma GCC visibility push(default)
namespace gabbro {

// The dtype of a C++ type: float f32, double f64, bool, and the integers of 8 to 64 bits (of the unsigned ones u8).
template <class T>
consteval DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  static_assert(std::is_floating_point_v<T> || std::is_same_v<T, uint8_t> || std::is_signed_v<T>,
                "no dtype of this type");
  if constexpr (std::is_integral_v<T>) {
    if (std::is_unsigned_v<T>) return DType::u8;
    return sizeof(T) == 1 ? DType::i8 : sizeof(T) == 2 ? DType::i16 : sizeof(T) == 4 ? DType::i32 : DType::i64;
  }
}

// The elements in row-major order, as bytes: of any dtype, with f16 and bf16 as 16-bit words and block formats as in
// GGUF files. Throws bad_input "[tensor] ..." unless they are as many as the shape and the dtype need.
Tensor from_host(const DevicePointer& device, DType dtype, const Shape& shape, std::span<const std::byte> bytes);
// A copy of these numbers in row-major order, in the dtype of their C++ type. Throws as above.
template <std::ranges::contiguous_range Values>
Tensor tensor(const DevicePointer& device, const Values& values, const Shape& shape) {
  return from_host(device, dtype_of<std::ranges::range_value_t<Values>>(), shape, std::as_bytes(std::span(values)));
}
template <class T>
Tensor tensor(const DevicePointer& device, std::initializer_list<T> values, const Shape& shape) {
  return from_host(device, dtype_of<T>(), shape, std::as_bytes(std::span(values.begin(), values.size())));
}

// Values by a rule, in any plain dtype; integers are held within their range, and an i64 has a whole start and step.
Tensor iota(const DevicePointer& device, int64_t count, DType dtype, double start = 0,
            double step = 1);                                                        // [count]
Tensor scalar(const DevicePointer& device, double value, DType dtype = DType::f32);  // [1]
// `number` everywhere, without memory for each element.
Tensor full(const DevicePointer& device, const Shape& shape, const Number& number, DType dtype);
Tensor zeros(const DevicePointer& device, const Shape& shape, DType dtype = kDefaultFloat);
Tensor ones(const DevicePointer& device, const Shape& shape, DType dtype = kDefaultFloat);
Tensor full_like(const Tensor& x, const Number& number, std::optional<DType> dtype = {});
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
// start, start + step, ... before stop. The dtype: i32 if the three are whole, else f32.
Tensor arange(const DevicePointer& device, const Number& start, const Number& stop, const Number& step = 1,
              std::optional<DType> dtype = {});
// `count` numbers from start to stop, which is the last of them, or (endpoint = false) the one after.
Tensor linspace(const DevicePointer& device, double start, double stop, int64_t count, bool endpoint = true,
                DType dtype = kDefaultFloat);
// Ones on the diagonal that begins at column `diagonal`; and (tri) also below it.
Tensor eye(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal = 0,
           DType dtype = kDefaultFloat);
Tensor tri(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal = 0,
           DType dtype = kDefaultFloat);
// Coordinates on the grid of the vectors: tensor i has [n_0, n_1, ...] and varies along axis i; with `xy` the first two
// axes change places.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool xy = false);

}  // namespace gabbro
#pragma GCC visibility pop
