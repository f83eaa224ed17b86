// Whole multiples.
#pragma once

#include <type_traits>

namespace gabbro {

// The smallest multiple of `step` that is not below `value`, of integers that are not negative.
template <class T>
constexpr T round_up(T value, std::type_identity_t<T> step) {
  return (value + step - 1) / step * step;
}

}  // namespace gabbro
