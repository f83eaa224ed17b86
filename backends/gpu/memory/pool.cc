#include "backends/gpu/memory/pool.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <stdexcept>

#include "src/base/round_up.h"

namespace gabbro::gpu {

Pool::~Pool() {
  if (event_ != nullptr) api::destroy_event(event_);
  for (const auto& [pointer, piece] : used_) {
    if (piece.slab == nullptr) source_.release(context_, pointer);
  }
  for (const auto& [size, pieces] : kept_) {
    for (const Kept& kept : pieces) source_.release(context_, kept.pointer);
  }
  for (const Slab& slab : slabs_) source_.release(context_, slab.base());
}

// Small sizes to the runtime's step; larger ones to a sixteenth of the size, up to 2 MiB, so that at most a few percent
// are lost.
size_t Pool::size_class(size_t bytes) {
  size_t step = api::allocation_step();
  while (step > 1 && step * 16 < bytes && step < (size_t{2} << 20)) step *= 2;
  return round_up(std::max<size_t>(bytes, 1), step);
}

void* Pool::from_source(size_t bytes) {
  void* pointer = source_.allocate(context_, bytes);
  if (pointer == nullptr) return nullptr;
  facts_.reserved += bytes;
  facts_.reserved_peak = std::max(facts_.reserved_peak, facts_.reserved);
  return pointer;
}

void Pool::to_source(void* pointer, size_t bytes) {
  source_.release(context_, pointer);
  facts_.reserved -= bytes;
}

void Pool::order_after(GpuStream* later, GpuStream* earlier) {
  if (later == nullptr || earlier == nullptr || later == earlier) return;
  if (event_ == nullptr) event_ = api::create_event(context_);
  order(*later, *earlier, event_);
}

// A freed piece of this very size, or a part of what was reserved; else null, and what to ask the runtime for.
std::pair<void*, Pool::Piece> Pool::find_kept(size_t size, GpuStream* stream) {
  if (const auto found = kept_.find(size); found != kept_.end() && !found->second.empty()) {
    std::vector<Kept>& pieces = found->second;
    // The last one that needs no wait; with one stream it is the last of all.
    auto best = std::find_if(pieces.rbegin(), pieces.rend(),
                             [&](const Kept& kept) { return kept.stream == stream || kept.stream == nullptr; });
    if (best == pieces.rend()) best = pieces.rbegin();
    order_after(stream, best->stream);
    void* const pointer = best->pointer;
    pieces.erase(std::next(best).base());
    return {pointer, {size, nullptr}};
  }
  if (size < kReservedPiece) return {nullptr, {size, nullptr}};
  const size_t part = Slab::rounded(size);
  for (Slab& slab : slabs_) {
    void* const pointer = slab.take(part);
    if (pointer == nullptr) continue;
    order_after(stream, home_);
    return {pointer, {part, &slab}};
  }
  return {nullptr, {size, nullptr}};
}

void* Pool::allocate(size_t bytes, GpuStream* stream) {
  const std::lock_guard lock(mutex_);
  auto [pointer, piece] = find_kept(size_class(bytes), stream);
  const bool hit = pointer != nullptr;
  if (!hit) pointer = from_source(piece.bytes);
  if (pointer == nullptr && reclaim_ && reclaim_()) pointer = from_source(piece.bytes);
  if (pointer == nullptr && facts_.reserved > facts_.in_use) {
    ++facts_.retries;
    trim_locked();
    pointer = from_source(piece.bytes);
  }
  if (pointer == nullptr) {
    ++facts_.failures;
    return nullptr;
  }
  if (auto* const check = api::access_check()) check->allocated(pointer, piece.bytes);
  used_[pointer] = piece;
  ++facts_.allocations;
  if (hit) ++facts_.hits;
  facts_.in_use += piece.bytes;
  facts_.in_use_peak = std::max(facts_.in_use_peak, facts_.in_use);
  return pointer;
}

// It is no longer in use, and its slab, if it has one, has it again.
Pool::Piece Pool::take_back(void* pointer, GpuStream* stream) {
  const auto found = used_.find(pointer);
  if (found == used_.end()) throw std::logic_error("gpu: freed what the pool did not allocate");
  const Piece piece = found->second;
  if (auto* const check = api::access_check())
    check->freed(context_, stream == nullptr ? nullptr : stream->queue(), pointer, piece.bytes);
  used_.erase(found);
  ++facts_.releases;
  facts_.in_use -= piece.bytes;
  if (piece.slab != nullptr) {
    order_after(home_, stream);
    piece.slab->release(pointer, piece.bytes);
  }
  return piece;
}

void Pool::release(void* pointer, GpuStream* stream) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const Piece piece = take_back(pointer, stream);
  if (piece.slab == nullptr) kept_[piece.bytes].push_back({pointer, stream});
}

void Pool::release_unpooled(void* pointer, GpuStream* stream) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const Piece piece = take_back(pointer, stream);
  if (piece.slab != nullptr) return;
  if (stream != nullptr) stream->drain();
  to_source(pointer, piece.bytes);
}

void Pool::count_range(std::ptrdiff_t bytes) {
  const std::lock_guard lock(mutex_);
  facts_.reserved += static_cast<uint64_t>(bytes);
  facts_.in_use += static_cast<uint64_t>(bytes);
  facts_.reserved_peak = std::max(facts_.reserved_peak, facts_.reserved);
  facts_.in_use_peak = std::max(facts_.in_use_peak, facts_.in_use);
}

void Pool::forget_stream(const GpuStream* stream) {
  const std::lock_guard lock(mutex_);
  for (auto& [size, pieces] : kept_) {
    for (Kept& kept : pieces) {
      if (kept.stream == stream) kept.stream = nullptr;
    }
  }
}

bool Pool::reserve(size_t bytes) {
  const size_t size = Slab::rounded(size_class(bytes));
  const std::lock_guard lock(mutex_);
  void* base = from_source(size);
  if (base == nullptr) {
    ++facts_.failures;
    return false;
  }
  slabs_.emplace_back(base, size);
  return true;
}

size_t Pool::trim_locked() {
  const size_t before = facts_.reserved;
  for (const auto& [size, pieces] : kept_) {
    for (const Kept& kept : pieces) {
      if (kept.stream != nullptr) kept.stream->drain();
      to_source(kept.pointer, size);
    }
  }
  kept_.clear();
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    if (slab->unused() && home_ != nullptr) home_->drain();
    if (slab->unused()) to_source(slab->base(), slab->bytes());
    slab = slab->unused() ? slabs_.erase(slab) : std::next(slab);
  }
  return before - facts_.reserved;
}

size_t Pool::trim() {
  const std::lock_guard lock(mutex_);
  return trim_locked();
}

// One by one: it is asked of pinned memory, which has few pieces.
bool Pool::holds(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const std::less_equal<const void*> no_later;
  return std::ranges::any_of(used_, [&](const auto& entry) {
    const auto* const begin = static_cast<const std::byte*>(entry.first);
    return no_later(begin, pointer) && !no_later(begin + entry.second.bytes, pointer);
  });
}

abi::PoolFacts Pool::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void Pool::reset_facts() {
  const std::lock_guard lock(mutex_);
  facts_ = {.reserved = facts_.reserved,
            .in_use = facts_.in_use,
            .reserved_peak = facts_.reserved,
            .in_use_peak = facts_.in_use};
}

}  // namespace gabbro::gpu
