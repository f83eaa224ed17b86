// Devices of one backend that compute one thing together, each as a rank. A group of one device is the identity: it
// needs no collectives of the backend, and computes nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/device.h"

namespace gabbro {

class Group {
 public:
  // Rank i is devices[i]. Throws bad_input for devices of several backends or a device that is there twice, and
  // failed() if the backend has no collectives between them.
  explicit Group(std::vector<std::shared_ptr<Device>> devices);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  size_t size() const { return devices_.size(); }
  const std::shared_ptr<Device>& device(size_t rank) const { return devices_[rank]; }

  // These take one contiguous tensor of each rank, all of one shape and dtype, and enqueue work on the compute streams.
  // Throw bad_input for other tensors.

  // The sum or maximum of all ranks, for each rank: f32, f16 or bf16, added up in f32 in the order of the ranks, so
  // that all ranks have the same bits.
  std::vector<Tensor> all_reduce(std::span<const Tensor> of_ranks,
                                 abi::Reduction reduction = abi::Reduction::kSum) const;
  // Sums inside of plans, by the op `rank_sum`: what it takes as `sums`; 0: these devices have none, and
  // no_rank_sums() says why, in one line.
  int64_t rank_sums() const { return rank_sums_; }
  const std::string& no_rank_sums() const { return no_rank_sums_; }
  // From any thread: such sums wait no longer for other ranks, and are undefined, until begin_rank_sums(), which waits
  // for the devices if that has happened.
  void stop_rank_sums() const;
  void begin_rank_sums() const;
  // The rank whose share of a sum has not come in time.
  std::optional<size_t> late_rank() const;

  // [ranks · N, ...] of tensors [N, ...], in the order of the ranks, for each rank.
  std::vector<Tensor> all_gather(std::span<const Tensor> of_ranks) const;

 private:
  void require(const char* collective, std::span<const Tensor> of_ranks) const;

  std::vector<std::shared_ptr<Device>> devices_;
  const abi::Backend* backend_ = nullptr;
  abi::Group* group_ = nullptr;  // null: one device
  int64_t rank_sums_ = 0;
  std::string no_rank_sums_;
};

}  // namespace gabbro
