// Memory of one opened device, its own or pinned memory of the host: freed pieces are kept by size and given out again,
// without a call of the runtime; what was reserved ahead is given out in pieces of any size. All work runs on one
// queue, so that memory may be reused while the work that last read it is still under way.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/api.h"
#include "backends/gpu/memory/slab.h"

namespace gabbro::gpu {

class Pool {
 public:
  // The runtime's calls for one kind of memory.
  struct Source {
    void* (*allocate)(api::Context* context, size_t bytes);
    void (*release)(api::Context* context, void* pointer);
  };

  explicit Pool(api::Context* context, Source source = {api::allocate, api::release})
      : context_(context), source_(source) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Null if there is not enough memory even after the cached pieces were released.
  void* allocate(size_t bytes);
  void release(void* pointer);  // keeps it for later
  void release_unpooled(void* pointer);  // to the runtime, unless it is of what was reserved
  // Asks the runtime for `bytes` at once. False if it does not have them. Pieces of less than kReservedPiece are not
  // taken from a reservation: a long-lived number would keep all of it from being released.
  bool reserve(size_t bytes);
  static constexpr size_t kReservedPiece = 65536;
  size_t trim();  // releases cached pieces, and reservations without a used piece; returns the bytes
  bool holds(const void* pointer) const;  // whether it is inside a piece that is in use

  abi::PoolFacts facts() const;
  void reset_facts();  // peaks and counts

 private:
  struct Piece {
    size_t bytes;
    Slab* slab;  // null: the runtime's allocation
  };

  static size_t size_class(size_t bytes);
  std::pair<void*, Piece> find_kept(size_t size);
  Piece take_back(void* pointer);
  void* from_source(size_t bytes);
  void to_source(void* pointer, size_t bytes);
  size_t trim_locked();

  api::Context* context_;
  const Source source_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, Piece> used_;
  std::map<size_t, std::vector<void*>> kept_;  // by size
  std::list<Slab> slabs_;
  abi::PoolFacts facts_{};
};

}  // namespace gabbro::gpu
