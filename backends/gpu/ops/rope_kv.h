// Operands of rope_kv_write, which attention_step has too, and of the caches that attention reads.
#pragma once

#include <optional>

#include "backends/gpu/ops/kv_views.h"

namespace gabbro::gpu {

// The types that fast kernels are made for.
inline bool is_common(KvType type) { return type == KvType::kF16 || type == KvType::kI8; }

// Both sides of a cache, of one type. `scales` are the keys' and the values', or null.
bool read_kv(const abi::TensorView& keys, const abi::TensorView& values, const abi::TensorView* scales, KvShape& kv,
             KvType& type);

struct RopeKvRequest {
  RopeArgs rope{};
  KvShape kv{};
  KvType type{};
};
// None: the request has other operands.
std::optional<RopeKvRequest> read_rope_kv(const abi::KernelRequest& request);

}  // namespace gabbro::gpu
