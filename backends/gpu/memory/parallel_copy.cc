#include "backends/gpu/memory/parallel_copy.h"

#include <algorithm>
#include <cstring>
#include <system_error>

namespace gabbro::gpu {
namespace {

// A thread copies this in 20 to 50 us, which is about what waking it costs.
constexpr size_t kPiece = size_t{256} << 10;

}  // namespace

int ParallelCopy::default_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 4);
}

ParallelCopy::~ParallelCopy() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ParallelCopy::take_pieces() {
  for (size_t at = taken_.fetch_add(kPiece); at < bytes_; at = taken_.fetch_add(kPiece))
    std::memcpy(to_ + at, from_ + at, std::min(kPiece, bytes_ - at));
}

void ParallelCopy::work() {
  std::unique_lock lock(mutex_);
  for (uint64_t done = number_ - 1;;) {  // it starts with the copy that began
    begun_.wait(lock, [&] { return ending_ || number_ > done; });
    if (ending_) return;
    done = number_;
    lock.unlock();
    take_pieces();
    lock.lock();
    if (--busy_ == 0) ended_.notify_one();
  }
}

// The mutex is held.
void ParallelCopy::start_helpers() {
  try {
    while (std::ssize(helpers_) < threads_ - 1) helpers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // a limit of threads
    threads_ = static_cast<int>(helpers_.size()) + 1;
  }
}

void ParallelCopy::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;  // memcpy takes no null pointers, as an empty span has
  if (threads_ < 2 || bytes < 4 * kPiece) {
    std::memcpy(to, from, bytes);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    to_ = static_cast<std::byte*>(to);
    from_ = static_cast<const std::byte*>(from);
    bytes_ = bytes;
    taken_ = 0;
    ++number_;
    start_helpers();
    busy_ = static_cast<int>(helpers_.size());
  }
  begun_.notify_all();
  take_pieces();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return busy_ == 0; });
}

}  // namespace gabbro::gpu
