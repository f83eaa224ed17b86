// cumsum: y_i = x_0 + ... + x_i over the last axis; i64 of i32 and i64, which wraps around. A row that fits the
// registers of a block is read once. Other rows of several tiles take three launches: the sums of the tiles, the sums
// of all tiles before each, and the elements of each tile.
#include "kernels/rows/scan.h"

#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

// Inclusive scan over the lanes of a wave.
template <class T>
GPU_FUNCTION inline T wave_scan(T sum) {
  for (u32 step = 1; step < kWave; step *= 2) {
    const bool has_other = lane() >= step;
    const T other = shuffle(sum, has_other ? lane() - step : lane());
    if (has_other) sum += other;
  }
  return sum;
}

// Exclusive scan over the threads of a block; `total` is the sum of all.
template <class T>
GPU_FUNCTION inline T sum_before(T value, T& total) {
  GPU_SHARED(T, waves, kMaxWaves);
  const T sum = wave_scan(value);
  barrier();
  if (lane() == kWave - 1) waves[wave_index()] = sum;
  barrier();
  const T left = shuffle(sum, lane() == 0 ? 0 : lane() - 1);
  T before = lane() == 0 ? T(0) : left;
  total = 0;
  for (u32 w = 0; w < block_size() / kWave; ++w) {
    if (w < wave_index()) before += waves[w];
    total += waves[w];
  }
  return before;
}

// X: the elements; T: the sums, of integers unsigned, so that they wrap around.
template <class X, class T>
GPU_FUNCTION inline void scan_sums(const ScanArgs& a) {
  const i64 row = block_index().x / static_cast<u32>(a.tiles);
  const i64 begin = static_cast<i64>(block_index().x % static_cast<u32>(a.tiles)) * kScanTile;
  const X* x = static_cast<const X*>(a.x) + row * a.columns;
  T sum = 0, total;
  for (i64 i = begin + thread_index(); i < min_of(begin + kScanTile, a.columns); i += block_size())
    sum += static_cast<T>(x[i]);
  sum_before(sum, total);
  if (thread_index() == 0) static_cast<T*>(a.sums)[block_index().x] = total;
}

// One block per row of sums.
template <class T>
GPU_FUNCTION inline void scan_offsets(const ScanArgs& a) {
  T* sums = static_cast<T*>(a.sums) + static_cast<i64>(block_index().x) * a.tiles;
  T carried = 0;
  for (i32 begin = 0; begin < a.tiles; begin += static_cast<i32>(block_size())) {
    const i32 i = begin + static_cast<i32>(thread_index());
    T total;
    const T before = sum_before(i < a.tiles ? sums[i] : T(0), total);
    if (i < a.tiles) sums[i] = carried + before;
    carried += total;
  }
}

template <class X, class T>
GPU_FUNCTION inline void scan(const ScanArgs& a) {
  const i64 row = block_index().x / static_cast<u32>(a.tiles);
  const i64 begin = static_cast<i64>(block_index().x % static_cast<u32>(a.tiles)) * kScanTile +
                    static_cast<i64>(thread_index()) * kScannedByThread;
  const X* x = static_cast<const X*>(a.x) + row * a.columns;
  T* y = static_cast<T*>(a.y) + row * a.columns;
  T sums[kScannedByThread], sum = 0, total;
#pragma unroll
  for (i32 i = 0; i < kScannedByThread; ++i) {
    if (begin + i < a.columns) sum += static_cast<T>(x[begin + i]);
    sums[i] = sum;
  }
  T before = sum_before(sum, total);
  if (a.sums != nullptr) before += static_cast<const T*>(a.sums)[block_index().x];
#pragma unroll
  for (i32 i = 0; i < kScannedByThread; ++i) {
    if (begin + i < a.columns) y[begin + i] = before + sums[i];
  }
}

// The running sums of a 16-byte vector of X.
template <class X, class T>
struct alignas(16) ScanVector {
  T value[RowVector<X>::kElements];
};

// A row of whole 16-byte vectors: each wave scans consecutive ones, one vector per lane at a time.
template <class X, class T>
GPU_FUNCTION inline void scan_row(const ScanArgs& a) {
  GPU_SHARED(T, waves, kMaxWaves);
  constexpr i32 kElements = RowVector<X>::kElements;
  const i64 row = static_cast<i64>(block_index().x) * a.columns;
  const auto* x = reinterpret_cast<const RowVector<X>*>(static_cast<const X*>(a.x) + row);
  auto* y = reinterpret_cast<ScanVector<X, T>*>(static_cast<T*>(a.y) + row);
  const i32 vectors = static_cast<i32>(a.columns / kElements);
  const i32 first = static_cast<i32>(wave_index() * kWave * kScanVectors + lane());
  ScanVector<X, T> sums[kScanVectors];
#pragma unroll
  for (i32 p = 0; p < kScanVectors; ++p) {
    const i32 index = first + p * static_cast<i32>(kWave);
    if (index >= vectors) continue;
    const RowVector<X> vector = x[index];
#pragma unroll
    for (i32 e = 0; e < kElements; ++e) sums[p].value[e] = static_cast<T>(vector.value[e]);
  }
  T carried = 0;  // sum of the wave's vectors before these
#pragma unroll
  for (i32 p = 0; p < kScanVectors; ++p) {
    const bool inside = first + p * static_cast<i32>(kWave) < vectors;
    T sum = 0;
#pragma unroll
    for (i32 e = 0; e < kElements; ++e) {
      if (inside) sum += sums[p].value[e];
      sums[p].value[e] = sum;
    }
    sum = wave_scan(sum);
    const T left = shuffle(sum, lane() == 0 ? 0 : lane() - 1);
    const T before = lane() == 0 ? carried : carried + left;
#pragma unroll
    for (i32 e = 0; e < kElements; ++e) sums[p].value[e] += before;
    carried += shuffle(sum, kWave - 1);
  }
  if (lane() == 0) waves[wave_index()] = carried;
  barrier();
  T before = 0;
  for (u32 w = 0; w < wave_index(); ++w) before += waves[w];
#pragma unroll
  for (i32 p = 0; p < kScanVectors; ++p) {
    const i32 index = first + p * static_cast<i32>(kWave);
    if (index >= vectors) continue;
#pragma unroll
    for (i32 e = 0; e < kElements; ++e) sums[p].value[e] += before;
    y[index] = sums[p];
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_SCAN(name, X, T)                                                                              \
  GPU_KERNEL(scan_row_##name, gabbro::gpu::kScanThreads, gabbro::gpu::ScanArgs, scan_row<X, T>)              \
  GPU_KERNEL(scan_row_##name##_small, gabbro::gpu::kScanSmallThreads, gabbro::gpu::ScanArgs, scan_row<X, T>) \
  GPU_KERNEL(scan_sums_##name, gabbro::gpu::kScanThreads, gabbro::gpu::ScanArgs, scan_sums<X, T>)            \
  GPU_KERNEL(scan_offsets_##name, 256, gabbro::gpu::ScanArgs, scan_offsets<T>)                               \
  GPU_KERNEL(scan_##name, gabbro::gpu::kScanThreads, gabbro::gpu::ScanArgs, scan<X, T>)
GABBRO_SCAN(f32, float, float)
GABBRO_SCAN(i32, gabbro::gpu::i32, gabbro::gpu::u64)
GABBRO_SCAN(i64, gabbro::gpu::u64, gabbro::gpu::u64)
