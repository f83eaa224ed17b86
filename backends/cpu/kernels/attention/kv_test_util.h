// One side of a paged cache as tests read and fill it, element by element: the layout of docs/design/fused_ops.md.
#pragma once

#include <limits>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {

inline constexpr DType kCacheTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8, DType::u8};

class KvSideUnderTest {
 public:
  struct Place {
    int64_t page, head, slot, d;
  };

  KvSideUnderTest(DType type, bool keys, int64_t pages, int64_t heads, int64_t dim, int64_t page)
      : type_(type),
        keys_(keys),
        heads_(heads),
        dim_(dim),
        page_(page),
        cache(type, shape_of(pages, type == DType::u8 ? dim / 2 : dim)),
        scale(DType::f16, shape_of(pages, dim / 32)) {}

  bool scaled() const { return type_ == DType::i8 || type_ == DType::u8; }

  double at(const Place& p) {
    const int64_t index = index_of(p, rows(), row_of(p.d));
    switch (type_) {
      case DType::f32:
        return cache.data<float>()[index];
      case DType::bf16:
        return bfloat_bits_to_float(cache.data<uint16_t>()[index]);
      case DType::f16:
        return half_bits_to_float(cache.data<uint16_t>()[index]);
      case DType::i8:
        return cache.data<int8_t>()[index] * scale_at(p);
      default:
        return ((cache.data<uint8_t>()[index] >> (is_high(p.d) ? 4 : 0) & 15) - 8) * scale_at(p);
    }
  }
  double scale_at(const Place& p) { return half_bits_to_float(scale.data<uint16_t>()[scale_index(p)]); }

  // NaN everywhere; of codes in their scales.
  void fill_with_nan(std::mt19937& generator) {
    std::uniform_int_distribution<int> byte(type_ == DType::i8 ? 1 : 0, 255);
    if (scaled()) {
      cache.fill<uint8_t>([&] { return static_cast<uint8_t>(byte(generator) - (type_ == DType::i8 ? 128 : 0)); });
      scale.fill<uint16_t>([] { return uint16_t{0x7e00}; });
    } else if (type_ == DType::f32) {
      cache.fill<float>([] { return std::numeric_limits<float>::quiet_NaN(); });
    } else {
      cache.fill<uint16_t>([&] { return type_ == DType::f16 ? uint16_t{0x7e00} : uint16_t{0x7fc0}; });
    }
  }
  // With codes `x` sets the scale, where d is the first of its group.
  void set(const Place& p, float x) {
    const int64_t index = index_of(p, rows(), row_of(p.d));
    if (scaled()) {
      if (p.d % 32 == 0) scale.data<uint16_t>()[scale_index(p)] = float_to_half_bits(x / (type_ == DType::i8 ? 64 : 4));
    } else if (type_ == DType::f32) {
      cache.data<float>()[index] = x;
    } else {
      cache.data<uint16_t>()[index] = type_ == DType::f16 ? float_to_half_bits(x) : float_to_bfloat_bits(x);
    }
  }

  // Takes what the other side has there: the stored element, and the scale.
  void copy_from(KvSideUnderTest& other, const Place& p) {
    const int64_t index = index_of(p, rows(), row_of(p.d));
    const auto bytes = static_cast<int64_t>(dtype_bytes(type_, 1));
    std::memcpy(cache.data<char>() + index * bytes, other.cache.data<char>() + index * bytes, bytes);
    if (scaled()) scale.data<uint16_t>()[scale_index(p)] = other.scale.data<uint16_t>()[scale_index(p)];
  }

 private:
  static bool is_high(int64_t d) { return d % 32 >= 16; }
  int64_t rows() const { return type_ == DType::u8 ? dim_ / 2 : dim_; }
  int64_t row_of(int64_t d) const { return type_ == DType::u8 ? d / 32 * 16 + d % 16 : d; }
  Shape shape_of(int64_t pages, int64_t rows) const {
    return keys_ ? Shape{pages, heads_, rows, page_} : Shape{pages, heads_, page_, rows};
  }
  int64_t index_of(const Place& p, int64_t rows, int64_t row) const {
    const int64_t head = p.page * heads_ + p.head;
    return keys_ ? (head * rows + row) * page_ + p.slot : (head * page_ + p.slot) * rows + row;
  }
  int64_t scale_index(const Place& p) const { return index_of(p, dim_ / 32, p.d / 32); }

  DType type_;
  bool keys_;
  int64_t heads_, dim_, page_;

 public:
  Tensor cache;
  Tensor scale;
};

}  // namespace gabbro::cpu::test
