// `sampling`: the token of each row, as the host's sampler finds it (src/engine/sampler.cc), but without a list of the
// whole vocabulary and without sorting it. A row is sampled by one worker.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "backends/common/sampling_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
constexpr int64_t kBlock = 256;  // elements whose exponentials are summed in f32
constexpr int kBins = 2048;      // 1/64 wide in logits

struct Candidate {
  int32_t id;
  float logit;
  float probability;
};

bool before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

// The distance of a value from the ends of the item that has it; another token is below it unless it is the first.
double margin_of(double value, double before, double after) {
  return before > 0 ? std::min(std::abs(value - before), std::abs(after - value)) : std::abs(after - value);
}

struct Outcome {
  int32_t token;
  float log_probability = 0, draw_margin = 1, cut_margin = 1;
};

float largest_of(std::span<const float> x) {
  F32 highest[4] = {splat(-kInfinity), splat(-kInfinity), splat(-kInfinity), splat(-kInfinity)};
  for_vectors(std::ssize(x), [&](int64_t i, int count, int k) {  // a NaN in the first operand gives the second
    highest[k] = max(only_first(load_some(x.data() + i, count), count, -kInfinity), highest[k]);
  });
  return reduce_max(max(max(highest[0], highest[1]), max(highest[2], highest[3])));
}

// visit(i) for each index whose logit is above *threshold, which `visit` may raise, in order.
template <class Visit>
void visit_above(std::span<const float> x, const float* threshold, Visit visit) {
  const int64_t size = std::ssize(x);
  int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    const F32 limit = splat(*threshold);
    const float* const p = x.data() + i;
    const Mask above = (limit < load(p)) | (limit < load(p + kLanes)) | (limit < load(p + 2 * kLanes)) |
                       (limit < load(p + 3 * kLanes));
    if (!any(above)) continue;
    for (int64_t j = i; j < i + 4 * kLanes; ++j) {
      if (x[static_cast<size_t>(j)] > *threshold) visit(j);
    }
  }
  for (; i < size; ++i) {
    if (x[static_cast<size_t>(i)] > *threshold) visit(i);
  }
}

// exp((x - largest) / temperature) of one block of the row, summed.
double sum_of_block(std::span<const float> x, int64_t begin, float largest, float temperature) {
  F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  for_vectors(std::min(kBlock, std::ssize(x) - begin), [&](int64_t i, int count, int k) {
    const F32 logit = load_some(x.data() + begin + i, count);
    const F32 distance = (min(splat(kLargest), logit) - splat(largest)) / splat(temperature);
    const F32 weight = zero_unless(splat(-kInfinity) < logit, exp_of_nonpositive(distance));  // NaN and -inf have none
    sums[k] += only_first(weight, count, 0);
  });
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

class Row {
 public:
  // `items` has room for all of `logits`, `bins` for kBins numbers.
  Row(std::span<const float> logits, Candidate* items, double* bins, const abi::SamplingSettings& settings, double draw)
      : x_(logits), items_(items), bins_(bins), settings_(settings), draw_(draw) {}

  Outcome sample() {
    const float largest = largest_of(x_);
    if (largest == -kInfinity) return {-1};
    if (settings_.temperature == 0) return {first_of(largest)};
    largest_ = std::min(largest, kLargest);
    const auto columns = static_cast<float>(x_.size());
    const bool by_count = settings_.top_k > 0 && settings_.top_k < columns, by_mass = settings_.top_p < 1;
    const float least = largest_ + settings_.log_min_p;  // of min_p
    if (!by_count && !by_mass) {
      if (settings_.log_min_p == -kInfinity) return draw_from_all();
      gather_from(least);
      return draw_by_id();
    }
    if (by_count) gather_top(static_cast<int64_t>(settings_.top_k));
    if (by_mass) cut_mass(by_count ? sum_of_items() : gather_mass());
    count_ = std::partition(items_, items_ + count_, [&](const Candidate& c) { return c.logit >= least; }) - items_;
    return draw_by_logit();
  }

 private:
  int32_t first_of(float largest) const {
    const float* const p = std::find(x_.data(), x_.data() + x_.size(), largest);
    return static_cast<int32_t>(p - x_.data());
  }

  void add(int64_t i) {
    items_[count_++] = {static_cast<int32_t>(i), std::min(x_[static_cast<size_t>(i)], kLargest), 0};
  }

  // Logits from `least` on, by id.
  void gather_from(float least) {
    const float below = std::nextafter(least, -kInfinity);
    count_ = 0;
    visit_above(x_, &below, [&](int64_t i) { add(i); });
  }

  // The first `wanted`. Twice as many are gathered before the later half is dropped.
  void gather_top(int64_t wanted) {
    const int64_t room = 2 * wanted + 64;
    float threshold = -kInfinity;
    visit_above(x_, &threshold, [&](int64_t i) {
      add(i);
      if (count_ < room) return;
      std::nth_element(items_, items_ + wanted - 1, items_ + count_, before);
      count_ = wanted;
      threshold = items_[count_ - 1].logit;
    });
    const int64_t kept = std::min(wanted, count_);
    std::nth_element(items_, items_ + kept - 1, items_ + count_, before);
    count_ = kept;
  }

  double sum_of_items() const {
    double sum = 0;
    for (int64_t i = 0; i < count_; ++i) sum += std::exp(items_[i].logit - largest_);
    return sum;
  }

  // Items that have top_p of the probability of all logits, whose sum is returned: mostly few, with logits near the
  // largest.
  double gather_mass() {
    double sum = 0;
    for (int64_t begin = 0; begin < std::ssize(x_); begin += kBlock) sum += sum_of_block(x_, begin, largest_, 1);
    for (float depth = 4;; depth *= 2) {
      const bool all = depth > 64;
      const float threshold = all ? -kInfinity : largest_ - depth;
      count_ = 0;
      visit_above(x_, &threshold, [&](int64_t i) { add(i); });
      if (all || sum_of_items() > (settings_.top_p + 1e-4) * sum) return sum;
    }
  }

  // Puts the items before the one at which the sum of probabilities passes the target at the beginning, and that one
  // after them; no other is sorted. `passes(sum)` is false, then true. Returns its index and the sum before it, or
  // count_ and the sum of all.
  template <class Passes>
  std::pair<int64_t, double> find_passing(Passes passes) {
    const auto bin_of = [&](const Candidate& c) {
      return static_cast<int>(std::min((largest_ - c.logit) * 64, static_cast<float>(kBins - 1)));
    };
    std::fill_n(bins_, kBins, 0.0);
    for (int64_t i = 0; i < count_; ++i) bins_[bin_of(items_[i])] += items_[i].probability;
    int bin = 0;
    double sum = 0;
    while (bin < kBins && !passes(sum + bins_[bin])) sum += bins_[bin++];
    if (bin == kBins) return {count_, sum};
    Candidate* const end = items_ + count_;
    Candidate* const first = std::partition(items_, end, [&](const Candidate& c) { return bin_of(c) < bin; });
    Candidate* const last = std::partition(first, end, [&](const Candidate& c) { return bin_of(c) == bin; });
    std::sort(first, last, before);
    Candidate* item = first;
    for (; item + 1 < last && !passes(sum + item->probability); ++item) sum += item->probability;
    return {item - items_, sum};
  }

  void cut_mass(double total) {
    const auto scale = static_cast<float>(1.0 / total);
    const double p = settings_.top_p;
    for (int64_t i = 0; i < count_; ++i) items_[i].probability = std::exp(items_[i].logit - largest_) * scale;
    const auto [index, sum] = find_passing([&](double with) { return with >= p; });
    if (index == count_) return;
    cut_margin_ = static_cast<float>(margin_of(p, sum, sum + items_[index].probability));
    count_ = index + 1;
  }

  void set_probabilities() {
    double sum = 0;
    for (int64_t i = 0; i < count_; ++i) {
      items_[i].probability = std::exp((items_[i].logit - largest_) / settings_.temperature);
      sum += items_[i].probability;
    }
    const auto scale = static_cast<float>(1.0 / sum);
    for (int64_t i = 0; i < count_; ++i) items_[i].probability *= scale;
  }

  Outcome draw_by_logit() {
    set_probabilities();
    auto [index, sum] = find_passing([&](double with) { return with > draw_; });
    if (index == count_) {  // rounding left a sliver: the first one takes it
      const Candidate& first = *std::min_element(items_, items_ + count_, before);
      return chosen(first.id, first.probability, 0);
    }
    const Candidate& item = items_[index];
    return chosen(item.id, item.probability, margin_of(draw_, sum, sum + item.probability));
  }

  Outcome draw_by_id() {
    set_probabilities();
    double sum = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const double with = sum + items_[i].probability;
      if (with > draw_) return chosen(items_[i].id, items_[i].probability, margin_of(draw_, sum, with));
      sum = with;
    }
    return chosen(items_[0].id, items_[0].probability, 0);
  }

  Outcome draw_from_all() {
    double total = 0;
    for (int64_t begin = 0; begin < std::ssize(x_); begin += kBlock)
      total += sum_of_block(x_, begin, largest_, settings_.temperature);
    const auto scale = static_cast<float>(1.0 / total);
    double sum = 0;
    for (int64_t begin = 0; begin < std::ssize(x_); begin += kBlock) {
      const double block = sum_of_block(x_, begin, largest_, settings_.temperature) * scale;
      if (sum + block <= draw_) {
        sum += block;
        continue;
      }
      for (int64_t i = begin; i < std::min(begin + kBlock, std::ssize(x_)); ++i) {
        const float logit = std::min(x_[static_cast<size_t>(i)], kLargest);
        if (!(logit > -kInfinity)) continue;
        const float probability = std::exp((logit - largest_) / settings_.temperature) * scale;
        const double with = sum + probability;
        if (with > draw_) return chosen(static_cast<int32_t>(i), probability, margin_of(draw_, sum, with));
        sum = with;
      }
    }
    return chosen(first_of(largest_of(x_)), scale, 0);
  }

  Outcome chosen(int32_t token, float probability, double margin) const {
    return {token, std::log(probability), static_cast<float>(margin), cut_margin_};
  }

  std::span<const float> x_;
  Candidate* items_;
  double* bins_;
  const abi::SamplingSettings& settings_;
  double draw_;
  float largest_ = 0;
  int64_t count_ = 0;  // of items
  float cut_margin_ = 1;
};

class Sampling : public Kernel {
 public:
  Sampling(const abi::SamplingRequest& sampling, int workers) : sampling_(sampling) {
    scratch_bytes = static_cast<size_t>(workers) * row_scratch();
    implementation = "sampling";
    bytes = 4.0 * static_cast<double>(sampling.rows * sampling.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* logits = static_cast<const float*>(launch.inputs[0].data);
    std::byte* const scratch =
        static_cast<std::byte*>(launch.scratch) + static_cast<size_t>(worker.index()) * row_scratch();
    auto* const bins = reinterpret_cast<double*>(scratch);
    auto* const items = reinterpret_cast<Candidate*>(bins + kBins);
    auto* const edited = reinterpret_cast<float*>(items + sampling_.columns);
    worker.parallel_for(sampling_.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* const x = edit(launch, row, logits + row * sampling_.columns, edited);
        const auto* const words = static_cast<const uint32_t*>(launch.inputs[2].data) + 2 * row;
        const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
        const std::span all(x, static_cast<size_t>(sampling_.columns));
        const Outcome outcome =
            Row(all, items, bins, settings(launch, row), static_cast<double>(bits >> 11) * 0x1p-53).sample();
        static_cast<int32_t*>(launch.outputs[0].data)[row] = outcome.token;
        float* const measures = static_cast<float*>(launch.outputs[1].data) + 3 * row;
        measures[0] = outcome.log_probability;
        measures[1] = outcome.draw_margin;
        measures[2] = outcome.cut_margin;
      }
    });
  }

 private:
  size_t row_scratch() const {
    const size_t of_a_row = static_cast<size_t>(sampling_.columns) * (sizeof(Candidate) + sizeof(float));
    return kBins * sizeof(double) + (of_a_row + 63) / 64 * 64;
  }

  static const abi::SamplingSettings& settings(const abi::Launch& launch, int64_t row) {
    return static_cast<const abi::SamplingSettings*>(launch.inputs[1].data)[row];
  }

  // The logits with bias and penalties: `x`, or a copy.
  const float* edit(const abi::Launch& launch, int64_t row, const float* x, float* copy) const {
    if (sampling_.edits == 0) return x;
    const auto* const edits = static_cast<const abi::SamplingEdit*>(launch.inputs[3].data) + row * sampling_.edits;
    const auto* const bias = static_cast<const float*>(launch.inputs[4].data) + row * sampling_.edits;
    bool copied = false;
    for (int64_t i = 0; i < sampling_.edits; ++i) {
      const int32_t token = edits[i].token;
      if (token < 0 || token >= sampling_.columns) continue;
      if (!copied) std::copy_n(x, sampling_.columns, copy);
      copied = true;
      copy[token] = abi::edited_logit(copy[token], bias[i], edits[i].count, settings(launch, row));
    }
    return copied ? copy : x;
  }

  abi::SamplingRequest sampling_;
};

}  // namespace

KernelPointer make_sampling(const abi::KernelRequest& request, const MakeContext& context) {
  abi::SamplingRequest sampling;
  if (!read_sampling_request(request, sampling)) return nullptr;
  return std::make_unique<Sampling>(sampling, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
