#include "tests/emulated_hip/instructions/memory_model.h"

#include <algorithm>
#include <cstring>

namespace emulated_hip {
namespace {

// A queue of stores has an end too.
constexpr size_t kMostHeld = 8192;
// Words whose old values are kept: 80 MB.
constexpr size_t kMostVersions = size_t{1} << 20;

uint32_t merged(uint32_t value, uint32_t other, uint32_t mask) { return (value & ~mask) | (other & mask); }

uint32_t memory_at(uint64_t at) {
  uint32_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

}  // namespace

void MemoryModel::begin(Chip chip, uint64_t seed, uint32_t slots, uint32_t waves, bool late) {
  chip_ = chip;
  waves_ = waves;
  time_ = 0;
  random_.seed(static_cast<uint32_t>(seed * 2654435761U + 1));
  rarely_ = late ? 4096 : is_drawn(2) ? 4 : 64;
  near_.assign(size_t{slots} * 2, 0);
  far_.assign(std::max(slots, kCaches), 0);
  held_.assign(is_cdna() ? slots : size_t{slots} * waves, {});
  for (auto& cache : l2_) cache.clear();
  versions_.clear();
}

void MemoryModel::end() {
  for (auto& table : held_) drain(table, 1);
  for (auto& cache : l2_) {
    cache.filter([&](uint64_t at, const Held& stored) {
      commit_to_memory(at, stored);
      return false;
    });
  }
}

void MemoryModel::select(uint32_t slot, uint32_t wave) {
  slot_ = slot;
  wave_ = wave;
}

void MemoryModel::leave(uint32_t slot) {
  slot_ = slot;
  for (uint32_t wave = 0; wave < (is_cdna() ? 1 : waves_); ++wave) drain(held_of(slot, wave), 1);
}

void MemoryModel::drift() {
  if (is_drawn(rarely_)) drain(held_[random_() % held_.size()], 1 + random_() % 3);
  if (is_cdna() && is_drawn(rarely_ * 4)) {
    const uint32_t one_of = 1 + random_() % 3;
    l2_[random_() % kCaches].filter([&](uint64_t at, const Held& stored) {
      if (!is_drawn(one_of)) return true;
      commit_to_memory(at, stored);
      return false;
    });
  }
}

// One in `one_of` of the stores is done.
void MemoryModel::drain(DwordTable<Held>& table, uint32_t one_of) {
  table.filter([&](uint64_t at, const Held& stored) {
    if (one_of > 1 && !is_drawn(one_of)) return true;
    commit(at, stored);
    return false;
  });
}

void MemoryModel::commit(uint64_t at, const Held& stored) {
  if (!is_cdna()) return commit_to_memory(at, stored);
  auto& l2 = l2_[stored.unit % kCaches];
  if (stored.through) {
    if (Held* dirty = l2.find(at)) dirty->mask &= ~stored.mask;
    return commit_to_memory(at, stored);
  }
  Held& dirty = l2[at];
  dirty.value = merged(dirty.value, stored.value, stored.mask);
  dirty.mask |= stored.mask;
  dirty.unit = stored.unit;
}

void MemoryModel::commit_to_memory(uint64_t at, const Held& stored) {
  if (stored.mask == 0) return;
  const uint32_t before = memory_at(at), after = merged(before, stored.value, stored.mask);
  auto* bytes = reinterpret_cast<char*>(at);
  for (int i = 0; i < 4; ++i) {
    if ((stored.mask >> 8 * i & 0xff) != 0) bytes[i] = static_cast<char>(after >> 8 * i);
  }
  note_version(at, before, after, stored.unit);
}

void MemoryModel::note_version(uint64_t at, uint32_t before, uint32_t after, uint32_t unit) {
  if (versions_.size() >= kMostVersions && versions_.find(at) == nullptr) return;
  Versions& known = versions_[at];
  if (known.count == 0) known.version[known.count++] = {0, before, kNone};
  if (known.count == Versions::kMost) {
    std::copy(known.version.begin() + 1, known.version.end(), known.version.begin());
    --known.count;
  }
  known.version[known.count++] = {++time_, after, unit};
}

void MemoryModel::begin_load(Scope scope) {
  is_coherent_ = scope >= Scope::kAgent;
  is_stale_ = !is_coherent_ && !is_drawn(3);
  is_near_ = is_drawn(2) && (scope == Scope::kWave || is_cdna());
}

// The oldest value that the cache of this load may hold. A store of the same unit has updated its caches.
uint32_t MemoryModel::old_value(const Versions& known) const {
  const uint64_t since = is_near_ ? near_[unit()] : far_[is_cdna() ? cache() : slot_];
  int oldest = known.count - 1;
  for (; oldest > 0; --oldest) {
    const Versions::Version& one = known.version[oldest];
    if (one.time <= since) break;
    if (one.unit == kNone) continue;
    if (is_near_ ? one.unit == unit() : is_cdna() ? one.unit % kCaches == cache() : one.unit / 2 == slot_) break;
  }
  return known.version[oldest].value;
}

uint32_t MemoryModel::load(uint64_t at) {
  uint32_t value = memory_at(at);
  if (is_stale_) {
    if (const Versions* known = versions_.find(at)) value = old_value(*known);
  }
  if (is_cdna()) {
    const Held* dirty = l2_[cache()].find(at);
    if (dirty != nullptr && (!is_stale_ || !is_near_ || dirty->unit == unit()))
      value = merged(value, dirty->value, dirty->mask);
  }
  if (const Held* own = held_of(slot_, wave_).find(at)) value = merged(value, own->value, own->mask);
  return value;
}

void MemoryModel::store(uint64_t at, uint32_t value, uint32_t mask, Scope scope) {
  DwordTable<Held>& table = held_of(slot_, wave_);
  if (table.size() >= kMostHeld) drain(table, 2);
  Held& stored = table[at];
  stored.value = merged(stored.value, value, mask);
  stored.mask |= mask;
  stored.waves |= 1U << wave_ % 32;
  stored.unit = unit();
  stored.through |= scope >= Scope::kAgent;
}

void MemoryModel::settle(uint64_t at) {
  DwordTable<Held>& table = held_of(slot_, wave_);
  if (Held* own = table.find(at)) {
    commit(at, *own);
    own->mask = 0;
  }
  if (!is_cdna()) return;
  if (Held* dirty = l2_[cache()].find(at)) {
    commit_to_memory(at, *dirty);
    dirty->mask = 0;
  }
}

void MemoryModel::changed(uint64_t at, uint32_t before) {
  const uint32_t after = memory_at(at);
  if (after != before) note_version(at, before, after, unit());
}

void MemoryModel::wait_for_stores() {
  DwordTable<Held>& table = held_of(slot_, wave_);
  if (table.size() == 0) return;
  table.filter([&](uint64_t at, const Held& stored) {
    if (is_cdna() && (stored.waves >> wave_ % 32 & 1) == 0) return true;
    commit(at, stored);
    return false;
  });
}

void MemoryModel::write_back() {
  if (!is_cdna()) return;
  l2_[cache()].filter([&](uint64_t at, const Held& stored) {
    commit_to_memory(at, stored);
    return false;
  });
}

void MemoryModel::invalidate(Scope up_to) {
  near_[unit()] = time_;
  if (up_to >= Scope::kAgent) far_[is_cdna() ? cache() : slot_] = time_;
}

}  // namespace emulated_hip
