// The part of a model's tensors that one of several devices holds, and the sum of what the devices compute with their
// parts. The cuts are pure functions of lengths and shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/tensor/tensor.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// Cuts [0, length) into a range for each share, in their order, none empty. The ranges begin at multiples of `unit`,
// or anywhere if there are fewer units than shares. Throws bad_input if `length` is less than the number of shares.
std::vector<IndexRange> cut(int64_t length, int64_t unit, std::span<const double> shares);

// Query heads and the KV heads that they read.
struct HeadRange {
  IndexRange heads, kv_heads;
};

// Whether `heads` query heads with `kv_heads` KV heads can be cut for that number of devices. Each device has whole
// groups of query heads with their KV heads, or a part of one group, whose KV head several devices hold.
bool heads_fit(int64_t heads, int64_t kv_heads, size_t devices);
// Throws bad_input that lists the numbers of devices that fit.
std::vector<HeadRange> cut_heads(int64_t heads, int64_t kv_heads, std::span<const double> shares);

// The sum over all devices, which each of them calls in the same order.
class RankSum {
 public:
  virtual ~RankSum() = default;
  // The sum of `partial` of all ranks, which has the same shape on each of them, added up in f32 in the order of the
  // ranks: all ranks get the same bits. `needed` are computed along with `partial`, for what reads them later.
  virtual Tensor operator()(const Tensor& partial, std::span<const Tensor> needed = {}) = 0;
};

struct TensorShard {
  size_t rank = 0;
  std::vector<double> shares;  // by rank
  std::shared_ptr<RankSum> sum;

  size_t ranks() const { return shares.size(); }
  IndexRange part(int64_t length, int64_t unit) const { return cut(length, unit, shares)[rank]; }
  HeadRange part_of_heads(int64_t heads, int64_t kv_heads) const { return cut_heads(heads, kv_heads, shares)[rank]; }
  IndexRange part_of_vocabulary(int64_t vocabulary) const;
};

}  // namespace gabbro::llm
