// Slots grouped by expert, on the device: the host waits for nothing, and a captured graph stays one.
#include "kernels/linear/expert_rows.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline void expert_route(const ExpertRouteArgs& a) {
  GPU_SHARED(u32, next, kMaxGroupedExperts);  // first the counts, then the slot that comes next
  GPU_SHARED(i32, first_slot, kMaxGroupedExperts + 1);
  GPU_SHARED(i32, first_tile, kMaxGroupedExperts + 1);
  const i32 thread = static_cast<i32>(thread_index()), threads = static_cast<i32>(block_size());
  for (i32 e = thread; e < a.experts; e += threads) next[e] = 0;
  barrier();
  for (i32 s = thread; s < a.slots; s += threads) {
    const i64 expert = checked_position(a.check, a.ids[s]);
    if (expert >= 0) {
      atomic_increment(&next[expert]);
    } else {
      for (i32 row = 0; row < a.rows; ++row) a.y[static_cast<i64>(s) * a.rows + row] = 0;
    }
  }
  barrier();
  if (thread == 0) {
    i32 slots = 0, tiles = 0;
    for (i32 e = 0; e < a.experts; ++e) {
      first_slot[e] = slots;
      first_tile[e] = tiles;
      slots += static_cast<i32>(next[e]);
      tiles += (static_cast<i32>(next[e]) + a.tile - 1) / a.tile;
    }
    first_slot[a.experts] = slots;
    first_tile[a.experts] = tiles;
  }
  barrier();
  for (i32 e = thread; e < a.experts; e += threads) {
    for (i32 tile = first_tile[e]; tile < first_tile[e + 1]; ++tile) {
      const i32 first = first_slot[e] + (tile - first_tile[e]) * a.tile;
      a.tiles[tile] = {e, first, min_of(a.tile, first_slot[e + 1] - first)};
    }
    next[e] = static_cast<u32>(first_slot[e]);
  }
  for (i32 tile = first_tile[a.experts] + thread; tile < a.most_tiles; tile += threads) a.tiles[tile] = {0, 0, 0};
  barrier();
  // The order within an expert changes no result.
  for (i32 s = thread; s < a.slots; s += threads) {
    const i64 expert = position_of(a.check, a.ids[s]);
    if (expert >= 0) a.order[atomic_increment(&next[expert])] = s;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(expert_route, 256, gabbro::gpu::ExpertRouteArgs, expert_route)
