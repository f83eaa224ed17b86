#include "src/engine/streaming/placement.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <span>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/engine/streaming/device_memory.h"
#include "src/engine/streaming/move_rows.h"
#include "src/models/llm/registry.h"

namespace gabbro::streaming {
namespace {

// Weights with the most uses per byte stay first: attention next to norms and routers, then the weights that every
// token reads, then the experts, because a token reads only a few of them.
int rank_of(const std::string& name) {
  if (name.find(".attn_") != name.npos) return 1;
  if (name.find("_exps.") != name.npos) return 3;
  return 2;
}

int64_t layer_of_matrix(const std::string& name) {
  constexpr size_t kPrefix = 4;
  return name.starts_with("blk.") ? std::stoll(name.substr(kPrefix)) : -1;
}

// Parts of a fused matrix are packed separately, and the rows of each are rounded up.
uint64_t parts_of(const std::string& name) {
  if (name.find(".attn_qkv.") != name.npos) return 3;
  return name.find(".ffn_up.") != name.npos ? 2 : 0;
}

struct Ring {
  uint64_t largest_layer = 0, largest_matrix = 0;
  // The matrices of a layer are contiguous in the ring. A layer that would cross its end leaves a gap there.
  uint64_t smallest() const { return largest_layer + largest_matrix; }
};

Ring ring_of(const std::vector<PlacedMatrix>& matrices) {
  std::map<int64_t, uint64_t> layers;
  Ring ring;
  for (const PlacedMatrix& m : matrices) {
    if (m.home == PlacedMatrix::Home::kDevice || m.home == PlacedMatrix::Home::kByNeed) continue;
    layers[m.layer] += m.ring_bytes;
    ring.largest_matrix = std::max(ring.largest_matrix, m.ring_bytes);
  }
  for (const auto& [layer, bytes] : layers) ring.largest_layer = std::max(ring.largest_layer, bytes);
  return ring;
}

void stream_all(std::vector<PlacedMatrix>& matrices) {
  for (PlacedMatrix& m : matrices) {
    m.home = m.ring_bytes == 0 ? PlacedMatrix::Home::kDevice
             : m.experts > 0   ? PlacedMatrix::Home::kByNeed
                               : PlacedMatrix::Home::kFile;
  }
}

// Pools of the matrices that are read on demand, with slots for the experts of one token.
std::vector<ExpertPool> pools_of(const std::vector<PlacedMatrix>& matrices) {
  std::map<int64_t, ExpertPool> layers;
  std::map<int64_t, std::string> kinds;
  for (const PlacedMatrix& m : matrices) {
    if (m.home != PlacedMatrix::Home::kByNeed) continue;
    ExpertPool& layer = layers[m.layer];
    layer.experts = m.experts;
    layer.used = layer.slots = m.used;
    layer.slot_bytes += m.slot_bytes;
    kinds[m.layer] +=
        fmt::format("{} {} {} {};", m.name.substr(m.name.find('.', 4)), dtype_name(m.dtype), m.row_bytes, m.file_bytes);
  }
  std::map<std::string, ExpertPool> pools;
  for (auto& [number, layer] : layers) {
    ExpertPool& pool = pools.try_emplace(kinds[number], layer).first->second;
    pool.prefixes.push_back(fmt::format("blk.{}.", number));
  }
  std::vector<ExpertPool> all;
  for (auto& [kind, pool] : pools) all.push_back(std::move(pool));
  return all;
}

uint64_t bytes_of(const std::vector<ExpertPool>& pools) {
  uint64_t bytes = 0;
  for (const ExpertPool& pool : pools) bytes += static_cast<uint64_t>(pool.slots) * pool.slot_bytes;
  return bytes;
}

// Adds slots within `memory` bytes, the same number for each layer.
void widen(std::vector<ExpertPool>& pools, uint64_t memory) {
  uint64_t all = 0;
  for (const ExpertPool& pool : pools) all += pool.prefixes.size() * pool.slot_bytes;
  for (ExpertPool& pool : pools) {
    const auto layers = static_cast<double>(pool.prefixes.size());
    const auto more = static_cast<int64_t>(static_cast<double>(memory) * layers / static_cast<double>(all));
    pool.slots = std::min(pool.slots + more, std::ssize(pool.prefixes) * pool.experts);
  }
}

uint64_t resident(const std::vector<PlacedMatrix>& matrices) {
  uint64_t bytes = 0;
  for (const PlacedMatrix& m : matrices) bytes += m.home == PlacedMatrix::Home::kDevice ? m.device_bytes : 0;
  return bytes;
}

// Indices of the matrices that can be streamed; the ones that stay on the device longest come first.
std::vector<size_t> in_order(const std::vector<PlacedMatrix>& matrices) {
  std::vector<size_t> order;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i].ring_bytes > 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return matrices[i].rank; });
  return order;
}

// Keeps the matrices that fit next to the ring. While a layer runs, the next ones are read to the rest of the ring.
// Room for its largest matrix is enough if reading takes much longer than computing; with much memory the ring holds
// two layers.
bool fill(std::vector<PlacedMatrix>& matrices, uint64_t memory, uint64_t* ring_bytes, std::vector<ExpertPool>* pools) {
  constexpr uint64_t kPart = 16;  // 1/16 of the memory, for reading ahead
  stream_all(matrices);
  const Ring all = ring_of(matrices);
  const uint64_t most = std::max(all.smallest(), 2 * all.largest_layer);
  *ring_bytes = std::clamp(memory / kPart, all.smallest(), most);
  *pools = pools_of(matrices);
  uint64_t used = resident(matrices) + *ring_bytes + bytes_of(*pools);
  if (used > memory) return false;
  for (const size_t i : in_order(matrices)) {
    PlacedMatrix& m = matrices[i];
    if (m.home == PlacedMatrix::Home::kByNeed || used + m.device_bytes > memory) continue;
    m.home = PlacedMatrix::Home::kDevice;
    used += m.device_bytes;
  }
  widen(*pools, memory - used);
  return true;
}

// Puts the most used streamed matrices in host memory.
void fill_host(std::vector<PlacedMatrix>& matrices, uint64_t memory) {
  for (const size_t i : in_order(matrices)) {
    PlacedMatrix& m = matrices[i];
    if (m.home != PlacedMatrix::Home::kFile || m.host_bytes > memory) continue;
    m.home = PlacedMatrix::Home::kHost;
    memory -= m.host_bytes;
  }
}

uint64_t process_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, pages = 0;
  file >> size >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string mib(uint64_t bytes) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  return fmt::format("{} MiB", (bytes + kMiB - 1) / kMiB);
}

WeightStream::Choice Placement::choice(const StreamSizes& sizes) const {
  WeightStream::Choice choice{.resident_bytes = resident_bytes, .sizes = sizes, .pools = pools};
  choice.sizes.ring_bytes = ring_bytes;
  for (const PlacedMatrix& m : matrices) {
    if (m.ring_bytes > 0) choice.largest_row = std::max(choice.largest_row, m.row_bytes);
    if (m.home == PlacedMatrix::Home::kFile || m.home == PlacedMatrix::Home::kHost) choice.streamed.push_back(m.name);
    if (m.home == PlacedMatrix::Home::kHost) choice.in_host.push_back(m.name);
  }
  std::ranges::sort(choice.streamed);
  std::ranges::sort(choice.in_host);
  return choice;
}

uint64_t smallest_budget(std::vector<PlacedMatrix> matrices, const FixedMemory& fixed) {
  stream_all(matrices);
  return fixed.total() + resident(matrices) + ring_of(matrices).smallest() + bytes_of(pools_of(matrices));
}

Placement place(std::vector<PlacedMatrix> matrices, const FixedMemory& fixed, const MemoryBudget& budget,
                const std::string& where) {
  Placement placement{.fixed = fixed};
  const auto all_fit = [&] { return fixed.total() - fixed.buffers + resident(matrices) <= budget.device; };
  for (PlacedMatrix& m : matrices) m.home = PlacedMatrix::Home::kDevice;
  if (budget.host > 0) {  // experts in host memory are copied with their layer
    for (PlacedMatrix& m : matrices) m.experts = 0;
  }
  if (budget.device > 0 && !all_fit()) {
    if (budget.device < fixed.total() ||
        !fill(matrices, budget.device - fixed.total(), &placement.ring_bytes, &placement.pools)) {
      throw Error(ErrorCode::kNoDevice,
                  fmt::format("{} of memory on {} are not enough to stream the model: {} are the least (program {}, "
                              "cache {}, scratch and buffers {}, the rest for embeddings, head and one layer)",
                              mib(budget.device), where, mib(smallest_budget(matrices, fixed)), mib(fixed.program),
                              mib(fixed.kv_cache), mib(fixed.scratch + fixed.buffers)),
                  "a shorter --ctx or --kv-type q8_0 makes the cache smaller");
    }
    fill_host(matrices, budget.host);
  }
  for (const PlacedMatrix& m : matrices) {
    if (m.home == PlacedMatrix::Home::kDevice) {
      placement.resident_bytes += m.device_bytes;
      continue;
    }
    uint64_t bytes = m.home == PlacedMatrix::Home::kHost ? m.device_bytes : m.file_bytes;
    if (m.home == PlacedMatrix::Home::kByNeed)
      bytes = bytes / static_cast<uint64_t>(m.experts) * static_cast<uint64_t>(m.used);
    placement.bytes_per_pass += bytes;
    if (m.home == PlacedMatrix::Home::kHost) placement.host_bytes += bytes;
    if (m.home != PlacedMatrix::Home::kHost) placement.file_bytes_per_pass += bytes;
  }
  placement.matrices = std::move(matrices);
  return placement;
}

uint64_t bytes_on(const Device& device, const llm::ModelMatrix& m) {
  const uint64_t packed = device.matrix_bytes(m.dtype, m.rows, m.columns);
  return MemoryBlock::rounded(packed > 0 ? packed : dtype_bytes(m.dtype, static_cast<size_t>(m.rows * m.columns)));
}

namespace {

PlacedMatrix placed(const std::string& name, std::span<const llm::ModelMatrix> made, bool can_stream,
                    const Device& device) {
  PlacedMatrix m{.name = name, .layer = layer_of_matrix(name), .rank = rank_of(name)};
  for (const llm::ModelMatrix& matrix : made) {
    m.row_bytes = std::max(m.row_bytes, dtype_bytes(matrix.dtype, static_cast<size_t>(matrix.columns)));
    const uint64_t stored = dtype_bytes(matrix.dtype, static_cast<size_t>(matrix.rows * matrix.columns));
    m.file_bytes += stored;
    m.device_bytes += bytes_on(device, matrix);
    m.host_bytes += std::max(stored, bytes_on(device, matrix));
    const bool experts = name.find("_exps.") != name.npos;  // they never go through a GEMM library
    if (!experts && !device.host_accessible())
      m.converted_bytes = std::max(m.converted_bytes, converted_bytes(matrix.dtype, matrix.rows, matrix.columns));
    if (m.layer < 0 || !can_stream) continue;
    m.ring_bytes += ring_bytes_of(device, matrix.dtype, matrix.rows, matrix.columns) +
                    parts_of(name) * ring_bytes_of(device, matrix.dtype, abi::kPackRows, matrix.columns);
  }
  m.dtype = made.front().dtype;
  m.made.assign(made.begin(), made.end());
  return m;
}

// Experts of a matrix are read on demand if each of them is packed separately.
void set_experts(PlacedMatrix& m, const llm::ExpertsSize& size, const Device& device) {
  if (m.ring_bytes == 0 || size.used <= 0 || size.used >= size.experts) return;
  const size_t packed = device.matrix_bytes(m.dtype, size.rows, size.columns);
  if (packed > 0 && (size.rows % abi::kPackRows != 0 ||
                     device.matrix_bytes(m.dtype, size.used * size.rows, size.columns) != size.used * packed))
    return;
  m.experts = size.experts;
  m.used = size.used;
  m.slot_bytes = packed > 0 ? packed : dtype_bytes(m.dtype, static_cast<size_t>(size.rows * size.columns));
}

// All matrices of a layer, or none.
void agree_on_experts(std::vector<PlacedMatrix>& matrices) {
  std::map<int64_t, bool> whole;  // by layer
  const auto is_expert = [](const PlacedMatrix& m) { return rank_of(m.name) == 3 && !m.name.ends_with(".bias"); };
  for (const PlacedMatrix& m : matrices) {
    if (is_expert(m)) whole[m.layer] = whole[m.layer] || m.experts == 0;
  }
  for (PlacedMatrix& m : matrices) {
    if (is_expert(m) && whole[m.layer]) m.experts = 0;
  }
}

}  // namespace

std::vector<PlacedMatrix> matrices_of(const Checkpoint& checkpoint, const Device& device) {
  const auto names = llm::family_of(checkpoint).names;
  std::vector<PlacedMatrix> matrices;
  for (const llm::RequestedTensor& t : llm::plan_of(checkpoint).tensors) {
    if (t.shape.size() < 2) continue;
    matrices.push_back(
        placed(t.name, llm::model_matrices(names, checkpoint, t), llm::has_stored_rows(names, checkpoint, t), device));
    set_experts(matrices.back(), t.experts, device);
  }
  agree_on_experts(matrices);
  return matrices;
}

std::vector<PlacedMatrix> matrices_of(const llm::ModelPlan& plan, const FileType& type, const Device& device) {
  const std::vector<llm::PlannedTensor> types = llm::planned_tensors(plan, type);
  std::vector<PlacedMatrix> matrices;
  for (size_t i = 0; i < types.size(); ++i) {
    const llm::PlannedTensor& t = types[i];
    if (t.shape.size() < 2) continue;
    const llm::ModelMatrix matrix = {t.dtype, t.elements() / t.shape.back(), t.shape.back()};
    matrices.push_back(placed(t.name, {&matrix, 1}, !plan.tensors[i].in_f32, device));
    set_experts(matrices.back(), t.experts, device);
  }
  agree_on_experts(matrices);
  return matrices;
}

uint64_t largest_layer(const std::vector<PlacedMatrix>& matrices) {
  std::map<int64_t, uint64_t> layers;
  for (const PlacedMatrix& m : matrices) {
    if (m.ring_bytes > 0) layers[m.layer] += m.file_bytes;
  }
  uint64_t largest = 0;
  for (const auto& [layer, bytes] : layers) largest = std::max(largest, bytes);
  return largest;
}

namespace {

// Scratch of converted weights, and the rounding of the pool. `activations`: of a prompt chunk, between layers.
void add_of_gpu(FixedMemory& fixed, const ModelNeeds& needs, const std::vector<PlacedMatrix>& matrices,
                uint64_t activations) {
  uint64_t of_matrices = 0, converted = 0, experts = 0;
  for (const PlacedMatrix& m : matrices) {
    of_matrices += m.device_bytes;
    converted = std::max(converted, m.converted_bytes);
    experts += m.experts > 0 ? m.device_bytes : 0;
  }
  fixed.scratch += converted;
  constexpr uint64_t kSmallest = 512, kVectorsOfLayer = 16;
  fixed.vectors += static_cast<uint64_t>(needs.shape.layers + 1) * kVectorsOfLayer * kSmallest;
  constexpr uint64_t kResults = 3, kSlots = 6;  // slots: gate, up and down of experts of two sizes
  const uint64_t block = pool_rounding(of_matrices);
  fixed.scratch +=
      block + pool_rounding(fixed.kv_cache) + pool_rounding(fixed.scratch) + kResults * pool_rounding(activations);
  const uint64_t ring = block;
  fixed.buffers +=
      ring + 2 * RowMover::kStages * pool_rounding(fixed.buffers) + (experts > 0 ? kSlots * pool_rounding(experts) : 0);
}

}  // namespace

FixedMemory fixed_memory(const ModelNeeds& needs, const std::vector<PlacedMatrix>& matrices, const Device& device,
                         uint64_t kv_bytes, int64_t context) {
  const int64_t chunk = prefill_chunk(device.facts());
  FixedMemory fixed{.kv_cache = kv_bytes, .scratch = scratch_bytes(needs.shape, context, chunk)};
  const auto activations = [&](int64_t tokens) {
    return static_cast<uint64_t>(std::min(tokens, context) * needs.shape.embedding) * sizeof(float);
  };
  fixed.scratch += activations(kStreamedChunk) + 2 * activations(chunk);  // between layers
  uint64_t of_matrices = 0;
  size_t largest_row = 0;
  for (const PlacedMatrix& m : matrices) {
    of_matrices += m.file_bytes;
    if (m.ring_bytes > 0) largest_row = std::max(largest_row, m.row_bytes);
  }
  fixed.vectors = needs.weight_bytes > of_matrices ? needs.weight_bytes - of_matrices : 0;
  const StreamOverhead overhead = overhead_of(device, default_sizes(device, largest_layer(matrices)), largest_row);
  const bool by_need = std::ranges::any_of(matrices, [](const PlacedMatrix& m) { return m.experts > 0; });
  const uint64_t streams = by_need ? 2 : 1;  // experts and layers have separate buffers
  fixed.buffers = streams * overhead.device;
  if (device.host_accessible()) {
    constexpr uint64_t kPlans = uint64_t{32} << 20;  // plans, threads, text: what is allocated later
    fixed.program = process_bytes() + kPlans;
    fixed.buffers += streams * overhead.host;
  } else {
    add_of_gpu(fixed, needs, matrices, activations(chunk));
  }
  return fixed;
}

}  // namespace gabbro::streaming
