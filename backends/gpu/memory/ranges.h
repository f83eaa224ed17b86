// Ranges of addresses of one opened device whose memory comes by need (abi::Backend::reserve_range).
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/gpu/api.h"
#include "backends/gpu/memory/pool.h"

namespace gabbro::gpu {

class Ranges {
 public:
  // Their memory is counted as the pool's, whose cached pieces are released where memory runs out.
  Ranges(api::Context* context, Pool& pool) : context_(context), pool_(pool) {}
  ~Ranges();
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  // Null where the device has no such thing, or it has failed. The first call tests it: drivers exist that say they
  // have it, and fail.
  void* reserve(size_t bytes);
  // Memory for the first `bytes`, and some more, so that a range is extended at most 20 times. False if there is not
  // enough. Throws ApiError if the runtime refuses it; the range is as before then, and reserve() gives no others.
  bool extend(void* range, size_t bytes);
  // Memory that the runtime does not take back stays counted as in use.
  void release(void* range);

  // Why reserve() gives no ranges, in one line; empty if it does.
  std::string problem() const;

 private:
  struct Range {
    size_t bytes;
    size_t mapped = 0;
    std::vector<size_t> pieces{};  // bytes of each, in the order of their addresses
  };

  bool usable();
  void require_working(size_t step);
  void test(size_t step);
  bool map(void* range, Range& to, size_t bytes);
  size_t unmap(void* range, Range& from);
  void stop_using(const std::string& problem);

  api::Context* context_;
  Pool& pool_;
  mutable std::mutex mutex_;
  size_t step_ = 0;  // 0: not tested yet
  std::string problem_;
  std::unordered_map<void*, Range> ranges_;
};

}  // namespace gabbro::gpu
