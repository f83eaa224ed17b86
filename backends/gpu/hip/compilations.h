// Compilations of kernel sources, a few at a time: those that a kernel waits for, and those that are begun ahead.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gabbro::gpu::hip {

class Compilations {
 public:
  // Compiles a source on the calling thread; gives up when `cancel` becomes true. Throws ApiError.
  using Compile = std::function<std::vector<char>(const std::string& source, const std::atomic<bool>& cancel)>;

  // At most this many compilers run at a time: each takes up to 1 GB of memory.
  static constexpr unsigned kMostAtATime = 4;

  explicit Compilations(Compile compile) : compile_(std::move(compile)) {}
  ~Compilations();  // cancels what is under way
  Compilations(const Compilations&) = delete;
  Compilations& operator=(const Compilations&) = delete;

  // Begins the source after those that were begun before; nothing if it was begun.
  void begin(const std::string& source);
  // Waits for the source, which is begun ahead of those that nothing waits for. Rethrows what its compilation threw.
  std::vector<char> take(const std::string& source);

 private:
  struct Job {
    bool done = false;
    std::vector<char> code;
    std::exception_ptr failure;
  };

  void start_thread();  // with the mutex held
  void work();

  const Compile compile_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::string, Job> jobs_;
  std::deque<std::string> queue_;
  unsigned running_ = 0;
  std::atomic<bool> cancel_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace gabbro::gpu::hip
