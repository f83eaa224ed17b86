// Sums over the devices of a tensor split: each device's thread computes its partial result and waits until all have
// come so far; then the sum is enqueued on all devices.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/backend/group.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::sharded {

class RankSums {
 public:
  explicit RankSums(std::vector<std::shared_ptr<Device>> devices);

  size_t size() const { return group_.size(); }
  // The sum as rank `rank` calls it. The object lives as long as this one.
  std::shared_ptr<llm::RankSum> of(size_t rank);

  // Before a pass. What is evaluated ends with kInterrupted when `cancel` becomes true.
  void begin(const std::atomic<bool>* cancel);
  // Ends the waits for the others, which throw, until begin().
  void give_up();

 private:
  class OfRank;

  Tensor sum(size_t rank, const Tensor& partial);

  Group group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::atomic<bool>* cancel_ = nullptr;
  bool gives_up_ = false;
  uint64_t sums_ = 0;  // that are done
  size_t arrived_ = 0;
  std::vector<Tensor> partials_, results_;  // by rank
};

}  // namespace gabbro::sharded
