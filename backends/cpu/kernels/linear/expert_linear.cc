// `expert_linear`: the products of `linear`, by expert. Tokens are grouped by expert into tiles, and each panel of an
// expert's weights is read once for all its tiles. Experts without tokens are not read.
#include <algorithm>

#include "backends/common/expert_request.h"
#include "backends/common/request.h"
#include "backends/cpu/index_fault.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/kernels/linear/linear_kernels.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t aligned_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class ExpertLinear : public Kernel, public IndexReader {
 public:
  ExpertLinear(const abi::KernelRequest& request, const abi::ExpertRequest& sizes, int workers);

  void run(const abi::Launch& launch, Worker& worker) const override;

 private:
  static constexpr int kMaxPanels = kFewPanels > 2 ? kFewPanels : 2;  // of an item

  // The slots (token, expert) sorted by expert, and the tiles of each expert's slots. Every worker
  // makes a copy: it is small, and none waits.
  struct Routing {
    int32_t* slots;       // [slots]
    int32_t* first_slot;  // [E + 1], in `slots`
    int32_t* first_tile;  // [E + 1]
    int32_t* active;      // [E]: experts with slots
    int32_t active_count = 0;

    int32_t tiles(int64_t experts) const { return first_tile[experts]; }
  };
  struct Panels {
    int64_t first = 0;
    int count = 0;
    const void* weights[kMaxPanels];
    UnpackedPanel unpacked[kMaxPanels];
  };
  // The products of a tile of tokens and a run of panels.
  struct TileResult {
    const float* y;        // [panels][width][16]
    const int32_t* slots;  // [used], of the tokens
    int used, width;       // tokens, and tokens with padding
  };

  int64_t routing_bytes() const { return aligned_64((sizes_.slots() + 3 * sizes_.experts + 2) * 4); }
  Routing route(const int32_t* ids, char* memory) const;
  int tile_slots(const Routing& routing, int64_t expert, int32_t tile) const;
  int tile_width(int used) const { return few_ ? used : (used + 3) / 4 * 4; }
  void prepare_tile(const abi::Launch& launch, const Routing& routing, int32_t tile, char* own, char* target) const;
  void load_panels(const std::byte* data, int64_t expert, int64_t item, char* own, Panels& panels) const;
  void multiply(const Panels& panels, const char* tile, int width, float* y) const;
  void store_rows(const Panels& panels, int64_t expert, const TileResult& result, float* out) const;

  abi::ExpertRequest sizes_;
  DType dtype_;
  bool packed_, few_, words_;
  int64_t row_step_, column_step_;  // bytes, where not packed
  int64_t panel_bytes_;
  int tile_slots_;       // of a whole tile
  int panels_per_item_;  // that are computed together
  int64_t items_per_expert_;
  ActivationPlan activations_;
  FewQuantized few_quantized_[kFewTokens] = {};
  FewPlain few_plain_[kFewTokens] = {};
  Unpack unpack_ = nullptr;
  MultiTokenI16 many_words_[kTileTokens / 4][2] = {};
  ManyPlain many_plain_[kTileTokens / 4][2] = {};
  int64_t tile_bytes_ = 0, shared_bytes_ = 0, worker_bytes_ = 0;
  int64_t repacked_bytes_ = 0, unpacked_bytes_ = 0;  // per panel of an item
};

ExpertLinear::ExpertLinear(const abi::KernelRequest& request, const abi::ExpertRequest& sizes, int workers)
    : IndexReader(abi::read_index_rule(request, sizes.experts)),
      sizes_(sizes),
      dtype_(request.inputs[1].dtype),
      packed_(request.inputs[1].layout == abi::Layout::kPacked),
      // Depends only on the number of tokens, as in `linear`: their routing must not change a bit.
      few_(sizes.tokens <= kFewTokens || sizes.slots() <= kFewTokens * sizes.experts),
      panel_bytes_(panel_bytes(dtype_, sizes.columns)),
      tile_slots_(few_ ? kFewTokens : kTileTokens),
      activations_{.columns = sizes.columns} {
  const abi::TensorView& weight = request.inputs[1];
  const DTypeInfo info = dtype_info(dtype_);
  row_step_ = weight.strides[0] / info.block_elements * info.block_bytes;
  column_step_ = weight.strides[1] * info.block_bytes;
  words_ = is_quantized(dtype_) || (!few_ && dtype_ != DType::f32 && sizes.columns % kChunk == 0);
  (words_ ? activations_.words : few_ ? activations_.rows : activations_.plain) = true;
  for (int width = 1; few_ && width <= kFewTokens; ++width) {
    if (words_) few_quantized_[width - 1] = few_quantized(dtype_, width);
    if (!words_) few_plain_[width - 1] = few_plain(dtype_, width);
  }
  if (!few_ && words_) unpack_ = unpack_function(dtype_);
  for (int width = 4; !few_ && width <= kTileTokens; width += 4) {
    for (int count = 1; count <= 2; ++count) {
      if (words_) many_words_[width / 4 - 1][count - 1] = multi_token_i16(dtype_, width, count);
      if (!words_) many_plain_[width / 4 - 1][count - 1] = many_plain(dtype_, width, count);
    }
  }
  const Packing p = packing_of(dtype_);
  if (p.minimum || (few_ && p.zero != 0))
    activations_.sums.push_back({.group = p.group, .zero = p.zero, .minimum = p.minimum});
  panels_per_item_ = !few_ ? kTileVectors : words_ ? 1 : kFewPanels;
  const int64_t panels = panel_count(sizes.rows) + (packed_ && sizes.rows % kPanelRows != 0 ? 1 : 0);
  items_per_expert_ = (panels + panels_per_item_ - 1) / panels_per_item_;

  const bool in_place = few_ && !words_ && column_step_ == info.block_bytes;
  if (!packed_ && !in_place) repacked_bytes_ = aligned_64(panel_bytes_);
  if (unpack_ != nullptr) unpacked_bytes_ = aligned_64(UnpackedPanel::bytes(dtype_, sizes.columns));
  tile_bytes_ = activations_.tile_bytes(tile_slots_);
  shared_bytes_ = (sizes.slots() / tile_slots_ + sizes.most_read()) * tile_bytes_;
  worker_bytes_ = routing_bytes() + panels_per_item_ * (repacked_bytes_ + unpacked_bytes_) +
                  (tile_slots_ + 1) * activations_.row_bytes();
  scratch_bytes = static_cast<size_t>(shared_bytes_ + workers * worker_bytes_);

  const auto slots = static_cast<double>(sizes.slots()), rows = static_cast<double>(sizes.rows);
  const auto depth = static_cast<double>(sizes.columns);
  bytes = static_cast<double>(sizes.most_read()) * rows * static_cast<double>(panel_bytes_) / kPanelRows +
          slots * (rows + 1) * 4 + static_cast<double>(sizes.own_rows ? sizes.slots() : sizes.tokens) * depth * 4;
  flops = 2 * slots * rows * depth;
  implementation = "expert_linear " + std::string(dtype_name(dtype_));
}

ExpertLinear::Routing ExpertLinear::route(const int32_t* ids, char* memory) const {
  const int64_t experts = sizes_.experts, slots = sizes_.slots();
  auto* at = reinterpret_cast<int32_t*>(memory);
  Routing routing = {.slots = at,
                     .first_slot = at + slots,
                     .first_tile = at + slots + experts + 1,
                     .active = at + slots + 2 * (experts + 1)};
  std::fill_n(routing.first_slot, experts + 1, 0);
  for (int64_t s = 0; s < slots; ++s) {
    if (const int64_t expert = position(ids[s]); expert >= 0) ++routing.first_slot[expert + 1];
  }
  routing.first_tile[0] = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int32_t count = routing.first_slot[e + 1];
    if (count > 0) routing.active[routing.active_count++] = static_cast<int32_t>(e);
    routing.first_tile[e + 1] = routing.first_tile[e] + (count + tile_slots_ - 1) / tile_slots_;
    routing.first_slot[e + 1] += routing.first_slot[e];
  }
  // In the order of the slots. The starts move up to the next ones meanwhile, and back.
  for (int64_t s = 0; s < slots; ++s) {
    if (const int64_t expert = position(ids[s]); expert >= 0)
      routing.slots[routing.first_slot[expert]++] = static_cast<int32_t>(s);
  }
  for (int64_t e = experts; e > 0; --e) routing.first_slot[e] = routing.first_slot[e - 1];
  routing.first_slot[0] = 0;
  return routing;
}

int ExpertLinear::tile_slots(const Routing& routing, int64_t expert, int32_t tile) const {
  const int32_t first = routing.first_slot[expert] + (tile - routing.first_tile[expert]) * tile_slots_;
  return std::min(tile_slots_, routing.first_slot[expert + 1] - first);
}

void ExpertLinear::prepare_tile(const abi::Launch& launch, const Routing& routing, int32_t tile, char* own,
                                char* target) const {
  const int64_t expert =
      std::upper_bound(routing.first_tile, routing.first_tile + sizes_.experts + 1, tile) - routing.first_tile - 1;
  const int used = tile_slots(routing, expert, tile);
  const int32_t* slots = routing.slots + routing.first_slot[expert] + (tile - routing.first_tile[expert]) * tile_slots_;
  auto* row = reinterpret_cast<float*>(own + routing_bytes() + panels_per_item_ * (repacked_bytes_ + unpacked_bytes_));
  float* const gathered = row + activations_.row_bytes() / 4;
  const auto* x = static_cast<const float*>(launch.inputs[0].data);
  for (int i = 0; i < used; ++i)
    std::copy_n(x + sizes_.row_of(slots[i]) * sizes_.columns, sizes_.columns, gathered + i * sizes_.columns);
  activations_.prepare({.x = gathered, .norm_weight = nullptr, .used = used, .width = tile_width(used)},
                       {0, sizes_.columns}, target, row);
}

// Panels of the packed matrix may have rows of two experts, if the rows of one are not whole panels.
void ExpertLinear::load_panels(const std::byte* data, int64_t expert, int64_t item, char* own, Panels& panels) const {
  const int64_t begin = packed_ ? expert * sizes_.rows / kPanelRows : 0;
  const int64_t end = packed_ ? panel_count((expert + 1) * sizes_.rows) : panel_count(sizes_.rows);
  panels.first = begin + item * panels_per_item_;
  panels.count = static_cast<int>(std::clamp<int64_t>(end - panels.first, 0, panels_per_item_));
  const std::byte* const rows = data + (packed_ ? 0 : expert * sizes_.rows * row_step_);
  char* memory = own + routing_bytes();
  for (int i = 0; i < panels.count; ++i) {
    const int64_t panel = panels.first + i;
    if (packed_) {
      panels.weights[i] = rows + panel * panel_bytes_;
    } else if (repacked_bytes_ == 0) {
      panels.weights[i] = rows + panel * kPanelRows * row_step_;
    } else {
      char* const target = memory + i * repacked_bytes_;
      const StridedMatrix matrix = {rows, dtype_, sizes_.rows, sizes_.columns, row_step_, column_step_};
      few_ && !words_ ? gather_rows(matrix, panel, target) : pack_panel(matrix, panel, target);
      panels.weights[i] = target;
    }
    if (unpack_ == nullptr) continue;
    panels.unpacked[i] =
        UnpackedPanel::at(memory + panels_per_item_ * repacked_bytes_ + i * unpacked_bytes_, sizes_.columns);
    unpack_(panels.weights[i], sizes_.columns, panels.unpacked[i]);
  }
}

// y: [panels][width][16].
void ExpertLinear::multiply(const Panels& panels, const char* tile, int width, float* y) const {
  const int64_t columns = sizes_.columns;
  const int count = panels.count, w = width / 4 - 1;
  if (unpack_ != nullptr) {
    many_words_[w][count - 1](panels.unpacked, columns, activations_.word_tile(tile, width, 0), y);
  } else if (!few_) {
    many_plain_[w][count - 1](panels.weights, columns, activations_.plain_tile(tile), y);
  } else if (words_) {
    const WordTile x = activations_.word_tile(tile, width, 0);
    for (int i = 0; i < count; ++i)
      few_quantized_[width - 1](panels.weights[i], columns, x, y + i * width * kPanelRows);
  } else if (repacked_bytes_ == 0) {
    const int64_t rows = std::min<int64_t>(count * kPanelRows, sizes_.rows - panels.first * kPanelRows);
    few_plain_[width - 1]({.first = static_cast<const std::byte*>(panels.weights[0]),
                           .step = row_step_,
                           .count = static_cast<int>(rows),
                           .columns = columns},
                          activations_.plain_tile(tile), width, y);
  } else {
    for (int i = 0; i < count; ++i) {
      const int64_t rows = std::min<int64_t>(kPanelRows, sizes_.rows - (panels.first + i) * kPanelRows);
      few_plain_[width - 1]({.first = static_cast<const std::byte*>(panels.weights[i]),
                             .step = columns * dtype_info(dtype_).block_bytes,
                             .count = static_cast<int>(rows),
                             .columns = columns},
                            activations_.plain_tile(tile), width, y + i * width * kPanelRows);
    }
  }
}

// Out of the panels' [width][16] into the rows of the output.
void ExpertLinear::store_rows(const Panels& panels, int64_t expert, const TileResult& result, float* out) const {
  const int64_t rows = sizes_.rows;
  for (int i = 0; i < panels.count; ++i) {
    const int64_t first = (panels.first + i) * kPanelRows - (packed_ ? expert * rows : 0);  // in the expert's rows
    const int64_t begin = std::max<int64_t>(0, -first), end = std::min<int64_t>(kPanelRows, rows - first);
    for (int t = 0; t < result.used; ++t) {
      const float* const from = result.y + (i * result.width + t) * kPanelRows;
      std::copy(from + begin, from + end, out + result.slots[t] * rows + first + begin);
    }
  }
}

void ExpertLinear::run(const abi::Launch& launch, Worker& worker) const {
  auto* shared = static_cast<char*>(launch.scratch);
  char* own = shared + shared_bytes_ + worker.index() * worker_bytes_;
  const auto* ids = static_cast<const int32_t*>(launch.inputs[2].data);
  const auto* weights = static_cast<const std::byte*>(launch.inputs[1].data);
  auto* out = static_cast<float*>(launch.outputs[0].data);
  const Routing routing = route(ids, own);
  const int32_t routed = routing.first_slot[sizes_.experts];
  for (int64_t s = 0; worker.index() == 0 && routed < sizes_.slots() && s < sizes_.slots(); ++s) {
    if (position(ids[s]) < 0) std::fill_n(out + s * sizes_.rows, sizes_.rows, 0.0f);
  }
  worker.parallel_for(routing.tiles(sizes_.experts), 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile)
      prepare_tile(launch, routing, static_cast<int32_t>(tile), own, shared + tile * tile_bytes_);
  });
  worker.barrier();
  // A worker has a run of neighboring panels: one stream of addresses.
  worker.stream_for(routing.active_count * items_per_expert_, 1, [&](int64_t index, int64_t) {
    alignas(64) float y[std::max(kMaxPanels * kFewTokens, 2 * kTileTokens) * kPanelRows];
    const int64_t expert = routing.active[index / items_per_expert_];
    Panels panels;
    load_panels(weights, expert, index % items_per_expert_, own, panels);
    for (int32_t tile = routing.first_tile[expert]; panels.count > 0 && tile < routing.first_tile[expert + 1]; ++tile) {
      const int used = tile_slots(routing, expert, tile), width = tile_width(used);
      multiply(panels, shared + tile * tile_bytes_, width, y);
      const int32_t* slots =
          routing.slots + routing.first_slot[expert] + (tile - routing.first_tile[expert]) * tile_slots_;
      store_rows(panels, expert, {.y = y, .slots = slots, .used = used, .width = width}, out);
    }
  });
}

}  // namespace

KernelPointer make_expert_linear(const abi::KernelRequest& request, const MakeContext& context) {
  const auto sizes = abi::read_expert_request(request, is_linear_weight);
  return sizes ? std::make_unique<ExpertLinear>(request, *sizes, context.workers) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
