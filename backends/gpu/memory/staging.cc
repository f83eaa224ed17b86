#include "backends/gpu/memory/staging.h"

#include <algorithm>

namespace gabbro::gpu {
namespace {

// Calls body(offset, bytes) for each piece of at most `step`.
template <class Body>
void for_pieces(size_t bytes, size_t step, const Body& body) {
  for (size_t at = 0; at < bytes; at += step) body(at, std::min(step, bytes - at));
}

}  // namespace

void copy_pieces_to_device(api::Queue* queue, void* target, const void* host, size_t bytes) {
  for_pieces(bytes, api::kPageableBytes, [&](size_t at, size_t piece) {
    api::copy_to_device(queue, static_cast<std::byte*>(target) + at, static_cast<const std::byte*>(host) + at, piece);
  });
}

void copy_pieces_to_host(api::Queue* queue, void* host, const void* source, size_t bytes) {
  for_pieces(bytes, api::kPageableBytes, [&](size_t at, size_t piece) {
    api::copy_to_host(queue, static_cast<std::byte*>(host) + at, static_cast<const std::byte*>(source) + at, piece);
  });
}

Staging::Staging(api::Context* context, int threads) : context_(context), fill_(threads) {}

Staging::~Staging() {
  for (const Stage& stage : stages_) {
    if (stage.copied != nullptr) api::destroy_event(stage.copied);
    if (stage.memory != nullptr) api::release_pinned(context_, stage.memory);
  }
}

// False where the system has no pinned memory left.
bool Staging::make_stages() {
  for (Stage& stage : stages_) {
    if (stage.copied == nullptr) stage.copied = api::create_event(context_);
    if (stage.memory == nullptr) stage.memory = static_cast<std::byte*>(api::allocate_pinned(context_, kStageBytes));
    if (stage.memory == nullptr) return false;
  }
  return true;
}

// The stage whose copy began first, once that copy has ended.
Staging::Stage& Staging::next_stage() {
  Stage& stage = stages_[next_++ % stages_.size()];
  api::synchronize(stage.copied);
  return stage;
}

void Staging::copy_to_device(api::Queue* queue, void* target, const void* host, size_t bytes) {
  if (bytes <= kDirectBytes) return api::copy_to_device(queue, target, host, bytes);
  const std::lock_guard lock(mutex_);
  if (!make_stages()) return copy_pieces_to_device(queue, target, host, bytes);
  for_pieces(bytes, kStageBytes, [&](size_t at, size_t piece) {
    Stage& stage = next_stage();
    fill_.copy(stage.memory, static_cast<const std::byte*>(host) + at, piece);
    api::copy_to_device(queue, static_cast<std::byte*>(target) + at, stage.memory, piece);
    api::record(queue, stage.copied);
  });
}

void Staging::copy_to_host(api::Queue* queue, void* host, const void* source, size_t bytes) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (bytes > kDirectBytes) lock.lock();
  if (!lock.owns_lock() || !make_stages()) {
    copy_pieces_to_host(queue, host, source, bytes);
    return api::synchronize(queue);
  }
  // While a stage is read, the copy into the other is under way.
  Stage* full = nullptr;
  size_t full_at = 0, full_bytes = 0;
  const auto empty = [&] {
    if (full == nullptr) return;
    api::synchronize(full->copied);
    fill_.copy(static_cast<std::byte*>(host) + full_at, full->memory, full_bytes);
  };
  for_pieces(bytes, kStageBytes, [&](size_t at, size_t piece) {
    Stage& stage = next_stage();
    api::copy_to_host(queue, stage.memory, static_cast<const std::byte*>(source) + at, piece);
    api::record(queue, stage.copied);
    empty();
    full = &stage;
    full_at = at;
    full_bytes = piece;
  });
  empty();
}

}  // namespace gabbro::gpu
