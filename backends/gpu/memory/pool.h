// Memory of one opened device, its own or pinned memory of the host: freed pieces are kept by size and given out again,
// without a call of the runtime; what was reserved ahead is given out in pieces of any size. A piece may be freed while
// work that uses it is under way: on the stream on which it was freed it is reused at once, and another stream waits
// first.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/api.h"
#include "backends/gpu/memory/slab.h"
#include "backends/gpu/stream.h"

namespace gabbro::gpu {

class Pool {
 public:
  // The runtime's calls for one kind of memory.
  struct Source {
    void* (*allocate)(api::Context* context, size_t bytes);
    void (*release)(api::Context* context, void* pointer);
  };

  // `home`: the device's compute stream, null: none (memory of the host).
  explicit Pool(api::Context* context, Source source = {api::allocate, api::release}, GpuStream* home = nullptr)
      : context_(context), source_(source), home_(home) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // For work on `stream` and what is ordered after it. Null if there is not enough memory even after the cached pieces
  // were released.
  void* allocate(size_t bytes, GpuStream* stream = nullptr);
  // After what `stream` was given so far. Keeps it for later.
  void release(void* pointer, GpuStream* stream = nullptr);
  void release_unpooled(void* pointer,
                        GpuStream* stream = nullptr);  // to the runtime, unless it is of what was reserved
  // Called before cached pieces are released for want of memory; returns whether it freed some.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  void forget_stream(const GpuStream* stream);  // which has no work left
  // Asks the runtime for `bytes` at once. False if it does not have them. Pieces of less than kReservedPiece are not
  // taken from a reservation: a long-lived number would keep all of it from being released.
  bool reserve(size_t bytes);
  static constexpr size_t kReservedPiece = 65536;
  size_t trim();  // releases cached pieces, and reservations without a used piece; returns the bytes
  void count_range(std::ptrdiff_t bytes);  // memory that a range (ranges.h) was given, or gave back
  bool holds(const void* pointer) const;   // whether it is inside a piece that is in use

  abi::PoolFacts facts() const;
  void reset_facts();  // peaks and counts

 private:
  struct Piece {
    size_t bytes;
    Slab* slab;  // null: the runtime's allocation
  };

  // A freed piece, and the stream whose work may still use it; null: none.
  struct Kept {
    void* pointer;
    GpuStream* stream;
  };

  static size_t size_class(size_t bytes);
  std::pair<void*, Piece> find_kept(size_t size, GpuStream* stream);
  Piece take_back(void* pointer, GpuStream* stream);
  void order_after(GpuStream* later, GpuStream* earlier);
  void* from_source(size_t bytes);
  void to_source(void* pointer, size_t bytes);
  size_t trim_locked();

  api::Context* context_;
  const Source source_;
  GpuStream* const home_;        // what slabs have is ordered after its work
  api::Event* event_ = nullptr;  // from the first wait on
  mutable std::mutex mutex_;
  std::unordered_map<void*, Piece> used_;
  std::map<size_t, std::vector<Kept>> kept_;  // by size
  std::list<Slab> slabs_;
  std::function<bool()> reclaim_;
  abi::PoolFacts facts_{};
};

}  // namespace gabbro::gpu
