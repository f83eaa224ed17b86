// `copy` of a tensor whose last axis has its elements far apart while those of another lie together: by tiles, so that
// of each cache line all elements are used while it is there.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kSide = 16;        // neighbours of the input: a line of four-byte elements
constexpr int64_t kLength = 64;      // neighbours of the output in a tile
constexpr int64_t kGrain = 1 << 14;  // elements of a work item

struct Loop {
  int64_t count;
  int64_t in_stride;  // in elements
  int64_t out_stride;
};

template <class T>
void transpose_tile(const void* in, void* out, const Loop& near, const Loop& far) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  T tile[kSide][kLength];
  for (int64_t begin = 0; begin < far.count; begin += kLength) {
    const int64_t length = std::min(kLength, far.count - begin);
    for (int64_t c = 0; c < length; ++c) {
      for (int64_t i = 0; i < near.count; ++i) tile[i][c] = x[(begin + c) * far.in_stride + i];
    }
    for (int64_t i = 0; i < near.count; ++i) std::copy_n(tile[i], length, y + i * near.out_stride + begin);
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
    blocks_ = (near_.count + kSide - 1) / kSide;
    implementation = "copy transposed " + std::string(dtype_name(in.dtype));
    bytes = 2.0 * static_cast<double>(out_stride * element_);
    tile_ = element_ == 1   ? transpose_tile<uint8_t>
            : element_ == 2 ? transpose_tile<uint16_t>
            : element_ == 4 ? transpose_tile<uint32_t>
                            : transpose_tile<uint64_t>;
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    const int64_t grain = std::max<int64_t>(1, kGrain / (kSide * far_.count));
    worker.parallel_for(outer_total_ * blocks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % blocks_ * kSide;
        int64_t in = first, out = first * near_.out_stride, rest = item / blocks_;
        for (int i = 0; i < outer_count_; ++i) {
          in += rest % outer_[i].count * outer_[i].in_stride;
          out += rest % outer_[i].count * outer_[i].out_stride;
          rest /= outer_[i].count;
        }
        Loop near = near_;
        near.count = std::min(kSide, near_.count - first);
        tile_(x + in * element_, y + out * element_, near, far_);
      }
    });
  }

 private:
  Loop near_{}, far_{}, outer_[abi::kMaxRank];
  int outer_count_ = 0;
  int64_t outer_total_ = 1, blocks_, element_;
  void (*tile_)(const void* in, void* out, const Loop& near, const Loop& far);
};

}  // namespace

KernelPointer make_transposing_copy(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise(request, 1) || request.inputs[0].dtype != request.outputs[0].dtype) return nullptr;
  const abi::TensorView& in = request.inputs[0];
  const int last = in.rank - 1;
  if (last < 1 || in.shape[last] < kSide || in.strides[last] == 0 || in.strides[last] == 1) return nullptr;
  for (int axis = 0; axis < last; ++axis) {
    if (in.strides[axis] == 1 && in.shape[axis] >= kSide) return std::make_unique<TransposingCopy>(in, axis);
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
