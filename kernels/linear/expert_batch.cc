// Weights of experts times tiles of slots on matrix cores (batch_products.h): a block multiplies rows of one expert
// with the activations of its slots, which it gathers from their rows.
#include "kernels/linear/batch_products.h"
#include "kernels/linear/expert_linear.h"
#include "kernels/linear/linear_finish.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// Steps of the activations of a tile's slots. Slots past the end repeat the last one, and are not stored.
template <int tile_tokens, bool blocks>
class GatherCopy {
 public:
  static constexpr bool kScales = false, kEight = false;

  GPU_FUNCTION GatherCopy(const ExpertBatchArgs& a, const ExpertTile& tile) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const i32 index = static_cast<i32>(thread_index()) + i * kBatchThreads;
      // Two vectors of eight slots are neighbors: whole sectors of memory, and few conflicts of banks.
      const i32 token = index / 2 % 8 + index / (8 * kStepVectors) * 8,
                vector = index / 16 % (kStepVectors / 2) * 2 + index % 2;
      const i32 slot = a.order[tile.first + min_of(token, tile.count - 1)];
      from_[i] = a.f16 + static_cast<i64>(slot / a.slots_per_row) * a.depth + vector * 8;
      to_[i] = tile_vector<tile_tokens>(token, vector, blocks);
    }
  }
  GPU_FUNCTION void begin(i32 step, i32 end, Half (&stage)[kStageSteps][tile_tokens * kBatchDepth]) {
#pragma unroll
    for (int s = 0; s < kStageSteps; ++s) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (step + s < end) copy_.begin(s * kCount + i, stage[s] + to_[i], from_[i] + (step + s) * kBatchDepth, true);
      }
    }
    copy_.sent();
  }
  GPU_FUNCTION void landed() {
    copy_.template landed<0>();
#ifdef GABBRO_TOGETHER
    if constexpr (takes_together(tile_tokens)) show_together();
#endif
  }

 private:
  static constexpr int kCount = tile_tokens * kStepVectors / kBatchThreads;
  static_assert(kCount * kBatchThreads == tile_tokens * kStepVectors);
  const Half* from_[kCount];
  i32 to_[kCount];
  TileCopy<kCount * kStageSteps> copy_;
};

template <class Weights, int tile_tokens>
GPU_FUNCTION inline void expert_batch(const ExpertBatchArgs& a) {
  constexpr int kTokenTiles = tile_tokens / static_cast<int>(kTile);
  const ExpertTile tile = a.tiles[block_index().y];
  if (tile.count == 0) return;
  const i32 number = static_cast<i32>(block_index().x) * kBatchWaves + static_cast<i32>(wave_index());
  const bool has = number < a.row_tiles, paired = a.epilogue == Epilogue::kSiluMul;
  const i32 own = min_of(number, a.row_tiles - 1), row = (paired ? own / 2 : own) * kRows;
  const LinearMatrix& matrix = a.matrices[paired ? own % 2 : 0];
  const Weights weights(matrix, tile.expert * a.rows + row, (tile.expert + 1) * a.rows, a.columns);
  Accumulator sums[kTokenTiles];
  multiply_steps<Weights, tile_tokens>(
      weights, 0, a.depth / kBatchDepth, [&] { return GatherCopy<tile_tokens, Weights::kBlocks>(a, tile); }, sums);
  const auto scale_of = [&](i32 slot) { return a.scales[slot / a.slots_per_row] * Weights::kUndo; };
  if (paired) {
    const i32 first_row = static_cast<i32>(block_index().x) * (kBatchWaves / 2 * kRows);
    return for_pairs<tile_tokens>(
        sums, kRows, tile.count, [](i32) { return 1.0f; },
        [&](i32 token, i32 block_row, const Vec16& first, const Vec16& second) {
          const i32 slot = a.order[tile.first + token];
          const float scale = scale_of(slot);
          Vec16 results;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float value = bits_to_float(first.word[i]) * scale, factor = bits_to_float(second.word[i]) * scale;
            results.word[i] = float_to_bits(silu(value) * factor);
          }
          store_rows(a.y + static_cast<i64>(slot) * a.rows + first_row + block_row, results,
                     a.rows - first_row - block_row);
        });
  }
  if (!has) return;
  for_sums(sums, [&](int sum_number, float sum) {
    const SumPlace at = sum_place(sum_number);
    if (at.token >= tile.count || row + at.row >= a.rows) return;
    const i32 slot = a.order[tile.first + at.token];
    a.y[static_cast<i64>(slot) * a.rows + row + at.row] = sum * scale_of(slot);
  });
}

template <class T, int tile_tokens>
GPU_FUNCTION inline void expert_batch_plain(const ExpertBatchArgs& a) {
  expert_batch<BatchVectors<T>, tile_tokens>(a);
}
template <Packing p, int tile_tokens>
GPU_FUNCTION inline void expert_batch_blocks(const ExpertBatchArgs& a) {
  expert_batch<BatchBlocks<p>, tile_tokens>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_BATCH(name, tile, ...)                                         \
  GPU_MEMORY_KERNEL(expert_##name##_batch_##tile, gabbro::gpu::kBatchThreads, \
                    gabbro::gpu::GABBRO_GPU::BatchMemory<tile>, gabbro::gpu::ExpertBatchArgs, __VA_ARGS__)
#define GABBRO_PLAIN(name, T)                                    \
  GABBRO_BATCH(name, 16, expert_batch_plain<gabbro::gpu::T, 16>) \
  GABBRO_BATCH(name, 64, expert_batch_plain<gabbro::gpu::T, 64>)
GABBRO_PLAIN(f16, Half)
GABBRO_PLAIN(bf16, BFloat)

#define GABBRO_FORMAT(name)                                             \
  GABBRO_BATCH(name, 16, expert_batch_blocks<GABBRO_PACKING(name), 16>) \
  GABBRO_BATCH(name, 64, expert_batch_blocks<GABBRO_PACKING(name), 64>)

GABBRO_FOR_EACH_FORMAT(GABBRO_FORMAT)
#endif
