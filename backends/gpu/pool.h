// Device memory of one opened device: freed pieces are kept by size and given out again, without a call of the runtime.
// All work runs on one queue, so that memory may be reused while the work that last read it is still under way.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

struct PoolStatistics {
  size_t used = 0;      // bytes handed out
  size_t cached = 0;    // bytes kept for later
  size_t peak = 0;      // the most bytes ever handed out
  size_t requests = 0;  // and how many of them had to ask the runtime
  size_t misses = 0;
};

class Pool {
 public:
  explicit Pool(api::Context* context) : context_(context) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Null where there is not enough memory even after what is kept was given back.
  void* allocate(size_t bytes);
  void release(void* pointer);
  void trim();  // gives back what is kept
  PoolStatistics statistics() const;

 private:
  static size_t size_class(size_t bytes);
  void trim_locked();

  api::Context* context_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> used_;
  std::map<size_t, std::vector<void*>> kept_;  // by size
  PoolStatistics statistics_;
};

}  // namespace gabbro::gpu
