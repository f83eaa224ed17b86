// Pinned stages of one opened device, through which pageable host memory is copied: the host fills one while the device
// reads the other. A runtime that gets pageable memory itself pins the caller's pages: on HIP above 1 MiB, where mapped
// files take minutes or hang the driver (ROCm issues 6582 and 6523).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "backends/gpu/api.h"
#include "backends/gpu/memory/parallel_copy.h"

namespace gabbro::gpu {

// Copies of pageable memory in pieces of at most kPageableBytes, for rare ones that are not worth a stage. The memory
// must stay unchanged until the queue is synchronized.
void copy_pieces_to_device(api::Queue* queue, void* target, const void* host, size_t bytes);
void copy_pieces_to_host(api::Queue* queue, void* host, const void* source, size_t bytes);

class Staging {
 public:
  // Copies of at most this size go to the runtime, which has its own small stages: CUDA up to 64 KiB, HIP up to 1 MiB.
  static constexpr size_t kDirectBytes = size_t{64} << 10;
  // Uploads of a mapped file to an H200 with four threads: 22 GB/s by stages of 4 MiB, 29 by 16 MiB; by the driver's
  // own stages, or by one thread, 6 to 8.
  static constexpr size_t kStageBytes = size_t{8} << 20;

  // `threads` fill a stage.
  explicit Staging(api::Context* context, int threads = ParallelCopy::default_threads());
  ~Staging();  // the queues have no work left
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Reads all of `host` before it returns; the last copies to the device may be under way then. The caller holds the
  // queue. Throws ApiError.
  void copy_to_device(api::Queue* queue, void* target, const void* host, size_t bytes);
  // After the queue's work; the bytes are there on return.
  void copy_to_host(api::Queue* queue, void* host, const void* source, size_t bytes);

 private:
  struct Stage {
    std::byte* memory = nullptr;
    api::Event* copied = nullptr;  // the last copy out of it, or into it
  };

  bool make_stages();
  Stage& next_stage();

  api::Context* const context_;
  ParallelCopy fill_;
  std::mutex mutex_;  // locked after a stream's
  std::array<Stage, 2> stages_;
  size_t next_ = 0;
};

}  // namespace gabbro::gpu
