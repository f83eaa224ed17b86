// Sums over the devices of a tensor split. If the devices add up by themselves, the sum is a launch of each rank's
// plan. Else each device's thread computes its partial result and waits until all have come so far; then the sum is
// enqueued on all devices. Devices without collectives, such as devices of several backends, exchange through the
// host's memory: the bits are the same.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/group.h"
#include "src/engine/sharded/rank_watch.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::sharded {

class RankSums {
 public:
  explicit RankSums(std::vector<std::shared_ptr<Device>> devices);

  size_t size() const { return devices_.size(); }
  // The reason why sums go through the host's memory, in one line; empty: they do not.
  const std::string& through_host() const { return through_host_; }
  // Whether the sums are launches of the ranks' plans, which do not wait for the host.
  bool are_in_plans() const { return group_ && group_->rank_sums() != 0; }
  // The device whose share of a sum in a plan has not come; empty: none.
  std::string late_device() const;
  // The sum as rank `rank` calls it. The object lives as long as this one.
  std::shared_ptr<llm::RankSum> of(size_t rank);

  // To be called before a pass, whose evaluations and waits end with kInterrupted when `cancel` becomes true.
  void begin(const std::atomic<bool>* cancel);
  // Waits for the work of rank `rank`, at the end of a pass.
  void finish(size_t rank);
  // To be called before and after the ranks' threads wait for their devices, where the pass goes on without them.
  void begin_wait() { watch_.begin(); }
  void has_waited(size_t rank) { watch_.waits_for_others(rank); }
  const RankWatch& watch() const { return watch_; }
  // Ends the waits for the others, which throw, until begin().
  void give_up();

 private:
  class OfRank;

  Tensor sum(size_t rank, const Tensor& partial, std::span<const Tensor> needed);
  std::vector<Tensor> sum_on_host(size_t rank, std::span<const Tensor> partials);

  std::vector<std::shared_ptr<Device>> devices_;
  std::optional<Group> group_;
  std::string through_host_;
  RankWatch watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::atomic<bool>* cancel_ = nullptr;
  bool gives_up_ = false;
  uint64_t sums_ = 0;  // that are done
  size_t arrived_ = 0;
  std::vector<Tensor> partials_, results_;  // by rank
};

}  // namespace gabbro::sharded
