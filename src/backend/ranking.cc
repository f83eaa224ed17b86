#include "src/backend/ranking.h"

namespace gabbro {
namespace {

enum Kind { kDiscrete, kIntegrated, kCpu, kTooSmall, kUnusable };

Kind kind_of(const abi::DeviceFacts& facts) {
  if (!facts.usable) return kUnusable;
  if (facts.wave_size == 1) return kCpu;
  if (!facts.integrated) return kDiscrete;
  return facts.memory_free >= kLeastIntegratedMemory ? kIntegrated : kTooSmall;
}

}  // namespace

Rank rank_of(const abi::DeviceFacts& facts, int32_t score) {
  return {kind_of(facts), -score, -static_cast<int64_t>(facts.memory_free >> 30)};
}

}  // namespace gabbro
