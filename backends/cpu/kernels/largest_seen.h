// Which element of a plane a window of max pooling takes: the first of the largest, or the first NaN.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/common/window_request.h"

namespace gabbro::cpu::GABBRO_ISA {

// Along one axis, the taps [first, end) of output o that are inside.
struct SeenTaps {
  int64_t first, end, at;  // `at`: where tap `first` is

  SeenTaps(const abi::Window& w, int axis, int64_t o) {
    const int64_t from = o * w.stride[axis] - w.padding[axis], step = w.dilation[axis];
    first = from >= 0 ? 0 : (step - 1 - from) / step;
    const int64_t room = w.in[axis] - from;  // of the last tap, at least one element is left
    end = from + (w.kernel[axis] - 1) * step < w.in[axis] ? w.kernel[axis]
                                                          : std::max(first, room <= 0 ? 0 : (room + step - 1) / step);
    at = from + first * step;
  }
};

// For output o of a row whose taps along the first two axes are known; -1 where all taps are outside. Without branches
// on what is compared, which nobody can foresee.
inline int64_t place_of_largest(const abi::Window& w, const float* plane, const SeenTaps& d, const SeenTaps& h,
                                int64_t o) {
  const SeenTaps v(w, 2, o);
  int64_t place = -1;
  float largest = 0;
  for (int64_t kd = d.first, in_d = d.at; kd < d.end; ++kd, in_d += w.dilation[0]) {
    for (int64_t kh = h.first, in_h = h.at; kh < h.end; ++kh, in_h += w.dilation[1]) {
      int64_t at = (in_d * w.in[1] + in_h) * w.in[2] + v.at;
      for (int64_t kw = v.first; kw < v.end; ++kw, at += w.dilation[2]) {
        const float value = plane[at];
        const bool larger = static_cast<int>(place < 0) | (static_cast<int>(!(value <= largest)) &
                                                           static_cast<int>(largest == largest));
        largest = larger ? value : largest;
        place = larger ? at : place;
      }
    }
  }
  return place;
}

}  // namespace gabbro::cpu::GABBRO_ISA
