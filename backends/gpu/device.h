// An opened GPU: its queue, memory, kernels and captured graphs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/gpu/doctor/peers.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/memory/pool.h"
#include "backends/gpu/tuning/tuning.h"

namespace gabbro::gpu {

class GpuDevice {
 public:
  explicit GpuDevice(int32_t index, const abi::DeviceOptions& options = {});
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  void* allocate(size_t bytes) { return pool_.allocate(bytes); }
  void free(void* pointer) { pool_.release(pointer); }
  // The host's memory may be written again on return.
  void copy_to_device(void* target, const void* host, size_t bytes);
  void copy_to_host(void* host, const void* source, size_t bytes);
  void synchronize();  // as copy_to_host, throws ApiError kBadIndex if a kernel has read an index out of range

  // From another device of this backend, or this one, after all that was enqueued on either; the bytes are there on
  // return. See peers.h.
  void copy_from(GpuDevice& from, void* target, const void* source, size_t bytes);
  // The same through the host's memory, whatever the route.
  void copy_staged_from(GpuDevice& from, void* target, const void* source, size_t bytes);
  PeerCopies::Route route_from(GpuDevice& from);
  int32_t index() const { return index_; }

  // Pinned memory for copies; never null.
  auto allocate_pinned(size_t bytes) {
    const auto release = [this](void* pointer) { pinned_.release(pointer); };
    std::unique_ptr<void, decltype(release)> memory(pinned_.allocate(bytes), release);
    if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no pinned memory");
    return memory;
  }

  void release_pinned(void* pointer) { pinned_.release(pointer); }

  Pool& pool(abi::MemoryKind kind) { return kind == abi::MemoryKind::kPinned ? pinned_ : pool_; }
  size_t free_memory() const { return api::free_memory(context_.get()); }
  double memory_bandwidth() const { return api::memory_bandwidth(context_.get()); }
  std::string kernels() const { return api::module_description(module_); }

  // 0 if this device reads the matrix in the file's layout.
  size_t packed_bytes(DType dtype, int64_t rows, int64_t columns) const;
  void pack(DType dtype, int64_t rows, int64_t columns, const void* host, void* target);

  std::unique_ptr<Kernel> make_kernel(const abi::KernelRequest& request) const;

  Tuning& tuning() { return tuning_; }

  // To be called before a kernel goes away: what was recorded may name it.
  void forget_graphs();

  // Enqueues the launches. False when `cancel` was seen to be true meanwhile; some of them may have been done then.
  bool execute(const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel);

 private:
  // A list of launches that came before is captured when it comes again, and replayed from then on.
  struct Recorded {
    std::vector<const void*> signature;  // kernels and the addresses they work on
    api::Graph* graph = nullptr;
    uint64_t used = 0;
  };
  static constexpr size_t kMaxGraphs = 64;
  static constexpr int32_t kGraphLaunches = 8;  // shorter lists are not worth a graph

  void enqueue(const abi::Launch* launches, int32_t count);
  bool replay(const abi::Launch* launches, int32_t count);
  void forget_graphs_locked();
  void throw_bad_index();

  PeerEnd end() const { return {index_, context_.get(), queue_}; }
  // body(peers, the other end) with both queues held.
  template <class Body>
  auto with_peer(GpuDevice& from, Body&& body) {
    std::unique_lock own(mutex_, std::defer_lock), other(from.mutex_, std::defer_lock);
    if (&from == this) {
      own.lock();
    } else {
      std::lock(own, other);
    }
    if (peers_ == nullptr) peers_ = std::make_unique<PeerCopies>(end());
    return body(*peers_, from.end());
  }

  struct CloseContext {
    void operator()(api::Context* context) const { api::close(context); }
  };

  const int32_t index_;
  std::unique_ptr<api::Context, CloseContext> context_;  // closed after all else is released
  std::shared_ptr<uint32_t> counters_;
  mutable IndexFaults index_faults_;
  mutable Tuning tuning_;
  Pool pool_, pinned_;
  api::Module* module_ = nullptr;
  api::Queue* queue_ = nullptr;
  std::unique_ptr<PeerCopies> peers_;                // from the first copy on
  std::unordered_map<uint64_t, Recorded> recorded_;  // by hash of the signature
  uint64_t clock_ = 0;
  std::mutex mutex_;           // of the queue and what is recorded
  mutable std::mutex making_;  // of the code object's functions; another, since execution may take long
};

}  // namespace gabbro::gpu
