// An opened GPU: its streams, memory and kernels.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "backends/gpu/doctor/peers.h"
#include "backends/gpu/graph_policy.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/memory/pool.h"
#include "backends/gpu/memory/ranges.h"
#include "backends/gpu/memory/staging.h"
#include "backends/gpu/packer.h"
#include "backends/gpu/stream.h"
#include "backends/gpu/tuning/tuning.h"

namespace gabbro::gpu {

class GpuDevice {
 public:
  explicit GpuDevice(int32_t index, const abi::DeviceOptions& options = {});
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  // `stream` is null for the compute stream, here and below.
  GpuStream& stream(abi::Stream* stream) {
    return stream == nullptr ? *compute_ : *reinterpret_cast<GpuStream*>(stream);
  }
  GpuStream* create_stream();
  void destroy_stream(GpuStream* stream);
  api::Event* create_event() { return api::create_event(context_.get()); }
  void record(abi::Stream* stream, api::Event* event);
  void wait(abi::Stream* stream, api::Event* event);

  // Null where there is not enough memory.
  void* allocate(abi::Stream* on, size_t bytes) { return pool_.allocate(bytes, &stream(on)); }
  void free(abi::Stream* on, void* pointer) { pool_.release(pointer, &stream(on)); }
  // As in backend_abi.h. Pageable host memory is read or written before the function returns; for pinned memory the
  // copy is only enqueued.
  void copy_to_device(abi::Stream* on, void* target, const void* host, size_t bytes);
  void copy_to_host(abi::Stream* on, void* host, const void* source, size_t bytes);
  bool is_pinned(const void* host) const;  // by this device, or by another one of the backend
  // Like every function that waits, throws ApiError kBadIndex if a kernel has read an index out of range.
  // ApiError kCanceled within 100 ms of `cancel` (may be null) becoming true.
  void synchronize_stream(abi::Stream* on, const std::atomic<bool>* cancel = nullptr);
  void synchronize_event(api::Event* event, const std::atomic<bool>* cancel = nullptr);

  // Enqueues a copy from a device of this backend. See peers.h.
  void copy_from(GpuDevice& from, abi::Stream* on, const PeerCopy& copy);
  // As copy_from(), through the host's memory on any route.
  void copy_staged_from(GpuDevice& from, abi::Stream* on, const PeerCopy& copy);
  PeerCopies::Route route_from(GpuDevice& from);
  int32_t index() const { return index_; }

  // Pinned memory for copies; never null.
  auto allocate_pinned(size_t bytes) {
    const auto release = [this](void* pointer) { pinned_.release(pointer, nullptr); };
    std::unique_ptr<void, decltype(release)> memory(pinned_.allocate(bytes, nullptr), release);
    if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no pinned memory");
    return memory;
  }

  void release_pinned(void* pointer) { pinned_.release(pointer, nullptr); }

  // Null where the device has no ranges.
  void* reserve_range(size_t bytes) { return ranges_.reserve(bytes); }
  std::string ranges_problem() const { return ranges_.problem(); }
  bool extend_range(void* range, size_t bytes) { return ranges_.extend(range, bytes); }
  void release_range(void* range);

  Pool& pool(abi::MemoryKind kind) { return kind == abi::MemoryKind::kPinned ? pinned_ : pool_; }
  size_t free_memory() const { return api::free_memory(context_.get()); }
  double memory_bandwidth() const { return api::memory_bandwidth(context_.get()); }
  std::string kernels() const { return api::module_description(module_); }

  // 0 if this device reads the matrix in the file's layout.
  size_t packed_bytes(DType dtype, int64_t rows, int64_t columns) const;
  void pack(abi::Stream* on, const abi::PackRequest& request, const void* source, void* target);

  std::unique_ptr<Kernel> make_kernel(const abi::KernelRequest& request) const;

  // A kernel of the code object; throws where it has none of this name.
  const api::Function* function(const std::string& name) const;

  Tuning& tuning() { return tuning_; }

  GraphPolicy& graph_policy() { return graph_policy_; }
  // Call this before a kernel is destroyed: captured graphs may launch it.
  void forget_graphs_of(const void* kernel);

  // Enqueues the launches. False if `cancel` became true meanwhile; some of them may have run then.
  bool execute(abi::Stream* on, const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
    return stream(on).execute(launches, count, cancel);
  }

  api::Context* context() const { return context_.get(); }

 private:
  void throw_bad_index(api::Queue* queue);
  GraphPolicy::Source graph_source();
  bool drop_graphs();
  // Waits for what the stream was given so far. `held` is its mutex, which others get during a long wait.
  void finish(GpuStream& stream, std::unique_lock<std::mutex>& held, const std::atomic<bool>* cancel);

  PeerEnd end() const { return {index_, context_.get(), compute_->queue()}; }
  // body(peers, the other end) with both compute streams held.
  template <class Body>
  auto with_peer(GpuDevice& from, Body&& body) {
    std::unique_lock own(compute_->mutex(), std::defer_lock), other(from.compute_->mutex(), std::defer_lock);
    if (&from == this) {
      own.lock();
    } else {
      std::lock(own, other);
    }
    const std::lock_guard lock(peers_mutex_);
    if (peers_ == nullptr) peers_ = std::make_unique<PeerCopies>(end());
    return body(*peers_, from.end());
  }

  // A separate queue for the first half of staged copies to other devices, so that the streams go on meanwhile.
  api::Queue* outgoing();

  struct CloseContext {
    void operator()(api::Context* context) const { api::close(context); }
  };

  const int32_t index_;
  std::unique_ptr<api::Context, CloseContext> context_;  // closed after all else is released
  mutable IndexFaults index_faults_;
  const Chip& chip_;
  mutable Tuning tuning_;
  GraphPolicy graph_policy_;
  std::unique_ptr<GpuStream> compute_;
  Pool pool_, pinned_;  // before the streams: memory is released once these are done
  Ranges ranges_;
  Staging staging_;
  std::mutex streams_mutex_;
  std::list<std::unique_ptr<GpuStream>> streams_;  // all but the compute stream
  api::Module* module_ = nullptr;
  std::unique_ptr<Packer> packer_;
  std::unique_ptr<PeerCopies> peers_;  // made by the first copy
  std::mutex peers_mutex_;             // of `peers_` and of copies to this device
  api::Queue* outgoing_ = nullptr;     // made by the first staged copy
  std::mutex outgoing_mutex_;
  mutable std::mutex making_;  // of lookups in the code object; not a stream's, which execution holds
};

}  // namespace gabbro::gpu
