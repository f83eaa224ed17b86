// A vector whose elements have numbers of any integer type: no casts from the int of a value or an instruction.
#pragma once

#include <concepts>
#include <cstddef>
#include <vector>

namespace gabbro {

template <class T>
class Indexed : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  Indexed(std::vector<T> other) : std::vector<T>(std::move(other)) {}

  decltype(auto) operator[](std::integral auto number) {
    return std::vector<T>::operator[](static_cast<size_t>(number));
  }
  decltype(auto) operator[](std::integral auto number) const {
    return std::vector<T>::operator[](static_cast<size_t>(number));
  }
};

}  // namespace gabbro
