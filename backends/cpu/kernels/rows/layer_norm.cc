// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018) and BatchNorm (Ioffe & Szegedy 2015): y = (x - mean) /
// sqrt(variance + epsilon) · weight + bias. x is f32, f16 or bf16, the parameters are f32 or of its dtype.
#include <algorithm>
#include <cmath>

#include "backends/common/norm_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/moments.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Rows that all workers share, where a row for each would leave most of them idle.
constexpr int64_t kFewRows = 16, kLongRow = 8 * kMomentBlock;
// Up to this many columns the moments are two plain sums of f32; for longer rows the moments of blocks, merged in f64.
constexpr int64_t kPlainColumns = 32768;

template <class X>
float sum_of(const X* x, int64_t count) {
  F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  for_vectors(count, [&](int64_t i, int lanes, int k) { sums[k] += load_some(x + i, lanes); });
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Sum of (x - mean)².
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
class Normalize : public Kernel {
 public:
  Normalize(const abi::KernelRequest& request, const abi::NormRequest& norm, bool known) : norm_(norm), known_(known) {
    implementation = std::string(request.op) + " " + std::string(dtype_name(norm.dtype));
    bytes = 2.0 * sizeof(X) * static_cast<double>(norm.rows * norm.columns);
    flops = 6.0 * static_cast<double>(norm.rows * norm.columns);
    if (known || norm.rows > kFewRows || norm.columns < kLongRow) return;
    blocks_ = (norm.columns + kMomentBlock - 1) / kMomentBlock;
    scratch_bytes = static_cast<size_t>(norm.rows * blocks_) * sizeof(Moments);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const X*>(launch.inputs[0].data);
    auto* y = static_cast<X*>(launch.outputs[0].data);
    if (blocks_ > 0) return run_blocks(launch, worker, x, y);
    worker.parallel_for(norm_.rows, row_grain(norm_.columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row * norm_.columns;
        normalize(launch, row, statistics(launch, row, x + first), {0, norm_.columns}, x + first, y + first);
      }
    });
  }

 private:
  struct Statistics {
    float mean, variance;
  };
  struct Range {
    int64_t begin, end;
  };

  template <class P>
  static const P* parameter(const abi::Launch& launch, int at, int64_t first) {
    return at < 0 ? nullptr : static_cast<const P*>(launch.inputs[at].data) + first;
  }

  static Statistics statistics_of(const Moments& moments) {
    return {static_cast<float>(moments.mean), static_cast<float>(moments.squares / moments.count)};
  }

  Statistics statistics(const abi::Launch& launch, int64_t row, const X* x) const {
    if (known_) {
      const int64_t group = row % norm_.groups;
      return {*parameter<float>(launch, 1, group), *parameter<float>(launch, 2, group)};
    }
    if (norm_.columns > kPlainColumns) return statistics_of(row_moments(x, norm_.columns));
    const auto count = static_cast<float>(norm_.columns);
    const float mean = sum_of(x, norm_.columns) / count;
    return {mean, sum_of_squares(x, norm_.columns, mean) / count};
  }

  // Blocks of the rows, by all workers: first their moments, and then what comes of them. Each worker merges the
  // moments of a row itself.
  void run_blocks(const abi::Launch& launch, Worker& worker, const X* x, X* y) const {
    auto* moments = static_cast<Moments*>(launch.scratch);
    const auto range = [&](int64_t i) {
      const int64_t begin = i % blocks_ * kMomentBlock;
      return Range{begin, std::min(norm_.columns, begin + kMomentBlock)};
    };
    worker.parallel_for(norm_.rows * blocks_, 1, [&](int64_t i, int64_t) {
      const Range columns = range(i);
      moments[i] = row_moments(x + i / blocks_ * norm_.columns + columns.begin, columns.end - columns.begin);
    });
    worker.barrier();
    int64_t merged_row = -1;
    Statistics merged{};
    worker.parallel_for(norm_.rows * blocks_, 1, [&](int64_t i, int64_t) {
      const int64_t row = i / blocks_, first = row * norm_.columns;
      if (row != merged_row) {
        Moments all;
        for (int64_t block = 0; block < blocks_; ++block) all.merge(moments[row * blocks_ + block]);
        merged = statistics_of(all);
        merged_row = row;
      }
      normalize(launch, row, merged, range(i), x + first, y + first);
    });
  }

  // Some columns of a row, which begins at x.
  void normalize(const abi::Launch& launch, int64_t row, Statistics statistics, Range columns, const X* x, X* y) const {
    const int64_t group = row % norm_.groups, channels = norm_.columns / norm_.spatial;
    const float factor = 1 / std::sqrt(statistics.variance + norm_.epsilon);
    const W* weight = parameter<W>(launch, norm_.weight_at, group * channels);
    const W* bias = parameter<W>(launch, norm_.bias_at, group * channels);
    const F32 center = splat(statistics.mean), scale = splat(factor);
    // The weight comes last: times the scale it may overflow.
    const auto store = [&](int64_t at, int lanes, F32 w, F32 shift) {
      store_some(y + at, fma((load_some(x + at, lanes) - center) * scale, w, shift), lanes);
    };
    if (norm_.spatial > 1 || channels == 1) {
      for (int64_t begin = columns.begin; begin < columns.end;) {
        const int64_t channel = begin / norm_.spatial, end = std::min(columns.end, (channel + 1) * norm_.spatial);
        const float w = weight == nullptr ? 1 : static_cast<float>(weight[channel]), both = factor * w;
        const F32 shift = splat(bias == nullptr ? 0 : static_cast<float>(bias[channel]));
        if (std::isnormal(both)) {
          for_vectors(end - begin, [&](int64_t i, int lanes, int) {
            store_some(y + begin + i, fma(load_some(x + begin + i, lanes) - center, splat(both), shift), lanes);
          });
        } else {
          for_vectors(end - begin, [&](int64_t i, int lanes, int) { store(begin + i, lanes, splat(w), shift); });
        }
        begin = end;
      }
      return;
    }
    for_vectors(columns.end - columns.begin, [&](int64_t i, int lanes, int) {
      const int64_t at = columns.begin + i;
      store(at, lanes, weight == nullptr ? splat(1) : load_some(weight + at, lanes),
            bias == nullptr ? zero_f32() : load_some(bias + at, lanes));
    });
  }

  abi::NormRequest norm_;
  bool known_;          // the mean and the variance are inputs
  int64_t blocks_ = 0;  // of a row, where rows are few and long
};

KernelPointer make(bool takes, const abi::KernelRequest& request, const abi::NormRequest& norm, bool known) {
  if (!takes) return nullptr;
  return with_element(norm.dtype, [&]<class X>() -> KernelPointer {
    if (norm.half_parameters) return std::make_unique<Normalize<X, X>>(request, norm, known);
    return std::make_unique<Normalize<X, float>>(request, norm, known);
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

}  // namespace gabbro::cpu::GABBRO_ISA
