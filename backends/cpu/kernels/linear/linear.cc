#include "backends/cpu/kernels/linear/linear.h"

#include <algorithm>

#include "backends/common/request.h"
#include "backends/cpu/pack/codes.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kMinPartColumns = 128;  // of activations that one worker prepares for all

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

bool all_plain(std::span<const abi::TensorView> weights) {
  return std::ranges::none_of(weights, [](const abi::TensorView& weight) { return is_quantized(weight.dtype); });
}

}  // namespace

struct Linear::Pass {
  const abi::Launch& launch;
  char* shared;
  char* own;  // this worker's scratch

  const float* input(int index) const { return static_cast<const float*>(launch.inputs[index].data); }
};

Linear::Linear(const abi::KernelRequest& request, const LinearOptions& options, int workers)
    : options_(options),
      tiling_(elements(request.inputs[0]) / request.inputs[1].shape[1],
              all_plain({&request.inputs[1], static_cast<size_t>(options.count)})),
      columns_(request.inputs[1].shape[1]),
      activations_{.columns = columns_, .norm = options.norm, .epsilon = options.epsilon} {
  for (int m = 0; m < options.count; ++m) add_matrix(request.inputs[1 + m]);
  plan_items(workers);
  plan_scratch(workers);
  const auto tokens = static_cast<double>(tiling_.tokens());
  bytes = tokens * static_cast<double>(columns_) * 4;
  for (const Matrix& m : matrices_) {
    const auto rows = static_cast<double>(m.rows);
    bytes += static_cast<double>(m.panels * m.panel_bytes) + tokens * rows * 4;
    flops += 2 * tokens * rows * static_cast<double>(columns_);
  }
  implementation = std::string(request.op) + " " + std::string(dtype_name(matrices_[0].dtype));
}

void Linear::add_matrix(const abi::TensorView& weight) {
  const DType dtype = weight.dtype;
  const DTypeInfo info = dtype_info(dtype);
  Matrix m = {.dtype = dtype,
              .packed = weight.layout == abi::Layout::kPacked,
              .in_place = tiling_.few() && !is_quantized(dtype) && weight.strides[1] == 1,
              .rows = weight.shape[0],
              .row_step = weight.strides[0] / info.block_elements * info.block_bytes,
              .column_step = weight.strides[1] * info.block_bytes,
              .panels = panel_count(weight.shape[0]),
              .panel_bytes = panel_bytes(dtype, columns_)};
  const bool words = is_quantized(dtype) || (!tiling_.few() && dtype != DType::f32 && columns_ % kChunk == 0);
  (words ? activations_.words : tiling_.few() ? activations_.rows : activations_.plain) = true;
  const bool packed = is_quantized(dtype) && tiling_.packed();
  if (!tiling_.few() && options_.epilogue != Epilogue::kSiluMul) m.panels_per_item = kTileVectors;
  if (tiling_.few()) {
    const int width = tiling_.full_width();
    if (words) m.few_quantized = few_quantized(dtype, width);
    if (!words) m.few_plain = few_plain(dtype, width);
  } else if (packed) {
    for (int count = 1; count <= 2; ++count) {
      for (int w = 4; w <= kPackedTile; w += 4) m.packed_dot[w / 4 - 1][count - 1] = packed_dot(dtype, w, count);
    }
  } else {
    if (words) m.unpack = unpack_function(dtype);
    for (int w = 4; w <= kTileTokens; w += 4) {
      for (int count = 1; count <= 2; ++count) {
        if (words) m.multi_token_i16[w / 4 - 1][count - 1] = multi_token_i16(dtype, w, count);
        if (!words) m.many_plain[w / 4 - 1][count - 1] = many_plain(dtype, w, count);
      }
    }
  }
  // Unpacked levels have their zero at 0.
  const Packing p = packing_of(dtype);
  if (p.minimum || (packed && p.zero != 0)) {
    const GroupSums sums = {.group = p.group, .zero = p.zero, .minimum = p.minimum};
    const auto known = std::find(activations_.sums.begin(), activations_.sums.end(), sums);
    m.variant = static_cast<int>(known - activations_.sums.begin());
    if (known == activations_.sums.end()) activations_.sums.push_back(sums);
  }
  matrices_.push_back(m);
}

void Linear::plan_items(int workers) {
  const bool paired = options_.epilogue == Epilogue::kSiluMul;
  if (paired && tiling_.few()) {
    // Long runs of each matrix in turn: going from one to the other starts a new stream of addresses.
    Matrix& m = matrices_[0];
    m.panels_per_item = static_cast<int>(std::clamp<int64_t>(m.panels / (4 * workers), 1, kMaxItemPanels / 2));
  }
  for (Matrix& m : matrices_) {
    m.first_item = items_;
    items_ += (m.panels + m.panels_per_item - 1) / m.panels_per_item;
    item_panels_ = std::max(item_panels_, m.panels_per_item * (paired ? 2 : 1));
    if (paired) break;  // the second matrix goes with the first
  }
  const auto in_place = [](const Matrix& m) { return m.in_place; };
  if (!paired && tiling_.tokens() <= 2 && std::all_of(matrices_.begin(), matrices_.end(), in_place)) {
    item_panels_ = together_ = kFewPanels;
  }
  // Enough pieces for an even load, each large enough to be worth the shared counter (and the unpacking of its panel).
  const int64_t wanted = int64_t{8} * workers;
  const int64_t most = std::max<int64_t>(1, tiling_.count() / 4);
  pieces_ = std::clamp<int64_t>((wanted + items_ - 1) / items_, 1, most);
  tiles_per_piece_ = (tiling_.count() + pieces_ - 1) / pieces_;
  pieces_ = (tiling_.count() + tiles_per_piece_ - 1) / tiles_per_piece_;
  grain_ = std::clamp<int64_t>(items_ * pieces_ / wanted, 1, 16);
}

void Linear::plan_scratch(int workers) {
  for (const Matrix& m : matrices_) {
    if (!m.packed && !m.in_place) repacked_bytes_ = std::max(repacked_bytes_, aligned(m.panel_bytes));
    if (m.unpack != nullptr) {
      unpacked_bytes_ = std::max(unpacked_bytes_, aligned(UnpackedPanel::bytes(m.dtype, columns_)));
    }
  }
  const int64_t tile = activations_.tile_bytes(tiling_.full_width());
  if (tiling_.small_batch()) {
    column_parts_ =
        std::clamp<int64_t>(columns_ / kMinPartColumns, 1, (workers + tiling_.count() - 1) / tiling_.count());
  }
  if (!tiling_.few()) shared_bytes_ = tiling_.count() * tile;
  worker_bytes_ =
      item_panels_ * (repacked_bytes_ + unpacked_bytes_) + activations_.row_bytes() + (tiling_.few() ? tile : 0);
  scratch_bytes = static_cast<size_t>(shared_bytes_ + workers * worker_bytes_);
}

// Every worker prepares a copy: it is small, and no worker waits.
const char* Linear::prepare_few(const Pass& pass) const {
  if (!options_.norm && !activations_.words) {  // the rows of x
    return reinterpret_cast<const char*>(pass.input(0));
  }
  char* row = pass.own + item_panels_ * (repacked_bytes_ + unpacked_bytes_);
  char* tile = row + activations_.row_bytes();
  const float* norm = options_.norm ? pass.input(options_.norm_at()) : nullptr;
  const int width = tiling_.full_width();
  activations_.prepare({.x = pass.input(0), .norm_weight = norm, .used = width, .width = width}, {0, columns_}, tile,
                       reinterpret_cast<float*>(row));
  return tile;
}

void Linear::prepare_many(const Pass& pass, Worker& worker) const {
  auto* row = reinterpret_cast<float*>(pass.own + item_panels_ * (repacked_bytes_ + unpacked_bytes_));
  const float* norm = options_.norm ? pass.input(options_.norm_at()) : nullptr;
  const int64_t step = activations_.tile_bytes(tiling_.full_width());
  worker.parallel_for(tiling_.count() * column_parts_, 1, [&](int64_t index, int64_t) {
    const int64_t tile = index / column_parts_, part = index % column_parts_, chunks = columns_ / kChunk;
    const auto at = [&](int64_t p) { return p == column_parts_ ? columns_ : p * chunks / column_parts_ * kChunk; };
    activations_.prepare({.x = pass.input(0) + tiling_.first(tile) * columns_,
                          .norm_weight = norm,
                          .used = tiling_.used(tile),
                          .width = tiling_.width(tile)},
                         {at(part), at(part + 1)}, pass.shared + tile * step, row);
  });
  worker.barrier();
}

void Linear::add_item(int64_t index, Item& item) const {
  const bool paired = options_.epilogue == Epilogue::kSiluMul;
  const Matrix* m = paired ? &matrices_.front() : &matrices_.back();
  while (m->first_item > index) --m;
  const int64_t first = (index - m->first_item) * m->panels_per_item;
  const auto panels = static_cast<int>(std::min<int64_t>(m->panels_per_item, m->panels - first));
  for (int i = 0; i < (paired ? 2 * panels : panels); ++i, ++item.count) {
    item.matrices[item.count] = m + i / panels;
    item.panels[item.count] = first + i % panels;
  }
}

// Start of a panel's weights: in the packed matrix, in the matrix itself, or in `memory`, into which they are copied.
const void* Linear::load_panel(const Matrix& m, const std::byte* data, int64_t panel, char* memory) const {
  if (m.packed) return data + panel * m.panel_bytes;
  if (m.in_place) return data + panel * kPanelRows * m.row_step;
  const StridedMatrix matrix = {data, m.dtype, m.rows, columns_, m.row_step, m.column_step};
  if (m.few_plain != nullptr) {
    gather_rows(matrix, panel, memory);
  } else {
    pack_panel(matrix, panel, memory);
  }
  return memory;
}

void Linear::load_item(const Pass& pass, Item& item) const {
  for (int i = 0; i < item.count; ++i) {
    const Matrix& m = *item.matrices[i];
    const auto* data = static_cast<const std::byte*>(pass.launch.inputs[1 + (&m - matrices_.data())].data);
    item.weights[i] = load_panel(m, data, item.panels[i], pass.own + i * repacked_bytes_);
    if (m.unpack != nullptr) {
      char* memory = pass.own + item_panels_ * repacked_bytes_ + i * unpacked_bytes_;
      item.unpacked[i] = UnpackedPanel::at(memory, columns_);
      m.unpack(item.weights[i], columns_, item.unpacked[i]);
    }
  }
}

void Linear::multiply_few(const Item& item, const char* tile, float* y) const {
  const int width = tiling_.full_width();
  for (int i = 0, together = 1; i < item.count; i += together) {
    const Matrix& m = *item.matrices[i];
    float* out = y + i * width * kPanelRows;
    if (m.few_quantized != nullptr) {
      together = 1;
      m.few_quantized(item.weights[i], columns_, activations_.word_tile(tile, width, m.variant), out);
      continue;
    }
    const auto follows = [&](int j) {
      return item.matrices[j] == &m && item.panels[j] == item.panels[i] + (j - i) && m.in_place;
    };
    for (together = 1; together < kFewPanels && i + together < item.count && follows(i + together);) ++together;
    const int64_t rows = std::min<int64_t>(together * kPanelRows, m.rows - item.panels[i] * kPanelRows);
    m.few_plain({.first = static_cast<const std::byte*>(item.weights[i]),
                 .step = m.in_place ? m.row_step : columns_ * dtype_info(m.dtype).block_bytes,
                 .count = static_cast<int>(rows),
                 .columns = columns_},
                activations_.plain_tile(tile), width, out);
  }
}

// y: [count][width][16].
void Linear::multiply_many(const Item& item, const char* tile, int width, float* y) const {
  const Matrix& first = *item.matrices[0];
  const Matrix& last = *item.matrices[item.count - 1];
  const bool alike = first.packed_dot[0][0] == last.packed_dot[0][0] &&
                     first.multi_token_i16[0][0] == last.multi_token_i16[0][0] &&
                     first.many_plain[0][0] == last.many_plain[0][0];
  const int together = alike ? item.count : 1;
  for (int i = 0; i < item.count; i += together) {
    const Matrix& m = *item.matrices[i];
    const int w = width / 4 - 1;
    float* out = y + i * width * kPanelRows;
    if (m.packed_dot[0][0] != nullptr) {
      const int64_t panels = &first == &last ? item.count : 1;  // of this matrix in an item
      m.packed_dot[w][together - 1]({item.weights + i, panels * m.panel_bytes}, columns_,
                                    activations_.word_tile(tile, width, m.variant), out);
    } else if (m.unpack != nullptr) {
      m.multi_token_i16[w][together - 1](item.unpacked + i, columns_, activations_.word_tile(tile, width, m.variant),
                                         out);
    } else {
      m.many_plain[w][together - 1](item.weights + i, columns_, activations_.plain_tile(tile), out);
    }
  }
}

// Bias, epilogue, and out of the panel's [width][16] into the rows of the outputs.
void Linear::finish(const Pass& pass, const Item& item, int64_t tile, int width, float* y) const {
  const int outputs = options_.epilogue == Epilogue::kSiluMul ? item.count / 2 : item.count;
  const int used = tiling_.used(tile);
  for (int i = 0; i < outputs; ++i) {
    const int64_t rows = item.matrices[i]->rows, first_row = item.panels[i] * kPanelRows;
    const int lanes = static_cast<int>(std::min<int64_t>(kPanelRows, rows - first_row));
    const int64_t m = item.matrices[i] - matrices_.data();
    F32 biases[2] = {zero_f32(), zero_f32()};
    for (int b = 0; options_.bias && b < (options_.epilogue == Epilogue::kSiluMul ? 2 : 1); ++b) {
      biases[b] = load_first(pass.input(options_.bias_at(static_cast<int>(m) + b)) + first_row, lanes);
    }
    for (int t = 0; t < used; ++t) {
      const int64_t at = (tiling_.first(tile) + t) * rows + first_row;
      F32 value = load(y + (i * width + t) * kPanelRows) + biases[0];
      if (options_.epilogue == Epilogue::kAdd) value += load_first(pass.input(options_.residual_at()) + at, lanes);
      if (options_.epilogue == Epilogue::kSiluMul) {
        value = silu(value) * (load(y + ((outputs + i) * width + t) * kPanelRows) + biases[1]);
      }
      store_first(static_cast<float*>(pass.launch.outputs[m].data) + at, value, lanes);
    }
  }
}

std::span<const std::byte> Linear::first_weights(const abi::Launch& launch, const Worker& worker) const {
  if (!tiling_.packed()) return {};
  const int64_t begin = worker.run_begin(worker.index(), items_), end = worker.run_begin(worker.index() + 1, items_);
  if (begin == end) return {};
  Item item;
  add_item(begin, item);
  const Matrix& m = *item.matrices[0];
  if (!m.packed && !m.in_place) return {};
  // With silu·mul the next item's panels come after the other matrix's.
  const bool paired = options_.epilogue == Epilogue::kSiluMul;
  const int64_t panels =
      paired ? item.count / 2 : std::min(m.panels - item.panels[0], (end - begin) * m.panels_per_item);
  const auto* data = static_cast<const std::byte*>(launch.inputs[1 + (&m - matrices_.data())].data);
  const int64_t step = m.packed ? m.panel_bytes : kPanelRows * m.row_step;
  const int64_t rows_left = m.rows - item.panels[0] * kPanelRows;
  const int64_t size = m.packed ? panels * step : std::min(panels * kPanelRows, rows_left) * m.row_step;
  return {data + item.panels[0] * step, static_cast<size_t>(size)};
}

void Linear::run(const abi::Launch& launch, Worker& worker) const {
  auto* scratch = static_cast<char*>(launch.scratch);
  const Pass pass = {launch, scratch, scratch + shared_bytes_ + worker.index() * worker_bytes_};
  if (tiling_.few()) {
    run_few(pass, worker);
  } else {
    run_many(pass, worker);
  }
}

void Linear::run_few(const Pass& pass, Worker& worker) const {
  const char* tile = prepare_few(pass);
  worker.stream_for(items_, together_, [&](int64_t begin, int64_t end) {
    alignas(64) float y[kMaxItemPanels * kSmallBatch * kPanelRows];
    Item item;
    for (int64_t index = begin; index < end; ++index) add_item(index, item);
    load_item(pass, item);
    multiply_few(item, tile, y);
    finish(pass, item, 0, tiling_.full_width(), y);
  });
}

void Linear::run_many(const Pass& pass, Worker& worker) const {
  prepare_many(pass, worker);
  const int64_t step = activations_.tile_bytes(tiling_.full_width());
  const auto compute = [&](int64_t begin, int64_t end) {
    alignas(64) float y[2 * kTileTokens * kPanelRows];
    for (int64_t index = begin; index < end; ++index) {
      Item item;
      add_item(index / pieces_, item);
      load_item(pass, item);
      const int64_t first = index % pieces_ * tiles_per_piece_;
      for (int64_t tile = first; tile < std::min(first + tiles_per_piece_, tiling_.count()); ++tile) {
        const int width = tiling_.width(tile);
        multiply_many(item, pass.shared + tile * step, width, y);
        finish(pass, item, tile, width, y);
      }
    }
  };
  if (tiling_.small_batch()) {
    worker.stream_for(items_, 1, compute);
  } else {
    worker.parallel_for(items_ * pieces_, grain_, compute);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
