#include "backends/gpu/hip/compilations.h"

#include <algorithm>
#include <utility>

namespace gabbro::gpu::hip {

Compilations::~Compilations() {
  {
    const std::lock_guard lock(mutex_);
    cancel_ = true;
    queue_.clear();
  }
  threads_.clear();  // joins
}

void Compilations::begin(const std::string& source) {
  const std::lock_guard lock(mutex_);
  if (!jobs_.try_emplace(source).second) return;
  queue_.push_back(source);
  start_thread();
}

std::vector<char> Compilations::take(const std::string& source) {
  std::unique_lock lock(mutex_);
  const bool is_new = jobs_.try_emplace(source).second;
  if (is_new || std::erase(queue_, source) > 0) queue_.push_front(source);
  if (is_new) start_thread();
  finished_.wait(lock, [&] { return jobs_[source].done; });
  const Job job = std::move(jobs_[source]);
  jobs_.erase(source);
  if (job.failure != nullptr) std::rethrow_exception(job.failure);
  return job.code;
}

void Compilations::start_thread() {
  const unsigned most = std::clamp(std::thread::hardware_concurrency(), 1U, kMostAtATime);
  if (running_ == most) return;
  ++running_;
  threads_.emplace_back([this] { work(); });
}

void Compilations::work() {
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    const std::string source = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Job job{.done = true, .code = {}, .failure = nullptr};
    try {
      job.code = compile_(source, cancel_);
    } catch (...) {
      job.failure = std::current_exception();
    }
    lock.lock();
    jobs_[source] = std::move(job);
    finished_.notify_all();
  }
  --running_;
}

}  // namespace gabbro::gpu::hip
