// A host thread for each device of a tensor split. An error of one of them ends the work of all.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gabbro::sharded {

class RankThreads {
 public:
  explicit RankThreads(size_t ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls work(rank) of all ranks at once, and returns when all have ended. `give_up` is called when the first of them
  // has thrown: it ends the waits of the others. Throws that first error.
  void run(const std::function<void(size_t rank)>& work, const std::function<void()>& give_up);

 private:
  void serve(size_t rank);

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t round_ = 0;  // of work
  size_t running_ = 0;
  bool ends_ = false;
  const std::function<void(size_t rank)>* work_ = nullptr;
  const std::function<void()>* give_up_ = nullptr;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace gabbro::sharded
