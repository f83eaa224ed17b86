#include "backends/gpu/accesses.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "backends/common/request.h"
#include "backends/gpu/pack.h"

namespace gabbro::gpu {
namespace {

api::Access access_of(const abi::TensorView& view, bool writes) {
  if (view.layout == abi::Layout::kPacked)
    return {view.data, packed_bytes(view.dtype, view.shape[0], view.shape[1]), writes};
  if (abi::elements(view) == 0) return {view.data, 0, writes};
  int64_t first = 0, last = 0;  // elements, from where the view begins
  for (int axis = 0; axis < view.rank; ++axis) {
    const int64_t end = (view.shape[axis] - 1) * view.strides[axis];
    (end < 0 ? first : last) += end;
  }
  const auto* const begin = static_cast<const std::byte*>(view.data);
  const int64_t before = first < 0 ? static_cast<int64_t>(dtype_bytes(view.dtype, static_cast<size_t>(-first))) : 0;
  return {begin - before, dtype_bytes(view.dtype, static_cast<size_t>(last - first + 1)), writes};
}

}  // namespace

std::vector<api::Access> accesses_of(const abi::Launch& launch, size_t scratch_bytes) {
  std::vector<api::Access> accesses;
  for (int32_t i = 0; i < launch.input_count; ++i) accesses.push_back(access_of(launch.inputs[i], false));
  for (int32_t i = 0; i < launch.output_count; ++i) accesses.push_back(access_of(launch.outputs[i], true));
  accesses.push_back({launch.scratch, scratch_bytes, true});
  std::erase_if(accesses, [](const api::Access& access) { return access.memory == nullptr || access.bytes == 0; });
  return accesses;
}

void WrittenMemory::add(const abi::Launch& launch, size_t scratch_bytes) {
  for (const api::Access& access : accesses_of(launch, scratch_bytes)) {
    if (access.writes) writes_.push_back(access);
  }
}

bool WrittenMemory::touches(const abi::TensorView& view) const {
  const api::Access read = access_of(view, false);
  const auto begin = [](const api::Access& access) { return reinterpret_cast<uintptr_t>(access.memory); };
  return std::ranges::any_of(writes_, [&](const api::Access& write) {
    return begin(write) < begin(read) + read.bytes && begin(read) < begin(write) + write.bytes;
  });
}

}  // namespace gabbro::gpu
