#include "src/models/weights/tensor_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gabbro/backend_abi.h"
#include "src/base/error.h"

namespace gabbro::llm {
namespace {

// The ends of the shares of `units`, each with one unit at least.
std::vector<int64_t> ends_of(int64_t units, std::span<const double> shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const int64_t count = std::ssize(shares);
  std::vector<int64_t> ends;
  double sum = 0;
  int64_t before = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += shares[static_cast<size_t>(i)];
    const auto wanted = static_cast<int64_t>(std::llround(sum / all * static_cast<double>(units)));
    before = i + 1 == count ? units : std::clamp(wanted, before + 1, units - (count - 1 - i));
    ends.push_back(before);
  }
  return ends;
}

// The devices of each group of query heads, if there are more devices than groups: consecutive ranks, evenly.
int64_t devices_of_group(int64_t group, int64_t groups, int64_t devices) {
  return (group + 1) * devices / groups - group * devices / groups;
}

std::string counts_that_fit(int64_t heads, int64_t kv_heads) {
  constexpr size_t kMost = 16;  // devices of one host
  std::string counts;
  for (size_t n = 1; n <= kMost; ++n) {
    if (heads_fit(heads, kv_heads, n)) counts += (counts.empty() ? "" : ", ") + std::to_string(n);
  }
  return counts;
}

}  // namespace

std::vector<IndexRange> cut(int64_t length, int64_t unit, std::span<const double> shares) {
  const int64_t count = std::ssize(shares);
  if (length < count) throw bad_input("a tensor with a length of {} cannot be cut for {} devices", length, count);
  const int64_t step = (length + unit - 1) / unit >= count ? unit : 1;
  std::vector<IndexRange> ranges;
  int64_t first = 0;
  for (const int64_t end : ends_of((length + step - 1) / step, shares)) {
    const int64_t next = std::min(end * step, length);
    ranges.push_back({first, next - first});
    first = next;
  }
  return ranges;
}

bool heads_fit(int64_t heads, int64_t kv_heads, size_t devices) {
  const auto n = static_cast<int64_t>(devices);
  if (kv_heads < 1 || heads % kv_heads != 0) return false;
  if (n <= kv_heads) return true;
  for (int64_t group = 0; group < kv_heads; ++group) {
    if (devices_of_group(group, kv_heads, n) > heads / kv_heads) return false;
  }
  return true;
}

std::vector<HeadRange> cut_heads(int64_t heads, int64_t kv_heads, std::span<const double> shares) {
  const int64_t n = std::ssize(shares);
  if (!heads_fit(heads, kv_heads, shares.size())) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} heads with {} KV heads cannot be split over {} devices", heads, kv_heads, n),
                "these numbers of devices fit: " + counts_that_fit(heads, kv_heads));
  }
  const int64_t per_group = heads / kv_heads;
  std::vector<HeadRange> ranges;
  if (n <= kv_heads) {
    for (const IndexRange& part : cut(kv_heads, 1, shares))
      ranges.push_back({.heads = {part.first * per_group, part.count * per_group}, .kv_heads = part});
    return ranges;
  }
  for (int64_t group = 0; group < kv_heads; ++group) {
    const auto members = static_cast<size_t>(devices_of_group(group, kv_heads, n));
    for (const IndexRange& part : cut(per_group, 1, shares.subspan(ranges.size(), members)))
      ranges.push_back({.heads = {group * per_group + part.first, part.count}, .kv_heads = {group, 1}});
  }
  return ranges;
}

IndexRange TensorShard::part_of_vocabulary(int64_t vocabulary) const { return part(vocabulary, abi::kPackRows); }

}  // namespace gabbro::llm
