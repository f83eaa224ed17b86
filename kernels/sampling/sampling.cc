// `sampling`: the token of each row by the steps of the host's sampler (src/engine/sampler.cc), a block per row.
#include "kernels/sampling/sampling.h"

#include "kernels/sampling/weighted_select.h"

namespace gabbro::gpu::GABBRO_GPU {

// Moves the cut to this item.
GPU_FUNCTION inline void cut_after(SampledRow& row, const FoundItem& last) {
  row.cut_key = last.order;
  row.cut_count = last.index() + 1;
}

// Lists the items, if they fit.
GPU_FUNCTION inline void list_items(SampledRow& row) {
  if (row.listed >= 0) return;
  barrier();  // all have read the count of an earlier call
  if (thread_index() == 0) *row.counter = 0;
  barrier();
  for_items(row, [&](float logit, i32 id) {
    if (logit != logit) return;
    const u32 key = order_of(logit);
    if (key < row.cut_key || (key == row.cut_key && row.cut_count == 0)) return;
    if (load_shared_result(row.counter) > static_cast<u32>(kListed)) return;  // they do not fit
    const u32 at = atomic_increment(row.counter);
    if (at >= static_cast<u32>(kListed)) return;
    row.values[at] = logit;
    row.ids[at] = id;
  });
  barrier();
  const u32 count = *row.counter;
  if (count <= static_cast<u32>(kListed)) row.listed = static_cast<i32>(count);
}

// The logits with bias and penalties; no product is fused with a sum, as on the host.
GPU_FUNCTION inline const float* edit_row(const SamplingArgs& a, i64 row, const RowSettings& s) {
  const float* x = a.logits + row * a.columns;
  if (a.edit_count == 0) return x;
  float* edited = a.edited + row * a.columns;
  for (i32 i = static_cast<i32>(thread_index()); i < a.columns; i += static_cast<i32>(block_size())) edited[i] = x[i];
  barrier();
  for (i32 i = static_cast<i32>(thread_index()); i < a.edit_count; i += static_cast<i32>(block_size())) {
    const LogitEdit edit = a.edits[row * a.edit_count + i];
    if (edit.token < 0 || edit.token >= a.columns) continue;
    float logit = x[edit.token] + a.bias[row * a.edit_count + i];
    if (edit.count != 0) {
      logit = logit > 0 ? logit / s.repeat_penalty : multiply(logit, s.repeat_penalty);
      logit -= multiply(static_cast<float>(edit.count), s.frequency_penalty) + s.presence_penalty;
    }
    edited[edit.token] = logit;
  }
  barrier();
  return edited;
}

// The largest logit and the lowest id that has it, as one number; 0 for none.
GPU_FUNCTION inline i64 find_largest(const SampledRow& row) {
  i64 best = 0;
  for (i32 i = static_cast<i32>(thread_index()); i < row.columns; i += static_cast<i32>(block_size())) {
    const float logit = row.x[i];
    const i64 candidate = static_cast<i64>(order_of(logit)) << 31 | (0x7fffffff - i);
    if (logit == logit) best = max_of(best, candidate);
  }
  best = wave_max(best);
  if (lane() == 0) row.parts[wave_index()] = best;
  barrier();
  for (u32 wave = 0; wave < block_size() / kWave; ++wave) best = max_of(best, row.parts[wave]);
  barrier();
  return best;
}

struct Drawn {
  i32 token;
  float log_probability, draw_margin, cut_margin;
};

// The distance of a sum from the ends of its item; another token is below it unless it is the first.
GPU_FUNCTION inline float margin_of(double sum, double before, const FoundItem& item) {
  const double above = before + static_cast<double>(item.weight) - sum;
  return static_cast<float>((before > 0 ? min_of(sum - before, above) : above) / static_cast<double>(item.total));
}

GPU_FUNCTION inline i32 token_of(SampledRow& row, const FoundItem& item) {
  const Search rank{.counts = true, .by_id = true, .only_key = item.order, .number = static_cast<double>(item.index())};
  return static_cast<i32>(~find(row, rank).order);
}

GPU_FUNCTION inline Drawn draw(SampledRow& row, const RowSettings& s, double u) {
  Drawn drawn{-1, 0, 1, 1};
  const bool by_count = s.top_k > 0 && s.top_k < static_cast<float>(row.columns), by_mass = s.top_p < 1;
  if (by_count) {
    const FoundItem last = find(row, {.counts = true, .number = static_cast<double>(s.top_k) - 1});
    if (last.is_found) cut_after(row, last);
    list_items(row);
  }
  if (by_mass) {
    const FoundItem last = find(row, {.target = Search::kReach, .number = static_cast<double>(s.top_p)});
    if (last.is_found) {
      cut_after(row, last);
      const double p = static_cast<double>(s.top_p) * static_cast<double>(last.total);
      const double before = static_cast<double>(last.above + last.index() * last.weight);
      drawn.cut_margin = margin_of(p, before, last);
    }
  }
  const float least = row.largest + s.log_min_p;  // of min_p
  if (order_of(least) > row.cut_key) {
    row.cut_key = order_of(least) - 1;
    row.cut_count = 0;
  }
  const bool is_ordered = by_count || by_mass;
  if (is_ordered || row.cut_key != kLowestKey) list_items(row);
  const Search search{.temperature = s.temperature, .by_id = !is_ordered, .target = Search::kPass, .number = u};
  const FoundItem item = find(row, search);
  drawn.token = is_ordered ? token_of(row, item) : static_cast<i32>(~item.order);
  const double total = static_cast<double>(item.total), at = u * total;
  const double before = static_cast<double>(item.above + item.index() * item.weight);
  drawn.draw_margin = margin_of(at, before, item);
  drawn.log_probability = log(static_cast<float>(static_cast<double>(item.weight) / total));
  return drawn;
}

GPU_FUNCTION inline void sampling(const SamplingArgs& a) {
  GPU_SHARED(u32, low_words, kBins);
  GPU_SHARED(u32, high_words, kBins);
  GPU_SHARED(float, values, kListed);
  GPU_SHARED(i32, ids, kListed);
  GPU_SHARED(i64, parts, kMaxWaves);
  GPU_SHARED(i64, crossing, 3);
  GPU_SHARED(u32, counter, 1);
  const i64 row_index = block_index().x;
  const RowSettings s = a.settings[row_index];
  SampledRow row{.x = edit_row(a, row_index, s),
                 .columns = a.columns,
                 .largest = 0,
                 .cut_key = kLowestKey,
                 .cut_count = 0,
                 .listed = -1,
                 .values = values,
                 .ids = ids,
                 .low_words = low_words,
                 .high_words = high_words,
                 .parts = parts,
                 .crossing = crossing,
                 .counter = counter};
  const i64 best = find_largest(row);
  const u32 key = static_cast<u32>(best >> 31);
  Drawn drawn{-1, 0, 1, 1};
  if (key > kLowestKey && s.temperature == 0) {
    drawn.token = static_cast<i32>(0x7fffffff - (best & 0x7fffffff));
  } else if (key > kLowestKey) {
    row.largest = bounded(value_of(key));
    const u32 low = a.draws[2 * row_index], high = a.draws[2 * row_index + 1];
    const u64 bits = static_cast<u64>(high) << 32 | low;
    drawn = draw(row, s, static_cast<double>(bits >> 11) * 0x1p-53);
  }
  if (thread_index() != 0) return;
  a.tokens[row_index] = drawn.token;
  a.measures[3 * row_index] = drawn.log_probability;
  a.measures[3 * row_index + 1] = drawn.draw_margin;
  a.measures[3 * row_index + 2] = drawn.cut_margin;
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(sampling, gabbro::gpu::kSamplingThreads, gabbro::gpu::SamplingArgs, sampling)
