// Devices of one backend that compute one thing together, each as a rank. A group of one device is the identity: it
// needs no collectives of the backend, and computes nothing.
#pragma once

#include <memory>
#include <span>
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
  // [ranks · N, ...] of tensors [N, ...], in the order of the ranks, for each rank.
  std::vector<Tensor> all_gather(std::span<const Tensor> of_ranks) const;

 private:
  void require(const char* collective, std::span<const Tensor> of_ranks) const;

  std::vector<std::shared_ptr<Device>> devices_;
  const abi::Backend* backend_ = nullptr;
  abi::Group* group_ = nullptr;  // null: one device
};

}  // namespace gabbro
