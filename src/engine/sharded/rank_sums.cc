#include "src/engine/sharded/rank_sums.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/base/error.h"
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

RankSums::RankSums(std::vector<std::shared_ptr<Device>> devices)
    : devices_(std::move(devices)), partials_(devices_.size()), results_(devices_.size()) {
  const abi::Backend* const backend = devices_.front()->state().backend;
  const bool is_one_backend = std::ranges::all_of(
      devices_, [&](const std::shared_ptr<Device>& device) { return device->state().backend == backend; });
  if (is_one_backend && backend->create_group != nullptr) group_.emplace(devices_);
}

std::vector<Tensor> RankSums::sum_on_host(std::span<const Tensor> partials) const {
  std::vector<float> sum;
  for (const Tensor& partial : partials) {
    const std::vector<float> values = to_host<float>(cast(partial, DType::f32));
    if (sum.empty()) {
      sum = values;
    } else {
      std::ranges::transform(sum, values, sum.begin(), std::plus());
    }
  }
  std::vector<Tensor> sums;
  for (size_t rank = 0; rank < size(); ++rank) {
    const Tensor whole = devices_[rank]->upload(DType::f32, partials[rank].shape(), sum.data());
    sums.push_back(cast(whole, partials[rank].dtype()));
  }
  return sums;
}

std::shared_ptr<llm::RankSum> RankSums::of(size_t rank) { return std::make_shared<OfRank>(*this, rank); }

void RankSums::begin(const std::atomic<bool>* cancel) {
  const std::lock_guard lock(mutex_);
  cancel_ = cancel;
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
}

Tensor RankSums::sum(size_t rank, const Tensor& partial, std::span<const Tensor> needed) {
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
    results_ = group_ ? group_->all_reduce(all) : sum_on_host(all);
    ++sums_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return gives_up_ || sums_ > before; });
    if (sums_ == before) stop_if_given_up();
  }
  return std::exchange(results_[rank], Tensor());
}

}  // namespace gabbro::sharded
