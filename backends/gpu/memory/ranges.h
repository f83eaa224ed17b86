// Ranges of addresses of one opened device whose memory comes by need (abi::Backend::reserve_range).
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

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

  // Null where the device has no such thing. The first call tests it: drivers exist that say they have it, and fail.
  void* reserve(size_t bytes);
  // Memory for the first `bytes`. False where there is not enough.
  bool extend(void* range, size_t bytes);
  void release(void* range);

 private:
  struct Range {
    size_t bytes;
    size_t mapped = 0;
  };

  size_t step();
  bool works(size_t step);
  bool map(void* begin, size_t bytes);

  api::Context* context_;
  Pool& pool_;
  std::mutex mutex_;
  std::optional<size_t> step_;
  std::unordered_map<void*, Range> ranges_;
};

}  // namespace gabbro::gpu
