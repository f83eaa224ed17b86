// The mean and the variance of each channel of x [N, C, S]: moments of blocks, merged in f64. The blocks depend on the
// shape alone, so the results do not depend on the number of threads.
//
// Channels with long runs of neighbors have blocks of runs. The others are columns of a matrix [rows, columns], in
// blocks that are kColumns wide; several rows of a narrow matrix are read as one (`fold`).
#include "backends/cpu/kernels/rows/moments.h"

#include <array>

#include "backends/common/norm_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/reduce_functions.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kLongRun = 64;      // adjacent elements of a channel from which on vectors run along them
constexpr int64_t kShortRun = 32;     // up to which a vector has an element of each of kLanes channels
constexpr int64_t kLeastImages = 16;  // columns with fewer elements get no separate moments
constexpr int64_t kColumns = 256;     // of a block, 1 KB of f32
constexpr int64_t kTileElements = 16384;

std::string implementation_of(const abi::MomentsRequest& request) {
  return "moments " + std::string(dtype_name(request.dtype));
}

// Blocks of runs along the channels.
template <class T>
class RunMoments : public Kernel {
 public:
  explicit RunMoments(const abi::MomentsRequest& r) : request_(r) {
    const bool all_of_x = r.channels == 1;
    images_ = all_of_x ? 1 : r.outer;
    inner_ = all_of_x ? r.outer * r.inner : r.inner;
    pieces_ = std::max<int64_t>(1, (inner_ + kMomentBlock - 1) / kMomentBlock);
    together_ = std::max<int64_t>(1, kMomentBlock / std::max<int64_t>(1, inner_));
    blocks_ = pieces_ > 1 ? pieces_ * images_ : std::max<int64_t>(1, (images_ + together_ - 1) / together_);
    scratch_bytes = blocks_ > 1 ? static_cast<size_t>(blocks_ * r.channels) * sizeof(Moments) : 0;
    implementation = implementation_of(r);
    flops = 4.0 * static_cast<double>(r.outer * r.channels * r.inner);
    bytes = flops / 4 * sizeof(T);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* mean = static_cast<float*>(launch.outputs[0].data);
    auto* variance = static_cast<float*>(launch.outputs[1].data);
    const auto finish = [&](int64_t channel, const Moments& moments) {
      mean[channel] = static_cast<float>(moments.mean);
      variance[channel] = static_cast<float>(moments.squares / moments.count);
    };
    const int64_t grain = row_grain(std::min(kMomentBlock, images_ * inner_));
    if (images_ == 1 && inner_ > 0 && inner_ <= kShortRun) {
      worker.parallel_for((request_.channels + kLanes - 1) / kLanes, row_grain(kLanes * inner_),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin * kLanes; i < std::min(request_.channels, end * kLanes); i += kLanes)
                              short_runs(x, i, std::min<int64_t>(kLanes, request_.channels - i), finish);
                          });
      return;
    }
    if (blocks_ == 1) {
      worker.parallel_for(request_.channels, grain, [&](int64_t begin, int64_t end) {
        for (int64_t channel = begin; channel < end; ++channel) finish(channel, block(x, channel, 0));
      });
      return;
    }
    auto* partial = static_cast<Moments*>(launch.scratch);
    worker.parallel_for(request_.channels * blocks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) partial[i] = block(x, i / blocks_, i % blocks_);
    });
    worker.barrier();
    if (worker.stopped()) return;
    worker.parallel_for(request_.channels, row_grain(blocks_), [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        Moments all;
        for (int64_t i = 0; i < blocks_; ++i) all.merge(partial[channel * blocks_ + i]);
        finish(channel, all);
      }
    });
  }

 private:
  // Up to kLanes channels from `first` on, a lane each.
  template <class Finish>
  void short_runs(const T* x, int64_t first, int64_t channels, Finish&& finish) const {
    alignas(64) float rows[kLanes * kShortRun], columns[kShortRun * kLanes] = {};
    const T* from = x + first * inner_;
    for (int64_t i = 0; i < channels * inner_; i += kLanes) {
      const auto lanes = static_cast<int>(std::min<int64_t>(kLanes, channels * inner_ - i));
      store_first(rows + i, load_some(from + i, lanes), lanes);
    }
    for (int64_t r = 0; r < channels; ++r) {
      for (int64_t c = 0; c < inner_; ++c) columns[c * kLanes + r] = rows[r * inner_ + c];
    }
    F32 sum = zero_f32(), rest = zero_f32(), square = zero_f32();
    for (int64_t c = 0; c < inner_; ++c) sum += load(columns + c * kLanes);
    alignas(64) float centers[kLanes], rests[kLanes], squares[kLanes];
    store(centers, sum);
    for (int r = 0; r < kLanes; ++r) centers[r] = moment_center(columns[r], centers[r] / static_cast<float>(inner_));
    const F32 center = load(centers);
    for (int64_t c = 0; c < inner_; ++c) {
      const F32 distance = load(columns + c * kLanes) - center;
      rest += distance;
      square = fma(distance, distance, square);
    }
    store(rests, rest);
    store(squares, square);
    for (int64_t r = 0; r < channels; ++r) {
      const T* run = from + r * inner_;
      finish(first + r, std::isfinite(squares[r])
                            ? centered_moments(static_cast<double>(inner_), centers[r], rests[r], squares[r])
                            : wide_moments<T>(inner_, [&](auto body) { body(run, inner_); }));
    }
  }

  Moments block(const T* x, int64_t channel, int64_t index) const {
    if (images_ * inner_ == 0) return {.count = 0, .mean = NAN, .squares = NAN};
    const int64_t step = request_.channels * inner_;
    x += channel * inner_;
    if (pieces_ > 1) {
      const int64_t piece = index % pieces_, begin = piece * inner_ / pieces_,
                    length = (piece + 1) * inner_ / pieces_ - begin;
      x += index / pieces_ * step + begin;
      return block_moments(*x, length, [&](auto body) { body(x, length); });
    }
    const int64_t begin = index * together_, end = std::min(images_, begin + together_);
    return block_moments(x[begin * step], (end - begin) * inner_, [&](auto body) {
      for (int64_t image = begin; image < end; ++image) body(x + image * step, inner_);
    });
  }

  abi::MomentsRequest request_;
  int64_t images_ = 0, inner_ = 0;
  int64_t pieces_ = 1;    // of an image's run
  int64_t together_ = 1;  // images whose runs make a block, where a run is one piece
  int64_t blocks_ = 1;    // of a channel
};

// Sums of `width` columns of `rows` rows, `stride` apart.
template <class T>
void column_moments(const T* x, int64_t stride, int64_t rows, int64_t width, Moments* moments) {
  std::array<float, kColumns> sums{};
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) join_neighbors<Sum, 4>(x + row * stride, stride, width, sums.data());
  for (; row < rows; ++row) join_neighbors<Sum, 1>(x + row * stride, stride, width, sums.data());
  std::array<float, 2 * kLanes> centers{}, rests{}, squares{};
  const auto count = static_cast<double>(rows);
  for (int64_t first = 0; first < width; first += 2 * kLanes) {
    const auto columns = static_cast<int>(std::min<int64_t>(2 * kLanes, width - first));
    const int lanes[2] = {std::min(kLanes, columns), std::max(0, columns - kLanes)};
    for (int j = 0; j < columns; ++j) {
      const auto at = static_cast<size_t>(j);
      centers[at] = moment_center(static_cast<float>(x[first + j]),
                                  sums[static_cast<size_t>(first) + at] / static_cast<float>(rows));
    }
    F32 rest[2] = {zero_f32(), zero_f32()}, square[2] = {zero_f32(), zero_f32()};
    const F32 center[2] = {load(centers.data()), load(centers.data() + kLanes)};
    for (row = 0; row < rows; ++row) {
      for (int v = 0; v < 2; ++v) {
        const F32 distance = load_some(x + row * stride + first + v * kLanes, lanes[v]) - center[v];
        rest[v] += distance;
        square[v] = fma(distance, distance, square[v]);
      }
    }
    for (int v = 0; v < 2; ++v) {
      store(rests.data() + v * kLanes, rest[v]);
      store(squares.data() + v * kLanes, square[v]);
    }
    for (int j = 0; j < columns; ++j) {
      const auto at = static_cast<size_t>(j);
      const T* column = x + first + j;
      moments[first + j] = std::isfinite(squares[at]) ? centered_moments(count, centers[at], rests[at], squares[at])
                                                      : wide_moments<T>(rows, [&](auto body) {
                                                          for (int64_t i = 0; i < rows; ++i)
                                                            body(column + i * stride, 1);
                                                        });
    }
  }
}

// Columns of a matrix.
template <class T>
class ColumnMoments : public Kernel {
 public:
  explicit ColumnMoments(const abi::MomentsRequest& r) : request_(r) {
    const int64_t row = r.channels * r.inner;
    fold_ = std::clamp<int64_t>(kColumns / row, 1, r.outer / kLeastImages);
    columns_ = row * fold_;
    rows_ = r.outer / fold_;
    tiles_ = (columns_ + kColumns - 1) / kColumns;
    height_ = kTileElements / std::min(kColumns, columns_);
    blocks_ = (rows_ + height_ - 1) / height_;
    scratch_bytes = static_cast<size_t>(blocks_ * columns_) * sizeof(Moments);
    implementation = implementation_of(r);
    flops = 4.0 * static_cast<double>(r.outer * row);
    bytes = flops / 4 * sizeof(T);
  }

  static bool takes(const abi::MomentsRequest& r) {
    return r.channels > 1 && r.inner > 0 && r.inner < kLongRun && r.outer >= kLeastImages;
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* partial = static_cast<Moments*>(launch.scratch);
    worker.parallel_for(blocks_ * tiles_, 1, [&](int64_t i, int64_t) {
      const int64_t block = i / tiles_, row = block * height_, column = i % tiles_ * kColumns;
      column_moments(x + row * columns_ + column, columns_, std::min(height_, rows_ - row),
                     std::min(kColumns, columns_ - column), partial + block * columns_ + column);
    });
    worker.barrier();
    if (worker.stopped()) return;
    auto* mean = static_cast<float*>(launch.outputs[0].data);
    auto* variance = static_cast<float*>(launch.outputs[1].data);
    worker.parallel_for(request_.channels, kMerged, [&](int64_t begin, int64_t end) {
      const auto merged = merge(x, partial, begin, end - begin);
      for (int64_t channel = begin; channel < end; ++channel) {
        const Moments& all = merged[static_cast<size_t>(channel - begin)];
        mean[channel] = static_cast<float>(all.mean);
        variance[channel] = static_cast<float>(all.squares / all.count);
      }
    });
  }

 private:
  static constexpr int64_t kMerged = 64;  // channels whose moments are merged together, so that they are read in order

  // Channels from `first` on: their mean, and then the distances from it. Moments::merge would divide for each column.
  std::array<Moments, kMerged> merge(const T* x, const Moments* partial, int64_t first, int64_t count) const {
    const int64_t inner = request_.inner, row = request_.channels * inner;
    std::array<Moments, kMerged> all{};
    std::array<double, kMerged> base{}, sums{};
    const auto each = [&](auto body) {
      for (int64_t part = 0; part < blocks_ * fold_; ++part) {
        const Moments* moments = partial + part * row + first * inner;
        for (int64_t j = 0; j < count; ++j) {
          for (int64_t i = 0; i < inner; ++i) body(static_cast<size_t>(j), moments[j * inner + i]);
        }
      }
    };
    for (int64_t j = 0; j < count; ++j) base[static_cast<size_t>(j)] = partial[(first + j) * inner].mean;
    each([&](size_t j, const Moments& moments) {
      all[j].count += moments.count;
      sums[j] += moments.count * (moments.mean - base[j]);
    });
    for (size_t j = 0; j < static_cast<size_t>(count); ++j) all[j].mean = base[j] + sums[j] / all[j].count;
    each([&](size_t j, const Moments& moments) {
      const double distance = moments.mean - all[j].mean;
      all[j].squares += moments.squares + moments.count * distance * distance;
    });
    for (int64_t image = rows_ * fold_; image < request_.outer; ++image) {  // what the fold leaves
      for (int64_t j = 0; j < count; ++j) {
        const T* run = x + image * row + (first + j) * inner;
        all[static_cast<size_t>(j)].merge(block_moments(*run, inner, [&](auto body) { body(run, inner); }));
      }
    }
    return all;
  }

  abi::MomentsRequest request_;
  int64_t fold_ = 1;  // rows of x that are one row of the matrix
  int64_t columns_ = 0, rows_ = 0;
  int64_t tiles_ = 1;   // of kColumns columns
  int64_t height_ = 1;  // rows of a block
  int64_t blocks_ = 1;  // below each other
};

}  // namespace

KernelPointer make_moments(const abi::KernelRequest& request, const MakeContext&) {
  abi::MomentsRequest moments;
  if (!read_moments(request, moments)) return nullptr;
  return with_element(moments.dtype, [&]<class T>() -> KernelPointer {
    if (ColumnMoments<T>::takes(moments)) return std::make_unique<ColumnMoments<T>>(moments);
    return std::make_unique<RunMoments<T>>(moments);
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
