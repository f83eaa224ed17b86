#include "src/engine/streaming/weight_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/engine/streaming/expert_cache.h"
#include "src/engine/streaming/host_blocks.h"
#include "src/engine/streaming/stream_state.h"

namespace gabbro::streaming {
namespace {

using Clock = std::chrono::steady_clock;

// Pinned host -> device needs 16 MiB for its full rate, a disk 4 MiB (docs/reports/performance.md); 8 reads at a time
// cover bandwidth x latency of the fastest disks: 14 GB/s x 2 ms = 28 MiB. On a CPU all free buffers are read to: a
// disk that others use, too, gives more to those who ask for more. They wait to be packed while a layer is computed.
// With what is read around a piece a buffer has 4 MiB: two huge pages.
constexpr StreamSizes kHostSizes = {.piece_bytes = (size_t{4} << 20) - 3 * kReadAlignment, .reads = 16, .buffers = 16};
constexpr StreamSizes kDeviceSizes = {.piece_bytes = size_t{16} << 20, .reads = 6, .buffers = 8};

// The number in "blk.12.attn_q.weight".
int64_t layer_of(const std::string& name) {
  constexpr size_t kPrefix = 4;
  if (!name.starts_with("blk.")) throw failed("{} is of no layer", name);
  return std::stoll(name.substr(kPrefix));
}

std::byte* aligned(void* memory) {
  return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(memory), kReadAlignment));
}

bool contains(const std::vector<std::string>& sorted, const std::string& name) {
  return std::ranges::binary_search(sorted, name);
}

// Buffers of `bytes` each, in one block: its huge pages double the speed of direct reads on some disks.
std::vector<Stage> make_stages(const std::shared_ptr<Device>& device, int count, size_t bytes) {
  bytes = round_up(bytes, kReadAlignment);
  const std::shared_ptr<void> memory = device->allocate_host(static_cast<size_t>(count) * bytes + kReadAlignment);
  std::vector<Stage> stages;
  for (int i = 0; i < count; ++i) {
    Stage& stage = stages.emplace_back();
    stage.memory = memory;
    stage.data = aligned(memory.get()) + static_cast<size_t>(i) * bytes;
    stage.copied = std::make_unique<Event>(device);
  }
  return stages;
}

// In our order, in `bytes` of memory that copies read directly.
std::shared_ptr<void> read_to_host(Device& device, const llm::MatrixInFiles& matrix, size_t row_bytes, size_t bytes) {
  const std::shared_ptr<void> memory = device.allocate_host(bytes);
  auto* out = static_cast<std::byte*>(memory.get());
  for (int64_t i = 0; i < matrix.rows; ++i, out += row_bytes) std::memcpy(out, matrix.row(i), row_bytes);
  for (const auto& file : matrix.files) {
    const std::byte* const first = matrix.row(0);
    const auto mapped = file->bytes();
    if (first < mapped.data() || first >= mapped.data() + mapped.size()) continue;
    file->release(static_cast<size_t>(first - mapped.data()), static_cast<size_t>(matrix.rows) * row_bytes);
  }
  return memory;
}

}  // namespace

StreamSizes default_sizes(const Device& device, uint64_t largest_layer) {
  StreamSizes sizes = device.host_accessible() ? kHostSizes : kDeviceSizes;
  constexpr uint64_t kLeast = uint64_t{128} << 10;  // of small models, whose buffers should not be larger than a layer
  sizes.piece_bytes = std::clamp<uint64_t>(largest_layer / 16, kLeast, sizes.piece_bytes);
  return sizes;
}

StreamOverhead overhead_of(const Device& device, const StreamSizes& sizes, size_t largest_row) {
  // A piece has kPackRows rows at least, and is read with what is around it.
  const size_t piece = std::max(sizes.piece_bytes, largest_row * abi::kPackRows) + 2 * kReadAlignment;
  return {.host = static_cast<size_t>(sizes.buffers + 1) * (piece + kReadAlignment),
          .device = device.host_accessible() ? 0 : RowMover::kStages * piece};
}

size_t ring_bytes_of(const Device& device, DType dtype, int64_t rows, int64_t columns) {
  const size_t packed = device.matrix_bytes(dtype, rows, columns);
  const size_t bytes = packed > 0 ? packed : dtype_bytes(dtype, static_cast<size_t>(rows * columns));
  return round_up(bytes, kReadAlignment) + (packed > 0 ? 0 : 2 * kReadAlignment);
}

WeightStream::WeightStream(std::shared_ptr<Device> device, Choice choice)
    : device_(std::move(device)), choice_(std::move(choice)), shared_(std::make_shared<Shared>(device_)) {
  shared_->sizes = choice_.sizes;
  shared_->largest_row = choice_.largest_row;
  if (!choice_.pools.empty()) experts_ = std::make_unique<ExpertCache>(device_, choice_.pools, choice_.sizes);
}

WeightStream::~WeightStream() {
  if (shared_->times != nullptr) shared_->times->save();
  std::unique_lock lock(shared_->mutex);
  if (!shared_->thread.joinable()) return;
  shared_->stopping = true;
  shared_->changed.notify_all();
  shared_->arrival.notify_all();
  constexpr auto kPatience = std::chrono::milliseconds(30);  // a third of what Ctrl-C may take
  const bool ended = shared_->changed.wait_for(lock, kPatience, [&] { return shared_->ended; });
  std::thread thread = std::move(shared_->thread);
  lock.unlock();
  ended ? thread.join() : thread.detach();  // a detached one owns what it shares
}

bool WeightStream::takes(const std::string& name) const {
  return contains(choice_.streamed, name) || takes_by_need(name);
}

bool WeightStream::takes_by_need(const std::string& name) const { return experts_ != nullptr && experts_->takes(name); }

Tensor WeightStream::add_experts(const llm::MatrixInFiles& matrix) { return experts_->add(matrix); }

std::shared_ptr<llm::ExpertSlots> WeightStream::expert_slots(const std::string& prefix) {
  return experts_ != nullptr ? experts_->slots(prefix) : nullptr;
}

const llm::HostBlocks* WeightStream::take_host_block(const std::string& prefix) {
  if (choice_.host.tokens == 0 || !contains(choice_.host.prefixes, prefix)) return nullptr;
  StreamedLayer* const layer = shared_->layer_of_number(layer_of(prefix));
  if (layer == nullptr) return nullptr;
  const auto of_block = [&](size_t matrix) { return is_feed_forward(shared_->matrices[matrix].name); };
  const auto first = std::ranges::find_if(layer->matrices, of_block);
  if (!std::all_of(first, layer->matrices.end(), of_block)) return nullptr;  // others come after them
  layer->always = static_cast<size_t>(first - layer->matrices.begin());
  return &choice_.host;
}

void WeightStream::set_cancel(const std::atomic<bool>* cancel) {
  if (experts_ != nullptr) experts_->set_cancel(cancel);
}

Tensor WeightStream::add(const llm::MatrixInFiles& matrix) {
  Shared& s = *shared_;
  const size_t packed = device_->matrix_bytes(matrix.dtype, matrix.rows, matrix.columns);
  Streamed streamed{.name = matrix.name, .dtype = matrix.dtype, .rows = matrix.rows, .columns = matrix.columns};
  streamed.row_bytes = dtype_bytes(matrix.dtype, static_cast<size_t>(matrix.columns));
  const size_t bytes = static_cast<size_t>(matrix.rows) * streamed.row_bytes;
  streamed.packed =
      device_->state().backend->packed_bytes(device_->state().device, matrix.dtype, matrix.rows, matrix.columns) > 0;
  streamed.device_bytes = packed > 0 ? packed : bytes;
  streamed.tensor = device_->tensor_in(nullptr, matrix.dtype, Shape{matrix.rows, matrix.columns});
  streamed.tensor.state().spec.packed = streamed.packed;
  if (contains(choice_.in_host, matrix.name)) {
    streamed.host = read_to_host(*device_, matrix, streamed.row_bytes, std::max(bytes, streamed.device_bytes));
    if (streamed.packed) s.pack_in_host(streamed);
  } else {
    if (device_->host_accessible() && !streamed.packed)
      streamed.pieces = cut_in_place(matrix, s.files, s.sizes.piece_bytes);
    streamed.in_place = !streamed.pieces.empty();
    if (!streamed.in_place) streamed.pieces = cut(matrix, s.files, s.sizes.piece_bytes, abi::kPackRows);
  }
  const int64_t number = layer_of(matrix.name);
  if (s.layers.empty() || s.layers.back().number != number) {
    s.layers.emplace_back();
    s.layers.back().number = number;
  }
  s.layers.back().matrices.push_back(s.matrices.size());
  s.layers.back().always = s.layers.back().matrices.size();
  s.matrices.push_back(std::move(streamed));
  return s.matrices.back().tensor;
}

void WeightStream::Shared::prepare() {
  if (mover != nullptr) return;
  sizes.ring_bytes = round_up(sizes.ring_bytes, kReadAlignment);
  ring_memory = device->allocate_unpooled(sizes.ring_bytes + kReadAlignment);
  ring = aligned(ring_memory.get());
  const size_t part = std::max(sizes.piece_bytes, largest_row * abi::kPackRows);
  mover = std::make_unique<RowMover>(device, device->state().copy_stream(*device), part);
}

// On the device, in the ring, where nothing is yet; each matrix after the one before, in the order of the copies.
void WeightStream::Shared::pack_in_host(const Streamed& matrix) {
  prepare();
  auto* const host = static_cast<std::byte*>(matrix.host.get());
  const auto fitting = static_cast<int64_t>(sizes.piece_bytes / matrix.row_bytes) / abi::kPackRows * abi::kPackRows;
  const int64_t step = std::max(fitting, abi::kPackRows);
  for (int64_t row = 0; row < matrix.rows; row += step) {
    mover->move({matrix.dtype, matrix.rows, matrix.columns, row, std::min(step, matrix.rows - row)}, true,
                host + static_cast<size_t>(row) * matrix.row_bytes, ring);
  }
  mover->synchronize();  // the copy back overwrites the rows
  mover->copy_back(ring, host, matrix.device_bytes);
  mover->synchronize();
}

void WeightStream::start() {
  Shared& s = *shared_;
  if (experts_ != nullptr) {
    experts_->start();
    s.note = experts_->note();
    s.reader_name = experts_->reader_name() + (experts_->is_direct() ? ", direct" : ", through the page cache");
  }
  if (s.layers.empty()) return;
  s.times = StreamTimes::from_environment();
  size_t piece = 0;
  bool scattered = false;
  for (const Streamed& matrix : s.matrices) {
    if (matrix.in_place) continue;
    for (const Piece& p : matrix.pieces) {
      piece = std::max(piece, p.buffer_bytes());
      scattered = scattered || !p.row_at.empty();
    }
  }
  s.takes_room_late =
      std::ranges::all_of(s.matrices, [](const Streamed& m) { return !m.in_place && m.host == nullptr; });
  s.prepare();
  if (piece > 0) s.stages = make_stages(device_, s.sizes.buffers, piece);
  if (scattered) s.gathered = std::move(make_stages(device_, 1, piece).front());
  for (StreamedLayer& layer : s.layers) {
    layer.where.resize(layer.matrices.size());
    layer.ready = std::make_unique<Event>(device_);
    layer.done = std::make_unique<Event>(device_);
  }
  if (s.files.count() > 0) {
    s.reader = make_async_reader(s.sizes.reads, &s.note);
    s.reader_name = fmt::format("{}, {}", s.reader->name(), s.files.direct() ? "direct" : "through the page cache");
    if (!s.files.direct() && s.note.empty())
      s.note = s.files.path(0) + ": its file system refuses direct reads: they go through the page cache";
  }
  s.thread = std::thread([shared = shared_] { shared->run(); });
}

StreamedLayer* WeightStream::Shared::layer_of_number(int64_t number) {
  const auto found = std::ranges::find(layers, number, &StreamedLayer::number);
  return found != layers.end() ? &*found : nullptr;
}

uint64_t WeightStream::begin_pass(int64_t tokens) {
  Shared& s = *shared_;
  const bool skips = tokens <= choice_.host.tokens;  // of layers whose model took the block
  {
    const std::lock_guard lock(s.mutex);
    s.skips_host = skips;
    ++s.releases;  // the thread may go on
  }
  s.changed.notify_all();
  uint64_t bytes = 0;
  for (const StreamedLayer& layer : s.layers) {
    const size_t count = skips ? layer.always : layer.matrices.size();
    for (size_t i = 0; i < count; ++i) bytes += s.matrices[layer.matrices[i]].moved_bytes();
  }
  return bytes;
}

void WeightStream::acquire(int64_t number, const std::atomic<bool>* cancel) {
  Shared& s = *shared_;
  const StreamedLayer* const wanted = s.layer_of_number(number);
  if (wanted == nullptr) return;
  const auto start = Clock::now();
  std::unique_lock lock(s.mutex);
  const size_t needed = s.needed(*wanted);
  if (needed == 0) return;
  for (;;) {
    constexpr auto kPoll = std::chrono::milliseconds(10);
    const auto first = [&] { return s.begun.empty() ? nullptr : &s.layers[s.begun.front().layer]; };
    while (first() == nullptr || first()->state != StreamedLayer::State::kReady) {
      if (s.error) std::rethrow_exception(s.error);
      if (cancel != nullptr && *cancel) throw Error(ErrorCode::kInterrupted, "interrupted");
      s.changed.wait_for(lock, kPoll);
    }
    s.computing_since = Clock::now();
    acquired_ = first()->number;
    const size_t count = s.begun.front().count;
    lock.unlock();
    if (acquired_ == number && count >= needed) break;
    release(acquired_);  // of a pass that was given up, or that had other layers
    lock.lock();
  }
  s.waited += std::chrono::duration<double>(s.computing_since - start).count();
  StreamedLayer& layer = *s.layer_of_number(number);
  device_->state().compute_stream(*device_).wait(*layer.ready);
  for (size_t i = 0; i < needed; ++i)
    s.matrices[layer.matrices[i]].tensor.state().storage = std::shared_ptr<void>(s.ring_memory, layer.where[i]);
}

void WeightStream::release(int64_t number) {
  Shared& s = *shared_;
  if (std::exchange(acquired_, -1) != number) return;
  StreamedLayer& layer = *s.layer_of_number(number);
  device_->state().compute_stream(*device_).record(*layer.done);
  if (s.times != nullptr) s.times->add(StreamTimes::Kind::kCompute, number, s.computing_since, Clock::now(), 0);
  const std::lock_guard lock(s.mutex);
  layer.state = StreamedLayer::State::kFree;
  s.ring_tail = layer.ring_end;
  s.last_done = layer.done.get();
  s.begun.pop_front();
  ++s.releases;
  s.changed.notify_all();
}

StreamFacts WeightStream::facts() const {
  const Shared& s = *shared_;
  StreamFacts facts;
  for (const Streamed& matrix : s.matrices) {
    facts.bytes_per_pass += matrix.moved_bytes();
    if (matrix.host == nullptr) facts.file_bytes_per_pass += matrix.moved_bytes();
  }
  facts.reader = s.reader_name;
  facts.note = s.note;
  if (experts_ != nullptr) facts.experts = experts_->facts();
  const std::lock_guard lock(s.mutex);
  facts.bytes = s.bytes_arrived;
  facts.waited = s.waited;
  return facts;
}

}  // namespace gabbro::streaming
