// Quantized weights of experts times few tokens, bound by memory: a wave kWaveRows rows of gate and up of a
// slot, or a row of all experts of a token. Each block rounds the activations itself, as linear_decode_q.cc does; many
// small blocks hide more latency than blocks that go from row to row (8 experts of qwen3-30b-a3b on an H100: 441 and
// 415 tokens/s).
#include "kernels/linear/expert_rows.h"
#include "kernels/linear/linear_finish.h"
#include "kernels/linear/rounded_row.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline i32 wave_of_grid() {
  return static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
}

template <Packing p>
GPU_FUNCTION inline void expert_gated(const ExpertDecodeArgs& a) {
  using Block = typename TokenBlock<p.e4m3>::Type;
  GPU_SHARED(Block, x, kMaxOneColumns / kBlock);
  const i32 slot = static_cast<i32>(block_index().y), blocks = a.columns / kBlock, row = wave_of_grid() * kWaveRows;
  const i64 id = checked_position(a.check, a.ids[slot]);
  const i64 expert = max_of(id, i64{0});
  const auto load = [&](i32 b, RawBlock<p>(&to)[kWaveRows][2]) {
#pragma unroll
    for (int r = 0; r < kWaveRows; ++r) {
      const i64 first = (expert * a.rows + min_of(row + r, a.rows - 1)) * blocks;
#pragma unroll
      for (int m = 0; m < 2; ++m) to[r][m] = load_raw<p>(a.matrices[m], first + min_of(b, blocks - 1));
    }
  };
  RawBlock<p> coming[kWaveRows][2];
  load(static_cast<i32>(lane()), coming);
  const float factor = round_row({a.x + static_cast<i64>(slot / a.used) * a.columns, a.norm, a.columns, a.epsilon}, x);
  float sums[kWaveRows][2] = {};
  for (i32 b = static_cast<i32>(lane()); b < blocks; b += static_cast<i32>(kWave)) {
    RawBlock<p> now[kWaveRows][2];
#pragma unroll
    for (int r = 0; r < kWaveRows; ++r) {
      now[r][0] = coming[r][0];
      now[r][1] = coming[r][1];
    }
    if (b + static_cast<i32>(kWave) < blocks) load(b + static_cast<i32>(kWave), coming);
#pragma unroll
    for (int r = 0; r < kWaveRows; ++r) add_products<p, 2>(now[r], x[b], x[b].scale, sums[r]);
  }
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r) {
    const float gate = wave_sum(sums[r][0]) * factor, up = wave_sum(sums[r][1]) * factor;
    if (lane() == 0 && row + r < a.rows) a.y[static_cast<i64>(slot) * a.rows + row + r] = id < 0 ? 0 : silu(gate) * up;
  }
}

// The experts of a token and the weight of each, 0 of one that is out of range, in the block's memory.
struct TokenExperts {
  i32 guessed[kMaxUsedExperts];
  i32 expert[kMaxUsedExperts];
  float weight[kMaxUsedExperts];
  u32 changed;  // whether they are others than guessed

  // They may belong to an earlier token while the launch ahead still runs.
  GPU_FUNCTION void guess(const ExpertDecodeArgs& a, i32 token) {
    const i32 own = static_cast<i32>(thread_index());
    if (own == 0) changed = 0;
    if (own < a.used) {
      const i64 id = position_of(a.check, peek(a.ids + token * a.used + own));
      guessed[own] = static_cast<i32>(max_of(id, i64{0}));
    }
    barrier();
  }
  // Whether the guess was right.
  GPU_FUNCTION bool load(const ExpertDecodeArgs& a, i32 token) {
    const i32 own = static_cast<i32>(thread_index());
    if (own < a.used) {
      const i64 id = checked_position(a.check, a.ids[token * a.used + own]);
      weight[own] = id < 0 ? 0 : a.weights[token * a.used + own];
      expert[own] = static_cast<i32>(max_of(id, i64{0}));
      if (expert[own] != guessed[own]) changed = 1;
    }
    barrier();
    return changed == 0;
  }
};

// The blocks of a row of all experts of a token, in the order in which a lane goes through them.
struct SlotBlock {
  i32 slot, block;
  GPU_FUNCTION void advance(i32 blocks) {
    block += static_cast<i32>(kWave);
    for (; block >= blocks; block -= blocks) ++slot;
  }
};

template <Packing p>
GPU_FUNCTION inline void expert_sum(const ExpertDecodeArgs& a) {
  using Block = typename TokenBlock<p.e4m3>::Type;
  GPU_SHARED(Block, x, kMaxOneColumns / kBlock);
  GPU_SHARED(TokenExperts, experts, 1);
  const i32 token = static_cast<i32>(block_index().y), blocks = a.columns / kBlock, row = wave_of_grid();
  experts->guess(a, token);
  const SlotBlock before{0, -static_cast<i32>(kWave) + static_cast<i32>(lane())};
  SlotBlock next = before;
  const auto load = [&](const i32* of_slots, RawBlock<p>& to) {
    next.advance(blocks);
    if (next.slot >= a.used) return;
    const i64 expert = of_slots[next.slot];
    to = load_raw<p>(a.matrices[0], (expert * a.rows + min_of(row, a.rows - 1)) * blocks + next.block);
  };
  constexpr int kAhead = 6;
  RawBlock<p> coming[kAhead] = {};
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(experts->guessed, coming[i]);
  wait_for_previous();
  if (!experts->load(a, token)) {
    next = before;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(experts->expert, coming[i]);
  }
  round_row({a.x + static_cast<i64>(token) * a.used * a.columns, nullptr, a.used * a.columns, 0}, x);
  const i64 place = static_cast<i64>(token) * a.rows + row;
  const float residual = a.residual != nullptr && row < a.rows ? a.residual[place] : 0;
  float total = 0;
  SlotBlock at = before;
  at.advance(blocks);
  while (at.slot < a.used) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (at.slot >= a.used) break;
      const Block& part = x[at.slot * blocks + at.block];
      add_products<p, 1>(&coming[i], part, part.scale * experts->weight[at.slot], &total);
      load(experts->expert, coming[i]);
      at.advance(blocks);
    }
  }
  const float value = wave_sum(total);
  if (lane() != 0 || row >= a.rows) return;
  a.y[place] = value + residual;
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_EXPERT(name)                                                                            \
  GPU_LATE_KERNEL(expert_##name##_gated, gabbro::gpu::kLinearThreads, gabbro::gpu::ExpertDecodeArgs,   \
                  expert_gated<GABBRO_PACKING(name)>)                                                  \
  GPU_EARLY_KERNEL(expert_##name##_sum, gabbro::gpu::kExpertSumThreads, gabbro::gpu::ExpertDecodeArgs, \
                   expert_sum<GABBRO_PACKING(name)>)

GABBRO_FOR_EACH_FORMAT(GABBRO_EXPERT)
