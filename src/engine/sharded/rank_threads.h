// A host thread for each device of a tensor split. An error of one of them ends the work of all.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
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

  struct Work {
    std::function<void(size_t rank)> run;
    std::function<void()> give_up;  // ends the waits of the others; called when the first rank has thrown
    // Called every now and then while the ranks work. If it gives true, they are left alone.
    std::function<bool()> leaves = [] { return false; };
  };
  // Calls work.run(rank) of all ranks at once, and gives true when all have ended. Throws the first error. False: some
  // were left alone; there must be no further calls, and the destructor waits for them.
  bool run(Work work);

 private:
  void serve(size_t rank);

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t round_ = 0;  // of work
  size_t running_ = 0;
  bool ends_ = false;
  std::shared_ptr<const Work> work_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace gabbro::sharded
