// Sums for the gradients of a batch norm, f32: for each channel the sums of dy and of dy · (x - mean), in one pass.
#include <algorithm>

#include "backends/common/norm_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Elements of a channel per partial sum, so that rounding errors grow slower.
constexpr int64_t kRun = 1024;

struct Sums {
  F32 dy = zero_f32(), product = zero_f32();
  void add(F32 x, F32 gradient, F32 center) {
    dy += gradient;
    product = fma(gradient, x - center, product);
  }
  void add(const Sums& other) {
    dy += other.dy;
    product += other.product;
  }
};

class BatchNormSums : public Kernel {
 public:
  explicit BatchNormSums(const abi::MomentsRequest& moments) : moments_(moments) {
    implementation = "batch_norm_sums";
    bytes = 8.0 * static_cast<double>(moments.outer * moments.channels * moments.inner);
    flops = bytes / 2;
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const int64_t together = moments_.inner == 1 ? kLanes : 1;
    const int64_t grain = row_grain(moments_.outer * moments_.inner * together);
    worker.parallel_for((moments_.channels + together - 1) / together, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (together == 1) {
          sum_channel(launch, i);
        } else {
          sum_channels(launch, i * kLanes);
        }
      }
    });
  }

 private:
  struct Pointers {
    const float *x, *mean, *dy;
    float *sum, *product;
  };
  static Pointers pointers(const abi::Launch& launch) {
    const auto in = [&](int i) { return static_cast<const float*>(launch.inputs[i].data); };
    const auto out = [&](int i) { return static_cast<float*>(launch.outputs[i].data); };
    return {in(0), in(1), in(2), out(0), out(1)};
  }

  void sum_channel(const abi::Launch& launch, int64_t channel) const {
    const Pointers p = pointers(launch);
    const F32 center = splat(p.mean[channel]);
    const int64_t step = moments_.channels * moments_.inner;
    const int64_t images = std::max<int64_t>(1, kRun / moments_.inner);  // of a run
    Sums all;
    for (int64_t first = 0; first < moments_.outer; first += images) {
      Sums parts[4];
      for (int64_t image = first; image < std::min(moments_.outer, first + images); ++image) {
        const int64_t at = image * step + channel * moments_.inner;
        for_vectors(moments_.inner, [&](int64_t i, int lanes, int k) {
          parts[k].add(load_some(p.x + at + i, lanes), load_some(p.dy + at + i, lanes), center);
        });
      }
      for (const Sums& part : parts) all.add(part);
    }
    p.sum[channel] = reduce_sum(all.dy);
    p.product[channel] = reduce_sum(all.product);
  }

  // Up to kLanes channels with one element in each image, which are contiguous.
  void sum_channels(const abi::Launch& launch, int64_t channel) const {
    const Pointers p = pointers(launch);
    const auto lanes = static_cast<int>(std::min<int64_t>(kLanes, moments_.channels - channel));
    const F32 center = load_some(p.mean + channel, lanes);
    Sums all;
    for (int64_t first = 0; first < moments_.outer; first += kRun) {
      Sums part;
      for (int64_t image = first; image < std::min(moments_.outer, first + kRun); ++image) {
        const int64_t at = image * moments_.channels + channel;
        part.add(load_some(p.x + at, lanes), load_some(p.dy + at, lanes), center);
      }
      all.add(part);
    }
    store_some(p.sum + channel, all.dy, lanes);
    store_some(p.product + channel, all.product, lanes);
  }

  abi::MomentsRequest moments_;
};

}  // namespace

KernelPointer make_batch_norm_sums(const abi::KernelRequest& request, const MakeContext&) {
  abi::MomentsRequest moments;
  if (!read_batch_norm_sums(request, moments) || moments.dtype != DType::f32) return nullptr;
  return std::make_unique<BatchNormSums>(moments);
}

}  // namespace gabbro::cpu::GABBRO_ISA
