// Working memory of threads: taken for a text and put back after it, so that it is made once for as many as work at a
// time.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gabbro::text {

template <class Memory>
class MemoryPool {
 public:
  template <class Make>
  std::unique_ptr<Memory> take(Make make) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto memory = std::move(idle_.back());
        idle_.pop_back();
        return memory;
      }
    }
    return make();
  }
  void put(std::unique_ptr<Memory> memory) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Memory>> idle_;
};

}  // namespace gabbro::text
