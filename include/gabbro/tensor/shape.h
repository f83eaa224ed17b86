// Shapes: the lengths of a tensor's axes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#pragma GCC visibility push(default)
namespace gabbro {

// The lengths of up to six axes, slowest first. Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> lengths) : Shape(std::span<const int64_t>(lengths.begin(), lengths.size())) {}
  explicit Shape(
      std::span<const int64_t> lengths);  // throws bad_input: more than six axes, a negative length, overflow

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return lengths_[static_cast<size_t>(axis)]; }
  int64_t elements() const;
  std::span<const int64_t> lengths() const { return {lengths_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "(2, 5)"

  // 0 <= result < rank for axis in [-rank, rank); otherwise throws bad_input "[op] axis 3 is out of range for shape (2,
  // 5)".
  int axis(const char* op, int64_t axis) const;

 private:
  std::array<int64_t, kMaxRank> lengths_{};
  int rank_ = 0;
};

}  // namespace gabbro
#pragma GCC visibility pop
