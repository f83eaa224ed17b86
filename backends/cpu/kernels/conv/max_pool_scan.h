// Argument of max pooling: the first of the largest elements of each window, or the first NaN.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// Along one axis, the taps [first, end) of output o that are inside.
struct ClippedTaps {
  int64_t first, end, at;  // `at`: where tap `first` is

  ClippedTaps(const abi::Window& w, int axis, int64_t o) {
    const int64_t from = o * w.stride[axis] - w.padding[axis], step = w.dilation[axis];
    first = 0;
    end = w.kernel[axis];
    at = from;
    if (from >= 0 && from + (end - 1) * step < w.in[axis]) return;  // and divide nothing
    first = from >= 0 ? 0 : (step - 1 - from) / step;
    end = std::clamp<int64_t>((w.in[axis] - from + step - 1) / step, first, std::max(first, end));
    at = from + first * step;
  }
  bool is_whole(const abi::Window& w, int axis) const { return first == 0 && end == w.kernel[axis]; }
};

class MaxPoolScan {
 public:
  explicit MaxPoolScan(const abi::Window& window) : w_(window) {
    if (w_.taps() > kMostTaps) return;
    for (int64_t kd = 0; kd < w_.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < w_.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < w_.kernel[2]; ++kw)
          taps_.push_back((kd * w_.dilation[0] * w_.in[1] + kh * w_.dilation[1]) * w_.in[2] + kw * w_.dilation[2]);
  }

  // Calls take(output, place) for all outputs of some planes, both counted through the planes; the place of a window
  // that sees nothing is negative.
  template <class Take>
  void for_each(const float* x, int64_t planes, Take&& take) const {
    Whole whole;
    int64_t output = 0;
    for (int64_t plane = 0; plane < planes * w_.inputs(); plane += w_.inputs()) {
      for (int64_t d = 0; d < w_.out[0]; ++d) {
        const ClippedTaps deep(w_, 0, d);
        for (int64_t h = 0; h < w_.out[1]; ++h) {
          const ClippedTaps down(w_, 1, h);
          const bool is_whole = deep.is_whole(w_, 0) && down.is_whole(w_, 1) && !taps_.empty();
          const int64_t row = plane + (deep.at * w_.in[1] + down.at) * w_.in[2];
          const int64_t last = w_.in[2] - (w_.kernel[2] - 1) * w_.dilation[2];
          int64_t left = -w_.padding[2];
          for (int64_t o = 0; o < w_.out[2]; ++o, ++output, left += w_.stride[2]) {
            if (is_whole && left >= 0 && left < last) {
              whole.outputs[whole.count] = output;
              whole.first[whole.count++] = row + left;
              if (whole.count == kLanes) finish(x, whole, take);
            } else {
              const int64_t place = place_of_largest(x + plane, deep, down, ClippedTaps(w_, 2, o));
              take(output, place < 0 ? place : plane + place);
            }
          }
        }
      }
    }
    if (whole.count > 0) finish(x, whole, take);
  }

 private:
  static constexpr int64_t kMostTaps = int64_t{1} << 24;  // whose numbers f32 has
  static constexpr int64_t kTogether = 8;                 // taps that are read before the first is looked at

  // Windows that see as much as there is in them, up to kLanes.
  struct Whole {
    int64_t outputs[kLanes], first[kLanes];  // where the first tap is
    int count = 0;
  };

  // The comparisons are unpredictable: by lanes, without branches. Not inlined, since the loops that call it need the
  // registers.
  template <class Take>
  [[gnu::noinline]] void finish(const float* x, Whole& whole, Take&& take) const {
    std::fill(whole.first + whole.count, whole.first + kLanes, whole.first[0]);
    F32 best = splat(-std::numeric_limits<float>::infinity()), tap = zero_f32();
    const auto all = static_cast<int64_t>(taps_.size());
    for (int64_t begin = 0; begin < all; begin += kTogether) {
      const int64_t end = std::min(all, begin + kTogether);
      float clipped[kTogether][kLanes];
      for (int64_t t = begin; t < end; ++t) {
        const float* from = x + taps_[static_cast<size_t>(t)];
        for (int i = 0; i < kLanes; ++i) clipped[t - begin][i] = from[whole.first[i]];
      }
      for (int64_t t = begin; t < end; ++t) {
        const F32 value = load(clipped[t - begin]), number = splat(static_cast<float>(t));
        // Nothing is taken that is no larger, or behind a NaN.
        const Mask less = value < best, same = value == best, is_number = best == best;
        tap = select(is_number, select(less, tap, select(same, tap, number)), tap);
        best = select(is_number, select(less, best, select(same, best, value)), best);
      }
    }
    float taps[kLanes];
    store(taps, tap);
    for (int i = 0; i < whole.count; ++i) {
      take(whole.outputs[i], whole.first[i] + taps_[static_cast<size_t>(static_cast<int64_t>(taps[i]))]);
    }
    whole.count = 0;
  }

  // For a window with some taps outside; -1 if all are.
  int64_t place_of_largest(const float* plane, const ClippedTaps& d, const ClippedTaps& h, const ClippedTaps& v) const {
    int64_t place = -1;
    for (int64_t kd = d.first, in_d = d.at; kd < d.end; ++kd, in_d += w_.dilation[0]) {
      for (int64_t kh = h.first, in_h = h.at; kh < h.end; ++kh, in_h += w_.dilation[1]) {
        int64_t at = (in_d * w_.in[1] + in_h) * w_.in[2] + v.at;
        for (int64_t kw = v.first; kw < v.end; ++kw, at += w_.dilation[2]) {
          if (place < 0 || (!(plane[at] <= plane[place]) && plane[place] == plane[place])) place = at;
        }
      }
    }
    return place;
  }

  abi::Window w_;
  std::vector<int64_t> taps_;  // of a whole window: where they are, from the first on
};

}  // namespace gabbro::cpu::GABBRO_ISA
