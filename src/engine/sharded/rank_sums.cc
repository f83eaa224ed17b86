#include "src/engine/sharded/rank_sums.h"

#include <utility>

#include "src/base/error.h"
#include "src/plan/eval.h"

namespace gabbro::sharded {

class RankSums::OfRank final : public llm::RankSum {
 public:
  OfRank(RankSums& sums, size_t rank) : sums_(sums), rank_(rank) {}
  Tensor operator()(const Tensor& partial) override { return sums_.sum(rank_, partial); }

 private:
  RankSums& sums_;
  size_t rank_;
};

RankSums::RankSums(std::vector<std::shared_ptr<Device>> devices) : group_(std::move(devices)) {
  partials_.resize(group_.size());
  results_.resize(group_.size());
}

std::shared_ptr<llm::RankSum> RankSums::of(size_t rank) { return std::make_shared<OfRank>(*this, rank); }

void RankSums::begin(const std::atomic<bool>* cancel) {
  const std::lock_guard lock(mutex_);
  cancel_ = cancel;
  gives_up_ = false;
  arrived_ = 0;
  partials_.assign(group_.size(), Tensor());
  results_.assign(group_.size(), Tensor());
}

void RankSums::give_up() {
  {
    const std::lock_guard lock(mutex_);
    gives_up_ = true;
  }
  changed_.notify_all();
}

Tensor RankSums::sum(size_t rank, const Tensor& partial) {
  eval(std::span(&partial, 1), cancel_);
  std::unique_lock lock(mutex_);
  const auto stop_if_given_up = [&] {
    if (gives_up_) throw failed("{}: another device of the model has failed", group_.device(rank)->facts().id);
  };
  stop_if_given_up();
  const uint64_t before = sums_;
  partials_[rank] = partial;
  if (++arrived_ == group_.size()) {
    arrived_ = 0;
    const std::vector<Tensor> all = std::exchange(partials_, std::vector<Tensor>(group_.size()));
    results_ = group_.all_reduce(all);
    ++sums_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return gives_up_ || sums_ > before; });
    if (sums_ == before) stop_if_given_up();
  }
  return std::exchange(results_[rank], Tensor());
}

}  // namespace gabbro::sharded
