#include "backends/gpu/packer.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "backends/common/dequantized.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/memory/staging.h"
#include "backends/gpu/pack.h"
#include "kernels/linear/pack.h"
#include "src/formats/quant/grids.h"

namespace gabbro::gpu {
namespace {

struct Lattice {
  DType format;
  std::span<const uint16_t> points;
};
const Lattice kLattices[] = {
    {DType::iq1_s, quant::kIq1SGrid},   {DType::iq1_m, quant::kIq1SGrid}, {DType::iq2_xxs, quant::kIq2XxsGrid},
    {DType::iq2_xs, quant::kIq2XsGrid}, {DType::iq2_s, quant::kIq2SGrid}, {DType::iq3_xxs, quant::kIq3XxsGrid},
    {DType::iq3_s, quant::kIq3SGrid},
};

// The lattice of a format; empty where it has none.
std::span<const uint16_t> lattice_of(DType dtype) {
  const auto* found = std::ranges::find(kLattices, dtype, &Lattice::format);
  return found == std::end(kLattices) ? std::span<const uint16_t>() : found->points;
}

void declare(api::Queue* queue, const abi::PackRequest& r, const void* source, void* target) {
  api::AccessCheck* const check = api::access_check();
  if (check == nullptr) return;
  const size_t source_bytes = dtype_bytes(r.dtype, static_cast<size_t>(r.row_count * r.columns));
  std::vector<api::Access> accesses = {{source, source_bytes, false}};
  for (const PlaneRows& rows : plane_rows(r))
    accesses.push_back({static_cast<std::byte*>(target) + rows.at, rows.bytes, true});
  check->enqueued(queue, "pack " + std::string(dtype_name(r.dtype)), std::move(accesses));
}

}  // namespace

std::string Packer::kernel_name(DType dtype) { return "pack_" + std::string(dtype_name(dtype)); }

const uint16_t* Packer::grid_of(DType dtype, api::Queue* queue) {
  const std::span<const uint16_t> lattice = lattice_of(dtype);
  if (lattice.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<uint16_t>& grid = grids_[dtype];
  if (grid == nullptr) {
    void* const memory = api::allocate(context_, lattice.size_bytes());
    if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for a format's lattice");
    grid = {static_cast<uint16_t*>(memory), [context = context_](uint16_t* p) { api::release(context, p); }};
    api::copy_to_device(queue, grid.get(), lattice.data(), lattice.size_bytes());
    api::synchronize(queue);  // other queues use it too
  }
  return grid.get();
}

void Packer::pack(api::Queue* queue, const api::Function* function, const abi::PackRequest& r, const void* source,
                  void* target) {
  const uint16_t* const grid = grid_of(r.dtype, queue);
  declare(queue, r, source, target);
  if (function == nullptr) return pack_on_host(queue, r, source, target);
  const int64_t row_blocks = r.columns / kBlock;
  const PackArgs args = {.source = static_cast<const u8*>(source),
                         .target = static_cast<u8*>(target),
                         .grid = grid,
                         .layout = packed_layout(packing_of(quant_traits(r.dtype)), r.rows, r.columns),
                         .first_block = r.first_row * row_blocks,
                         .count = r.row_count * row_blocks,
                         .row_blocks = static_cast<i32>(row_blocks),
                         .row_bytes = static_cast<i64>(dtype_bytes(r.dtype, static_cast<size_t>(r.columns)))};
  Launcher{queue, nullptr}(function, {blocks_for(args.count, kPackThreads)}, args);
}

void Packer::pack_on_host(api::Queue* queue, const abi::PackRequest& r, const void* source, void* target) {
  std::vector<std::byte> blocks(dtype_bytes(r.dtype, static_cast<size_t>(r.row_count * r.columns)));
  copy_pieces_to_host(queue, blocks.data(), source, blocks.size());
  api::synchronize(queue);
  const std::vector<std::byte> packed = pack_matrix(r.dtype, r.row_count, r.columns, blocks.data());
  const abi::PackRequest own = {r.dtype, r.row_count, r.columns, 0, r.row_count};
  const std::vector<PlaneRows> from = plane_rows(own), to = plane_rows(r);
  for (size_t i = 0; i < to.size(); ++i)
    copy_pieces_to_device(queue, static_cast<std::byte*>(target) + to[i].at, packed.data() + from[i].at, to[i].bytes);
}

}  // namespace gabbro::gpu
