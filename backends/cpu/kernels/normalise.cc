// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018) and BatchNorm (Ioffe & Szegedy 2015): y = (x - mean) /
// sqrt(variance + epsilon) · weight + bias; and the moments that they need, the variance from the distances to the
// mean. x is f32, f16 or bf16, the parameters are f32 or of its dtype.
#include <algorithm>
#include <cmath>

#include "backends/common/norm_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <class X>
float sum_of(const X* x, int64_t count) {
  F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  for_vectors(count, [&](int64_t i, int lanes, int k) { sums[k] += load_some(x + i, lanes); });
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Of (x - mean)².
template <class X>
float sum_of_squares(const X* x, int64_t count, float mean) {
  const F32 center = splat(mean);
  F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  for_vectors(count, [&](int64_t i, int lanes, int k) {
    const F32 distance = only_first(load_some(x + i, lanes) - center, lanes, 0);
    sums[k] = fma(distance, distance, sums[k]);
  });
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// X is the element of x and y, W that of weight and bias.
template <class X, class W>
class Normalise : public Kernel {
 public:
  Normalise(const abi::KernelRequest& request, const abi::NormRequest& norm, bool known) : norm_(norm), known_(known) {
    implementation = std::string(request.op) + " " + std::string(dtype_name(norm.dtype));
    bytes = 2.0 * sizeof(X) * static_cast<double>(norm.rows * norm.columns);
    flops = 6.0 * static_cast<double>(norm.rows * norm.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const X*>(launch.inputs[0].data);
    auto* y = static_cast<X*>(launch.outputs[0].data);
    worker.parallel_for(norm_.rows, row_grain(norm_.columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        normalise(launch, row, x + row * norm_.columns, y + row * norm_.columns);
      }
    });
  }

 private:
  template <class P>
  static const P* parameter(const abi::Launch& launch, int at, int64_t first) {
    return at < 0 ? nullptr : static_cast<const P*>(launch.inputs[at].data) + first;
  }

  void normalise(const abi::Launch& launch, int64_t row, const X* x, X* y) const {
    const int64_t group = row % norm_.groups, channels = norm_.columns / norm_.spatial;
    const auto count = static_cast<float>(norm_.columns);
    const float mean = known_ ? *parameter<float>(launch, 1, group) : sum_of(x, norm_.columns) / count;
    const float variance =
        known_ ? *parameter<float>(launch, 2, group) : sum_of_squares(x, norm_.columns, mean) / count;
    const float factor = 1 / std::sqrt(variance + norm_.epsilon);
    const W* weight = parameter<W>(launch, norm_.weight_at, group * channels);
    const W* bias = parameter<W>(launch, norm_.bias_at, group * channels);
    const F32 center = splat(mean);
    if (norm_.spatial > 1 || channels == 1) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const F32 scale = splat(weight == nullptr ? factor : factor * static_cast<float>(weight[channel]));
        const F32 shift = splat(bias == nullptr ? 0 : static_cast<float>(bias[channel]));
        const int64_t first = channel * norm_.spatial;
        for_vectors(norm_.spatial, [&](int64_t i, int lanes, int) {
          store_some(y + first + i, fma(load_some(x + first + i, lanes) - center, scale, shift), lanes);
        });
      }
      return;
    }
    for_vectors(norm_.columns, [&](int64_t i, int lanes, int) {
      F32 scale = splat(factor);
      if (weight != nullptr) scale = scale * load_some(weight + i, lanes);
      const F32 shift = bias == nullptr ? zero_f32() : load_some(bias + i, lanes);
      store_some(y + i, fma(load_some(x + i, lanes) - center, scale, shift), lanes);
    });
  }

  abi::NormRequest norm_;
  bool known_;  // the mean and the variance are inputs
};

template <class X>
class Moments : public Kernel {
 public:
  explicit Moments(const abi::MomentsRequest& moments) : moments_(moments) {
    implementation = "moments " + std::string(dtype_name(moments.dtype));
    flops = 4.0 * static_cast<double>(moments.outer * moments.channels * moments.inner);
    bytes = flops / 4 * sizeof(X);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const X*>(launch.inputs[0].data);
    auto* mean = static_cast<float*>(launch.outputs[0].data);
    auto* variance = static_cast<float*>(launch.outputs[1].data);
    const int64_t inner = moments_.inner, images = moments_.outer, step = moments_.channels * inner;
    const auto count = static_cast<float>(images * inner);
    worker.parallel_for(moments_.channels, row_grain(images * inner), [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        const X* first = x + channel * inner;
        float sum = 0;
        for (int64_t image = 0; image < images; ++image) sum += sum_of(first + image * step, inner);
        mean[channel] = sum / count;
        float squares = 0;
        for (int64_t image = 0; image < images; ++image)
          squares += sum_of_squares(first + image * step, inner, mean[channel]);
        variance[channel] = squares / count;
      }
    });
  }

 private:
  abi::MomentsRequest moments_;
};

KernelPointer make(bool takes, const abi::KernelRequest& request, const abi::NormRequest& norm, bool known) {
  if (!takes) return nullptr;
  return with_element(norm.dtype, [&]<class X>() -> KernelPointer {
    if (norm.half_parameters) return std::make_unique<Normalise<X, X>>(request, norm, known);
    return std::make_unique<Normalise<X, float>>(request, norm, known);
  });
}

}  // namespace

KernelPointer make_layer_norm(const abi::KernelRequest& request, const MakeContext&) {
  abi::NormRequest norm;
  return make(read_layer_norm(request, norm), request, norm, false);
}

KernelPointer make_group_norm(const abi::KernelRequest& request, const MakeContext&) {
  abi::NormRequest norm;
  return make(read_group_norm(request, norm), request, norm, false);
}

KernelPointer make_batch_norm(const abi::KernelRequest& request, const MakeContext&) {
  abi::NormRequest norm;
  return make(read_batch_norm(request, norm), request, norm, true);
}

KernelPointer make_moments(const abi::KernelRequest& request, const MakeContext&) {
  abi::MomentsRequest moments;
  if (!read_moments(request, moments)) return nullptr;
  return with_element(moments.dtype, [&]<class X>() -> KernelPointer { return std::make_unique<Moments<X>>(moments); });
}

}  // namespace gabbro::cpu::GABBRO_ISA
