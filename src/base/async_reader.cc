#include "src/base/async_reader.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "src/base/error.h"

namespace gabbro {
namespace {

class ThreadReader : public AsyncReader {
 public:
  explicit ThreadReader(int depth) {
    for (int i = 0; i < depth; ++i) threads_.emplace_back([this] { serve(); });
  }

  ~ThreadReader() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(const FileRead& read) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(read);
      ++under_way_;
    }
    wanted_.notify_one();
  }

  void wait(std::vector<FinishedRead>& finished, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (under_way_ == 0) return;
    done_.wait_for(lock, timeout, [&] { return !finished_.empty(); });
    under_way_ -= finished_.size();
    finished.insert(finished.end(), finished_.begin(), finished_.end());
    finished_.clear();
  }

  const char* name() const override { return "threads"; }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wanted_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (closing_) return;
      const FileRead read = queue_.front();
      queue_.pop_front();
      lock.unlock();
      ssize_t got = 0;
      do {
        got = ::pread(read.file, read.target, read.bytes, static_cast<off_t>(read.offset));
      } while (got < 0 && errno == EINTR);
      const int64_t result = got < 0 ? -errno : got;
      lock.lock();
      finished_.push_back({read.tag, result});
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::deque<FileRead> queue_;
  std::vector<FinishedRead> finished_;
  size_t under_way_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncReader> make_thread_reader(int depth) { return std::make_unique<ThreadReader>(depth); }

std::unique_ptr<AsyncReader> make_async_reader(int depth, std::string* note) {
  const char* const variable = std::getenv("GABBRO_IO");
  const std::string_view wanted = variable != nullptr ? variable : "";
  if (!wanted.empty() && wanted != "io_uring" && wanted != "threads")
    throw bad_input("GABBRO_IO: '{}' is neither io_uring nor threads", wanted);
  if (wanted == "threads") return make_thread_reader(depth);
  std::string reason;
  if (auto reader = make_uring_reader(depth, &reason)) return reader;
  if (wanted == "io_uring") throw failed("GABBRO_IO: io_uring is refused: {}", reason);
  *note = "io_uring is refused (" + reason + "): weights are read by threads";
  return make_thread_reader(depth);
}

}  // namespace gabbro
