#include "src/engine/sharded/rank_threads.h"

#include <chrono>
#include <utility>

namespace gabbro::sharded {

RankThreads::RankThreads(size_t ranks) {
  for (size_t rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::serve(size_t rank) {
  for (uint64_t done = 0;; ++done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || round_ > done; });
    if (ends_) return;
    const std::shared_ptr<const Work> work = work_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work->run(rank);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    const bool first = error != nullptr && error_ == nullptr;
    if (first) {
      error_ = error;
      lock.unlock();
      work->give_up();
      lock.lock();
    }
    if (--running_ == 0) changed_.notify_all();
  }
}

bool RankThreads::run(Work work) {
  constexpr std::chrono::milliseconds kLookEvery{100};
  std::unique_lock lock(mutex_);
  work_ = std::make_shared<const Work>(std::move(work));
  error_ = nullptr;
  running_ = threads_.size();
  ++round_;
  changed_.notify_all();
  while (!changed_.wait_for(lock, kLookEvery, [&] { return running_ == 0; })) {
    lock.unlock();
    const bool leaves = work_->leaves();
    lock.lock();
    if (leaves && running_ > 0) return false;
  }
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return true;
}

}  // namespace gabbro::sharded
