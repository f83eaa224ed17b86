// The operands of ops on the paged cache, as kernels take them.
#pragma once

#include <bit>
#include <optional>

#include "backends/common/request.h"
#include "backends/gpu/kernel.h"
#include "kernels/attention/kv_cache.h"

namespace gabbro::gpu {

// Activations [T, heads, D], the last axis contiguous.
inline bool is_heads(const abi::TensorView& x) {
  return is_plain(x, DType::f32) && x.rank == 3 && elements(x) > 0 && (x.strides[2] == 1 || x.shape[2] == 1);
}
inline HeadsView heads_view(const abi::TensorView& x) {
  return {static_cast<const float*>(x.data), static_cast<i32>(x.shape[1]), x.strides[0], x.strides[1]};
}

inline bool is_ids(const abi::TensorView& view, int64_t count) { return has_shape(view, DType::i32, {count}); }
inline bool is_page_table(const abi::TensorView& view) {
  return view.rank == 2 && has_shape(view, DType::i32, {view.shape[0], view.shape[1]});
}
inline PageTable page_table(const abi::TensorView& view) {
  return {static_cast<const i32*>(view.data), static_cast<i32>(view.shape[0]), static_cast<i32>(view.shape[1])};
}

// Nothing for a dtype that no cache has.
inline std::optional<KvType> kv_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return KvType::kF32;
    case DType::bf16:
      return KvType::kBf16;
    case DType::f16:
      return KvType::kF16;
    case DType::i8:
      return KvType::kI8;
    case DType::u8:
      return KvType::kU4;
    default:
      return std::nullopt;
  }
}
// The suffix of kernels' names.
constexpr const char* type_suffix(KvType type) {
  constexpr const char* kNames[] = {"f16", "i8", "f32", "bf16", "u4"};
  return kNames[static_cast<int>(type)];
}

// The type and shape of one side of a cache; false where `cache` (and `scale`, null for types without) is not one.
inline bool read_kv_shape(const abi::TensorView& cache, const abi::TensorView* scale, bool keys, KvShape& shape,
                          KvType& kv_type) {
  const std::optional<KvType> type = kv_type_of(cache.dtype);
  if (cache.rank != 4 || !is_contiguous(cache) || !type || has_scales(*type) != (scale != nullptr)) return false;
  kv_type = *type;
  const int64_t pages = cache.shape[0], heads = cache.shape[1],
                dim = cache.shape[keys ? 2 : 3] * (kv_type == KvType::kU4 ? 2 : 1), page = cache.shape[keys ? 3 : 2];
  if (pages < 1 || heads < 1 || dim < 1 || dim > (keys ? kMaxHeadDim : kMaxValueDim) ||
      !std::has_single_bit(static_cast<uint64_t>(page)))
    return false;
  shape = {static_cast<i32>(pages), static_cast<i32>(heads), static_cast<i32>(dim), static_cast<i32>(page),
           std::countr_zero(static_cast<uint64_t>(page))};
  if (scale == nullptr) return true;
  if (dim % kScaleGroup != 0) return false;
  return keys ? has_shape(*scale, DType::f16, {pages, heads, dim / kScaleGroup, page})
              : has_shape(*scale, DType::f16, {pages, heads, page, dim / kScaleGroup});
}
inline bool same(const KvShape& a, const KvShape& b) {
  return a.pages == b.pages && a.heads == b.heads && a.dim == b.dim && a.page == b.page;
}

inline KvSide side(const abi::Launch& launch, int cache, int scale) {
  return {launch.inputs[cache].data, scale < 0 ? nullptr : static_cast<Half*>(launch.inputs[scale].data)};
}

}  // namespace gabbro::gpu
