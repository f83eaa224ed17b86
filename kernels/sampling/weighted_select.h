// Finds the item of a row at which a running sum of weights passes a target, without sorting the row. Items are in
// falling order of their logits, equal ones by rising id; or all by rising id. A histogram of the weights over an
// interval of this order tells in which of its bins the item is; that bin is the next interval, until a bin has one
// value. Weights are whole numbers, so that sums do not depend on the order of additions.
#pragma once

#include "kernels/rows/sort_keys.h"
#include "kernels/sampling/sampling.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kBins = 2 * kSamplingThreads;
inline constexpr i32 kListed = 2048;  // items of a row that fit in the block's memory
inline constexpr float kUnit =
    0x1p44f;  // the weight of the largest logit; the weights of 2^18 tokens sum to less than 2^63
inline constexpr float kLargestFloat = 3.4028235e38f;
inline constexpr u32 kLowestKey = 0x007fffff;  // order_of(-inf)

// The largest finite number for +inf.
GPU_FUNCTION inline float bounded(float logit) { return logit > kLargestFloat ? kLargestFloat : logit; }
// order_of() reversed, for numbers.
GPU_FUNCTION inline float value_of(u32 key) {
  return bits_to_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
}

// One row, and the block's memory. Every thread has the same values.
struct SampledRow {
  const float* x;
  i32 columns;
  float largest;    // bounded
  u32 cut_key;      // items after the cut play no part: those with a smaller key, and of the equal ones all but the
  i64 cut_count;    // first cut_count
  i32 listed;       // -1: all of x
  float* values;    // [kListed], if listed: items up to the cut, and all that are equal to the last one
  i32* ids;         // [kListed]
  u32* low_words;   // [kBins], of the histogram
  u32* high_words;  // [kBins]
  i64* parts;       // [kMaxWaves]
  i64* crossing;    // [3]
  u32* counter;     // [1]
};

// visit(logit, id) for this thread's share of the items, and of others; NaN for none.
template <class Visit>
GPU_FUNCTION inline void for_items(const SampledRow& row, Visit visit) {
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  if (row.listed >= 0) {
    for (i32 i = first; i < row.listed; i += step) visit(row.values[i], row.ids[i]);
    return;
  }
  if (row.columns % 4 != 0 || reinterpret_cast<u64>(row.x) % 16 != 0) {
    for (i32 i = first; i < row.columns; i += step) visit(bounded(row.x[i]), i);
    return;
  }
  constexpr i32 kTogether = 4;  // loads in flight
  for (i32 vector = first; vector < row.columns / 4; vector += kTogether * step) {
    Vec16 loaded[kTogether];
#pragma unroll
    for (i32 n = 0; n < kTogether; ++n) {
      const i32 at = vector + n * step;
      loaded[n] = at < row.columns / 4 ? load_vec16(row.x + 4 * at) : Vec16{~0u, ~0u, ~0u, ~0u};  // NaN
    }
#pragma unroll
    for (i32 n = 0; n < kTogether; ++n) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i) visit(bounded(bits_to_float(loaded[n].word[i])), 4 * (vector + n * step) + i);
    }
  }
}

// The weights of a search, and the target.
struct Search {
  enum Target { kNumber, kReach, kPass };

  bool counts = false;  // the weight of each item is 1, not exp((logit - largest) / temperature)
  float temperature = 1;
  bool by_id = false;
  u32 only_key = 0;         // by_id: only the items with this key; 0: all
  Target target = kNumber;  // the sum is to be above `number`, reach that part of the total, or be above that part
  double number = 0;

  GPU_FUNCTION i64 weight(float logit, float largest) const {
    return counts ? 1 : static_cast<i64>(exp((logit - largest) / temperature) * kUnit);
  }
  GPU_FUNCTION i64 passed(i64 total) const {
    if (target == kNumber) return static_cast<i64>(number);
    const double part = number * static_cast<double>(total);
    auto whole = static_cast<i64>(part);
    if (target == kReach && static_cast<double>(whole) == part) --whole;
    return max_of<i64>(0, min_of(whole, total - 1));
  }
};

struct FoundItem {
  bool is_found;
  u32 order;     // its key, or ~id
  i64 above;     // the weights before it and its equals
  i64 weight;    // its own
  i64 together;  // of it and its equals
  i64 total;     // of all items
  i64 target;
  // Its place among its equals.
  GPU_FUNCTION i64 index() const { return (target - above) / weight; }
};

// An interval of the order; or the first level, whose bins are 1/64 wide in logits, so that few threads meet in one.
struct Interval {
  static constexpr float kBinsPerLogit = 64;

  bool is_linear;
  i32 linear_bin;  // -1: any
  u32 low, high;
  u32 shift;

  GPU_FUNCTION static i32 linear_bin_of(float logit, float largest) {
    return static_cast<i32>(min_of((largest - logit) * kBinsPerLogit, static_cast<float>(kBins - 1)));
  }
  GPU_FUNCTION void narrow(u32 from, u32 to) {
    low = from;
    high = to;
    shift = 0;
    while ((high - low) >> shift >= kBins) ++shift;
  }
  GPU_FUNCTION void enter(i32 bin, float largest) {
    if (is_linear) {
      is_linear = false;
      linear_bin = bin;
      // One bin more on both sides, for what is rounded.
      const float top = largest - static_cast<float>(bin - 1) / kBinsPerLogit;
      const float bottom = largest - static_cast<float>(bin + 2) / kBinsPerLogit;
      narrow(bin + 1 == static_cast<i32>(kBins) ? kLowestKey : order_of(bottom), order_of(bin == 0 ? largest : top));
      return;
    }
    const u32 to = high - (static_cast<u32>(bin) << shift), width = (1u << shift) - 1;
    narrow(to - low > width ? to - width : low, to);
  }
};

GPU_FUNCTION inline void add_weight(const SampledRow& row, u32 bin, i64 weight) {
  const u32 low = static_cast<u32>(weight);
  u32 high = static_cast<u32>(weight >> 32);
  if (low != 0 && atomic_add(&row.low_words[bin], low) + low < low) ++high;
  if (high != 0) atomic_add(&row.high_words[bin], high);
}

GPU_FUNCTION inline void fill_histogram(const SampledRow& row, const Search& search, const Interval& interval) {
  for (u32 bin = thread_index(); bin < kBins; bin += block_size()) row.low_words[bin] = row.high_words[bin] = 0;
  barrier();
  const auto add = [&](float logit, u32 order, i64 times) {
    if (interval.is_linear) {
      const i64 weight = times * search.weight(logit, row.largest);
      add_weight(row, static_cast<u32>(Interval::linear_bin_of(logit, row.largest)), weight);
      return;
    }
    if (order < interval.low || order > interval.high) return;
    if (interval.linear_bin >= 0 && Interval::linear_bin_of(logit, row.largest) != interval.linear_bin) return;
    add_weight(row, (interval.high - order) >> interval.shift, times * search.weight(logit, row.largest));
  };
  for_items(row, [&](float logit, i32 id) {
    if (logit != logit) return;
    const u32 key = order_of(logit);
    if (search.only_key != 0 ? key != search.only_key : key <= row.cut_key) return;
    add(logit, search.by_id ? ~static_cast<u32>(id) : key, 1);
  });
  if (thread_index() == 0 && !search.by_id && row.cut_count > 0) add(value_of(row.cut_key), row.cut_key, row.cut_count);
  barrier();
}

// In the first search of an interval it sets found.total and found.target. Returns the bin in which the sum passes the
// target, whose weight is found.together; or -1.
GPU_FUNCTION inline i32 find_bin(const SampledRow& row, const Search& search, bool is_first, FoundItem& found) {
  const u32 bin = 2 * thread_index();
  const auto weight_of = [&](u32 b) { return static_cast<i64>(row.high_words[b]) << 32 | row.low_words[b]; };
  const i64 left = weight_of(bin), own = left + weight_of(bin + 1);
  i64 sum = own;  // of this lane and those before
  for (u32 step = 1; step < kWave; step *= 2) {
    const i64 other = shuffle(sum, (lane() + kWave - step) % kWave);
    if (lane() >= step) sum += other;
  }
  if (lane() == kWave - 1) row.parts[wave_index()] = sum;
  barrier();
  i64 before = sum - own, total = 0;
  for (u32 wave = 0; wave < block_size() / kWave; ++wave) {
    if (wave < wave_index()) before += row.parts[wave];
    total += row.parts[wave];
  }
  if (is_first) {
    found.total = total;
    found.target = search.passed(total);
    if (found.target >= total) return -1;
  }
  const i64 rest = found.target - found.above;
  if (before <= rest && rest < before + own) {
    const bool is_left = rest < before + left;
    row.crossing[0] = static_cast<i64>(bin) + (is_left ? 0 : 1);
    row.crossing[1] = is_left ? before : before + left;
    row.crossing[2] = is_left ? left : own - left;
  }
  barrier();
  found.above += row.crossing[1];
  found.together = row.crossing[2];
  return static_cast<i32>(row.crossing[0]);
}

GPU_FUNCTION inline FoundItem find(const SampledRow& row, const Search& search) {
  FoundItem found{};
  Interval interval{};
  interval.is_linear = !search.by_id;
  interval.linear_bin = -1;
  if (search.by_id) interval.narrow(~static_cast<u32>(row.columns - 1), ~0u);
  for (bool is_first = true;; is_first = false) {
    fill_histogram(row, search, interval);
    const i32 bin = find_bin(row, search, is_first, found);
    if (bin < 0) return found;
    if (!interval.is_linear && interval.shift == 0) {
      found.order = interval.high - static_cast<u32>(bin);
      break;
    }
    interval.enter(bin, row.largest);
  }
  found.is_found = true;
  found.weight = search.by_id ? found.together : search.weight(value_of(found.order), row.largest);
  return found;
}

}  // namespace gabbro::gpu::GABBRO_GPU
