#include "src/formats/quantized_folders/derived_data.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include "src/base/error.h"

namespace gabbro {

void DerivedData::prepare() {
  const std::lock_guard lock(mutex_);
  if (ready_) return;
  fill_(memory_);
  ready_ = true;
}

void DerivedData::release() {
  const std::lock_guard lock(mutex_);
  if (!ready_) return;
  ready_ = false;
  file_->release(static_cast<size_t>(memory_.data() - file_->bytes().data()), memory_.size());
}

std::shared_ptr<const MappedFile> reserve_memory(const std::string& name, size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw failed("{}: cannot reserve {} bytes for its weights: {}", name, size, std::strerror(errno));
  return std::make_shared<const MappedFile>(name, memory, size);
}

void for_row_ranges(int64_t count, int64_t least, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t processors = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t step = std::max(least, (count + 4 * processors - 1) / (4 * processors));
  std::atomic<int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (int64_t begin; (begin = next.fetch_add(step)) < count;) body(begin, std::min(begin + step, count));
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(processors, (count + step - 1) / step); ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gabbro
