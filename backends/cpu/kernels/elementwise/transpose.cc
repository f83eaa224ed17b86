// `copy` of a tensor whose last axis is strided while another one is contiguous: by tiles, so that all elements of a
// cache line are used while it is there.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kSide = kTransposedSide;  // neighbors of the input: a line of four-byte elements
constexpr int64_t kLength = 64;             // neighbors of the output in a tile
constexpr int64_t kNear = 64;               // of a work item, so that it uses more than a line of each page
constexpr int64_t kFar = 256;               // likewise
constexpr int64_t kGrain = 1 << 14;         // elements of a work item

struct Loop {
  int64_t count;
  int64_t in_stride;  // in elements
  int64_t out_stride;
};

// `rows` rows of `count` elements, kSide at most, `step` apart: tile[i][c] = row c's element i.
template <class T>
void transpose_tile(const T* x, int64_t step, int64_t rows, int64_t count, T (*tile)[kLength]) {
  int64_t c = 0;
  if constexpr (sizeof(T) == 4) {  // only moved: any word passes as a float
    for (; count == kSide && c + 8 <= rows; c += 8) {
      for (int64_t i = 0; i < kSide; i += 8) {
        transpose_eights(reinterpret_cast<const float*>(x + c * step + i), step, 8,
                         reinterpret_cast<float*>(&tile[i][c]), kLength);
      }
    }
  } else if constexpr (sizeof(T) == 2) {
    static_assert(kSide == 16);
    for (; count == kSide && c + kSide <= rows; c += kSide) {
      alignas(32) uint16_t square[kSide * kSide];
      transpose_words(reinterpret_cast<const std::byte*>(x + c * step), step * 2, square);
      for (int64_t i = 0; i < kSide; ++i) std::copy_n(square + i * kSide, kSide, &tile[i][c]);
    }
  }
  for (; c < rows; ++c) {
    for (int64_t i = 0; i < count; ++i) tile[i][c] = x[c * step + i];
  }
}

template <class T>
void transpose_block(const void* in, void* out, const Loop& near, const Loop& far) {
  alignas(64) T tile[kSide][kLength];
  for (int64_t begin = 0; begin < far.count; begin += kLength) {
    const int64_t length = std::min(kLength, far.count - begin);
    for (int64_t first = 0; first < near.count; first += kSide) {
      const int64_t count = std::min(kSide, near.count - first);
      const T* x = static_cast<const T*>(in) + begin * far.in_stride + first;
      T* y = static_cast<T*>(out) + first * near.out_stride + begin;
      transpose_tile(x, far.in_stride, length, count, tile);
      for (int64_t i = 0; i < count; ++i) std::copy_n(tile[i], length, y + i * near.out_stride);
    }
  }
}

class TransposingCopy : public Kernel {
 public:
  TransposingCopy(const abi::TensorView& in, int near_axis) : element_(static_cast<int64_t>(dtype_bytes(in.dtype, 1))) {
    int64_t out_stride = 1;
    for (int axis = in.rank; axis-- > 0;) {
      const Loop loop{in.shape[axis], in.strides[axis], out_stride};
      out_stride *= in.shape[axis];
      if (axis == in.rank - 1) {
        far_ = loop;
      } else if (axis == near_axis) {
        near_ = loop;
      } else {
        outer_[outer_count_++] = loop;
        outer_total_ *= loop.count;
      }
    }
    near_blocks_ = (near_.count + kNear - 1) / kNear;
    far_blocks_ = (far_.count + kFar - 1) / kFar;
    implementation = "copy transposed " + std::string(dtype_name(in.dtype));
    bytes = 2.0 * static_cast<double>(out_stride * element_);
    block_ = element_ == 1   ? transpose_block<uint8_t>
             : element_ == 2 ? transpose_block<uint16_t>
             : element_ == 4 ? transpose_block<uint32_t>
                             : transpose_block<uint64_t>;
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    const int64_t grain = std::max<int64_t>(1, kGrain / (kNear * std::min(kFar, far_.count)));
    worker.parallel_for(outer_total_ * near_blocks_ * far_blocks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        Loop near = near_, far = far_;
        const int64_t first = item % near_blocks_ * kNear, far_first = item / near_blocks_ % far_blocks_ * kFar;
        near.count = std::min(kNear, near_.count - first);
        far.count = std::min(kFar, far_.count - far_first);
        int64_t in = first + far_first * far.in_stride, out = first * near.out_stride + far_first;
        int64_t rest = item / near_blocks_ / far_blocks_;
        for (int i = 0; i < outer_count_; ++i) {
          in += rest % outer_[i].count * outer_[i].in_stride;
          out += rest % outer_[i].count * outer_[i].out_stride;
          rest /= outer_[i].count;
        }
        block_(x + in * element_, y + out * element_, near, far);
      }
    });
  }

 private:
  Loop near_{}, far_{}, outer_[abi::kMaxRank];
  int outer_count_ = 0;
  int64_t outer_total_ = 1, near_blocks_, far_blocks_, element_;
  void (*block_)(const void* in, void* out, const Loop& near, const Loop& far);
};

}  // namespace

KernelPointer make_transposing_copy(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise(request, 1) || request.inputs[0].dtype != request.outputs[0].dtype) return nullptr;
  const abi::TensorView& in = request.inputs[0];
  const int axis = transposed_axis(in);
  return axis < 0 ? nullptr : std::make_unique<TransposingCopy>(in, axis);
}

}  // namespace gabbro::cpu::GABBRO_ISA
