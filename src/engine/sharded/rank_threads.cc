#include "src/engine/sharded/rank_threads.h"

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
    const auto& work = *work_;
    const auto& give_up = *give_up_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work(rank);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    const bool first = error != nullptr && error_ == nullptr;
    if (first) {
      error_ = error;
      lock.unlock();
      give_up();
      lock.lock();
    }
    if (--running_ == 0) changed_.notify_all();
  }
}

void RankThreads::run(const std::function<void(size_t rank)>& work, const std::function<void()>& give_up) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  give_up_ = &give_up;
  error_ = nullptr;
  running_ = threads_.size();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace gabbro::sharded
