#include "src/engine/sharded/rank_sums.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/backend/stream.h"
#include "src/base/error.h"
#include "src/base/split_patience.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::sharded {

class RankSums::OfRank final : public llm::RankSum {
 public:
  OfRank(RankSums& sums, size_t rank) : sums_(sums), rank_(rank) {}
  Tensor operator()(const Tensor& partial, std::span<const Tensor> needed) override {
    return sums_.sum(rank_, partial, needed);
  }

 private:
  RankSums& sums_;
  size_t rank_;
};

namespace {

std::vector<RankWatch::Rank> watched(std::span<const std::shared_ptr<Device>> devices) {
  std::vector<RankWatch::Rank> ranks;
  for (const std::shared_ptr<Device>& device : devices)
    ranks.push_back({.name = device->facts().id, .is_watched = device->facts().wave_size > 1});
  return ranks;
}

}  // namespace

RankSums::RankSums(std::vector<std::shared_ptr<Device>> devices)
    : devices_(std::move(devices)),
      watch_(watched(devices_), split_patience(RankWatch::kPatience)),
      partials_(devices_.size()),
      results_(devices_.size()) {
  const abi::Backend* const backend = devices_.front()->state().backend;
  const bool is_one_backend = std::ranges::all_of(
      devices_, [&](const std::shared_ptr<Device>& device) { return device->state().backend == backend; });
  if (!is_one_backend || backend->create_group == nullptr) {
    through_host_ = "there are no collectives between them";
    return;
  }
  try {
    group_.emplace(devices_);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    through_host_ = error.what();
  }
}

std::string RankSums::late_device() const {
  const std::optional<size_t> rank = group_ ? group_->late_rank() : std::nullopt;
  return rank ? devices_[*rank]->facts().id : "";
}

// Computed by the thread of `rank`.
std::vector<Tensor> RankSums::sum_on_host(size_t rank, std::span<const Tensor> partials) {
  std::vector<float> sum;
  for (size_t i = 0; i < partials.size(); ++i) {
    const Tensor& partial = partials[i];
    watch_.waits_for_device(rank, i);
    devices_[i]->state().compute_stream(*devices_[i]).synchronize(cancel_);
    const std::vector<float> values = to_host<float>(cast(partial, DType::f32));
    if (sum.empty()) {
      sum = values;
    } else {
      std::ranges::transform(sum, values, sum.begin(), std::plus());
    }
  }
  std::vector<Tensor> sums;
  for (size_t i = 0; i < size(); ++i) {
    watch_.waits_for_device(rank, i);
    const Tensor whole = devices_[i]->upload(DType::f32, partials[i].shape(), sum.data());
    sums.push_back(cast(whole, partials[i].dtype()));
  }
  return sums;
}

std::shared_ptr<llm::RankSum> RankSums::of(size_t rank) { return std::make_shared<OfRank>(*this, rank); }

void RankSums::begin(const std::atomic<bool>* cancel) {
  if (group_) group_->begin_rank_sums();
  const std::lock_guard lock(mutex_);
  cancel_ = cancel;
  watch_.begin();
  gives_up_ = false;
  arrived_ = 0;
  partials_.assign(size(), Tensor());
  results_.assign(size(), Tensor());
}

void RankSums::give_up() {
  {
    const std::lock_guard lock(mutex_);
    gives_up_ = true;
  }
  changed_.notify_all();
  if (group_) group_->stop_rank_sums();
}

Tensor RankSums::sum(size_t rank, const Tensor& partial, std::span<const Tensor> needed) {
  if (are_in_plans()) return rank_sum(partial, group_->rank_sums(), rank);
  std::vector<Tensor> values(needed.begin(), needed.end());
  values.push_back(partial);
  eval(values, cancel_);
  std::unique_lock lock(mutex_);
  const auto stop_if_given_up = [&] {
    if (gives_up_) throw failed("{}: another device of the model has failed", devices_[rank]->facts().id);
  };
  stop_if_given_up();
  const uint64_t before = sums_;
  partials_[rank] = partial;
  if (++arrived_ == size()) {
    arrived_ = 0;
    const std::vector<Tensor> all = std::exchange(partials_, std::vector<Tensor>(size()));
    lock.unlock();  // the others wait for the result
    std::vector<Tensor> results = group_ ? group_->all_reduce(all) : sum_on_host(rank, all);
    lock.lock();
    results_ = std::move(results);
    ++sums_;
    watch_.begin();
    changed_.notify_all();
  } else {
    watch_.waits_for_others(rank);
    changed_.wait(lock, [&] { return gives_up_ || sums_ > before; });
    if (sums_ == before) stop_if_given_up();
  }
  return std::exchange(results_[rank], Tensor());
}

// With sums in plans the device computes a whole step meanwhile, however long that is: its kernels notice a peer that
// is late, and the watch a device that is behind the others.
void RankSums::finish(size_t rank) {
  if (!are_in_plans()) watch_.waits_for_device(rank, rank);
  devices_[rank]->state().compute_stream(*devices_[rank]).synchronize(cancel_);
  has_waited(rank);
}

}  // namespace gabbro::sharded
