// Kernels of the simulator's own tests: one that is right, and one for each mistake that the simulator sees.
#include "backends/gpu/sim/test_kernels.h"

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/matrix.h"

namespace gabbro::gpu::GABBRO_GPU {

// Each block's elements in reverse order; and behind them the sum of each wave, and of the block.
GPU_FUNCTION inline void test_reverse(const TestArgs& a) {
  GPU_SHARED(float, values, 128);
  const u32 t = thread_index(), first = block_index().x * block_size();
  values[t] = a.data[first + t];
  barrier();
  a.out[first + t] = values[block_size() - 1 - t];
  const u32 behind = grid_size().x * block_size() + block_index().x * (block_size() / kWave + 1);
  const float sum = wave_sum(values[t]), total = block_sum(values[t]);
  if (lane() == 0) a.out[behind + wave_index()] = sum;
  if (t == 0) a.out[behind + block_size() / kWave] = total;
}

GPU_FUNCTION inline void test_read(const TestArgs& a) {
  if (thread_index() == 5) a.out[0] = a.data[a.index];
}

GPU_FUNCTION inline void test_write(const TestArgs& a) {
  if (thread_index() == 5) a.data[a.index] = 1;
}

GPU_FUNCTION inline void test_barrier(const TestArgs&) {
  if (thread_index() != 3) barrier();
}

GPU_FUNCTION inline void test_two_shuffles(const TestArgs& a) {
  float value = 1;
  if (lane() == 7) {
    value = shuffle_xor(value, 1);
  } else {
    value = shuffle_xor(value, 2);
  }
  a.out[thread_index()] = value;
}

GPU_FUNCTION inline void test_missing_lane(const TestArgs& a) {
  if (lane() == 7) return;
  a.out[thread_index()] = shuffle_xor(1.0f, 1);
}

// Tiles a, b and c of 16×16 integers, behind each other in `data`; out: a·bᵀ, a·b, (a·bᵀ)·c, and
// for each row of a·bᵀ its largest element and its sum; then a·bᵀ with rows eight apart added.
GPU_FUNCTION inline void test_matrix(const TestArgs& a) {
  constexpr u32 kPitch = 24, kElements = kTile * kTile;
  using Transposed = TransposedTile<kTile, kTile>;
  GPU_SHARED(Half, tiles, 2 * kTile * kPitch);
  GPU_SHARED(Half, transposed_tiles, 2 * Transposed::kElements);  // of the last two
  for (u32 i = thread_index(); i < 3 * kElements; i += block_size()) {
    const u32 tile = i / kElements, row = i % kElements / kTile, column = i % kTile;
    if (tile < 2) tiles[i / kTile * kPitch + column] = to_half(a.data[i]);
    if (tile > 0)
      transposed_tiles[(tile - 1) * Transposed::kElements + Transposed::place(row, column)] = to_half(a.data[i]);
  }
  barrier();
  if (wave_index() > 0) return;
  const Half* second = tiles + kTile * kPitch;
  const Fragment first = load_fragment(tiles, kPitch);
  Accumulator product, transposed, chained;
  multiply(first, load_columns(second, kPitch), product);
  multiply(first, Transposed::load(transposed_tiles, 0, 0), transposed);
  multiply(to_fragment(product), Transposed::load(transposed_tiles + Transposed::kElements, 0, 0), chained);
  float largest[kRowSlots], sums[kRowSlots] = {};
  for (float& x : largest) x = -1e30f;
  for (int i = 0; i < Accumulator::kCount; ++i) {
    const u32 place = row_of(i) * kTile + column_of(i);
    a.out[place] = product.value[i];
    a.out[kElements + place] = transposed.value[i];
    a.out[2 * kElements + place] = chained.value[i];
    float& peak = largest[row_slot(i)];
    peak = max_of(peak, product.value[i]);
    sums[row_slot(i)] += product.value[i];
  }
  const Accumulator paired = add_row_pairs(product);
  for (int i = 0; i < Accumulator::kCount; ++i) {
    a.out[3 * kElements + 2 * kTile + row_of(i) * kTile + column_of(i)] = paired.value[i];
  }
  for (int slot = 0; slot < kRowSlots; ++slot) {
    largest[slot] = row_max(largest[slot]);
    sums[slot] = row_sum(sums[slot]);
  }
  for (int i = 0; i < Accumulator::kCount; ++i) {
    a.out[3 * kElements + row_of(i)] = largest[row_slot(i)];
    a.out[3 * kElements + kTile + row_of(i)] = sums[row_slot(i)];
  }
}

// Pairs x and y from `data`; out: x + y, x·y + y, and four bytes spread out.
GPU_FUNCTION inline void test_pairs(const TestArgs& a) {
  const u32 x = pack_f16x2(a.data[0], a.data[1]), y = pack_f16x2(a.data[2], a.data[3]);
  u32 words[4] = {add_f16x2(x, y), fma_f16x2(x, y, y)};
  spread_bytes(0xff017f80, words + 2);
  for (u32 i = thread_index(); i < 8; i += block_size()) {
    a.out[i] = to_float(Half{static_cast<u16>(words[i / 2] >> (i % 2 * 16))});
  }
}

// 16-byte vectors of `data` in reverse order; zeros if the index says so.
GPU_FUNCTION inline void test_tile_copy(const TestArgs& a) {
  GPU_SHARED(Vec16, tile, 128);
  TileCopy<1> even, odd;
  const u32 t = thread_index();
  if (t % 2 == 0) even.begin(0, tile + t, a.data + t % 64 * 4, static_cast<i64>(t) != a.index);
  even.sent();
  if (t % 2 == 1) odd.begin(0, tile + t, a.data + t % 64 * 4, static_cast<i64>(t) != a.index);
  odd.sent();
  if (t % 2 == 0) even.landed<1>();
  if (t % 2 == 1) odd.landed();
  barrier();
  if (t < 64) store_vec16(a.out + t * 4, tile[63 - t]);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(test_matrix, 128, gabbro::gpu::TestArgs, test_matrix)
GPU_KERNEL(test_pairs, 128, gabbro::gpu::TestArgs, test_pairs)
GPU_KERNEL(test_tile_copy, 128, gabbro::gpu::TestArgs, test_tile_copy)
GPU_KERNEL(test_reverse, 128, gabbro::gpu::TestArgs, test_reverse)
GPU_KERNEL(test_read, 128, gabbro::gpu::TestArgs, test_read)
GPU_KERNEL(test_write, 128, gabbro::gpu::TestArgs, test_write)
GPU_KERNEL(test_barrier, 128, gabbro::gpu::TestArgs, test_barrier)
GPU_KERNEL(test_two_shuffles, 128, gabbro::gpu::TestArgs, test_two_shuffles)
GPU_KERNEL(test_missing_lane, 128, gabbro::gpu::TestArgs, test_missing_lane)
