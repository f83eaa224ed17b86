#include "src/engine/streaming/expert_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/error.h"
#include "src/base/round_up.h"

namespace gabbro::streaming {

struct ExpertCache::Matrix {
  DType dtype = DType::f32;
  int64_t columns = 0;
  int64_t rows = 0;                        // of an expert
  int64_t all_rows = 0;                    // of all slots
  size_t row_bytes = 0;                    // in the file
  std::vector<std::vector<Piece>> pieces;  // by expert
  bool packed = false;
  std::byte* target = nullptr;  // all slots
};

struct ExpertCache::Pool {
  struct Slot {
    Layer* layer = nullptr;  // null: empty
    int32_t expert = -1;
    uint64_t uses = 0, last = 0;  // times, and the clock at the last one
    bool expected = false;        // it is being read before it is needed
  };
  int64_t experts = 0, used = 0;  // per layer, and per token
  std::vector<Slot> slots;
  std::map<std::string, Tensor> matrices;  // by the end of their name: "ffn_up_exps.weight"
};

struct ExpertCache::Layer {
  Pool* pool = nullptr;
  std::vector<Matrix> matrices;
  std::vector<int64_t> slot_of;  // by expert; -1: not on the device
};

struct ExpertCache::Buffer {
  std::shared_ptr<void> memory;
  std::byte* data = nullptr;
  std::unique_ptr<Event> copied;
  Job* job = nullptr;  // null: free, unless reads of a canceled one are left
  int reads_left = 0;
  std::vector<FileRead> reads;  // missing reads, by segment
};

// One piece of a matrix of an expert.
struct ExpertCache::Job {
  const Matrix* matrix;
  int64_t slot;
  const Piece* piece;
};

class ExpertCache::LayerSlots : public llm::ExpertSlots {
 public:
  LayerSlots(ExpertCache* cache, Layer* layer) : cache_(cache), layer_(layer) {}
  int64_t count() const override { return std::ssize(layer_->pool->slots); }
  std::vector<int32_t> bring(std::span<const int32_t> experts) override { return cache_->bring(*layer_, experts); }
  void expect(std::span<const int32_t> experts) override { cache_->expect(*layer_, experts); }
  const std::atomic<bool>* cancel() const override { return cache_->cancel_; }

 private:
  ExpertCache* cache_;
  Layer* layer_;
};

namespace {

constexpr int kSegmentBits = 16;  // of a read's tag, after the number of its buffer
constexpr auto kPatience = std::chrono::milliseconds(20);

// "blk.3." of "blk.3.ffn_up_exps.weight".
std::string prefix_of(const std::string& name) { return name.substr(0, name.find('.', name.find('.') + 1) + 1); }

}  // namespace

ExpertCache::ExpertCache(std::shared_ptr<Device> device, std::vector<ExpertPool> pools, const StreamSizes& sizes)
    : device_(std::move(device)), sizes_(sizes) {
  for (const ExpertPool& wanted : pools) {
    auto pool = std::make_unique<Pool>();
    pool->experts = wanted.experts;
    pool->used = wanted.used;
    pool->slots.resize(static_cast<size_t>(wanted.slots));
    for (const std::string& prefix : wanted.prefixes) {
      auto layer = std::make_unique<Layer>();
      layer->pool = pool.get();
      layer->slot_of.assign(static_cast<size_t>(wanted.experts), -1);
      layers_.emplace(prefix, std::move(layer));
    }
    facts_.slots += wanted.slots;
    pools_.push_back(std::move(pool));
  }
}

ExpertCache::~ExpertCache() {
  if (under_way_ == 0) return;
  // The reader waits for its reads, because the buffers are their targets.
  std::vector<std::shared_ptr<void>> memory;
  for (const auto& buffer : buffers_) memory.push_back(buffer->memory);
  std::thread([reader = std::move(reader_), memory = std::move(memory)]() mutable { reader.reset(); }).detach();
}

ExpertCache::Layer* ExpertCache::layer_of(const std::string& name) {
  const auto found = layers_.find(prefix_of(name));
  return found != layers_.end() ? found->second.get() : nullptr;
}

bool ExpertCache::takes(const std::string& name) const {
  return name.find("_exps.") != name.npos && layers_.contains(prefix_of(name));
}

Tensor ExpertCache::add(const llm::MatrixInFiles& matrix) {
  Layer& layer = *layer_of(matrix.name);
  Pool& pool = *layer.pool;
  Matrix added{.dtype = matrix.dtype, .columns = matrix.columns, .rows = matrix.rows / pool.experts};
  added.all_rows = std::ssize(pool.slots) * added.rows;
  added.row_bytes = dtype_bytes(matrix.dtype, static_cast<size_t>(matrix.columns));
  const int64_t rows = added.all_rows;
  const size_t packed = device_->matrix_bytes(matrix.dtype, rows, matrix.columns);
  added.packed =
      device_->state().backend->packed_bytes(device_->state().device, matrix.dtype, rows, matrix.columns) > 0;
  Tensor& all = pool.matrices[matrix.name.substr(prefix_of(matrix.name).size())];
  if (!all.defined()) {
    const size_t bytes = packed > 0 ? packed : static_cast<size_t>(rows) * added.row_bytes;
    all = device_->tensor_in(device_->allocate_unpooled(bytes), matrix.dtype, Shape{rows, matrix.columns});
    all.state().spec.packed = added.packed;
  }
  added.target = static_cast<std::byte*>(all.state().storage.get());
  for (int64_t expert = 0; expert < pool.experts; ++expert) {
    llm::MatrixInFiles one = matrix;
    one.rows = added.rows;
    one.row = [&matrix, first = expert * added.rows](int64_t row) { return matrix.row(first + row); };
    added.pieces.push_back(cut(one, files_, sizes_.piece_bytes, abi::kPackRows));
    for (const Piece& piece : added.pieces.back()) buffer_bytes_ = std::max(buffer_bytes_, piece.buffer_bytes());
  }
  layer.matrices.push_back(std::move(added));
  return all;
}

std::shared_ptr<llm::ExpertSlots> ExpertCache::slots(const std::string& prefix) {
  const auto found = layers_.find(prefix);
  if (found == layers_.end()) return nullptr;
  return std::make_shared<LayerSlots>(this, found->second.get());
}

void ExpertCache::start() {
  if (layers_.empty()) return;
  stream_ = std::make_unique<Stream>(device_);
  computed_ = std::make_unique<Event>(device_);
  arrived_ = std::make_unique<Event>(device_);
  for (int i = 0; i < sizes_.buffers; ++i) {
    auto buffer = std::make_unique<Buffer>();
    buffer->memory = device_->allocate_host(buffer_bytes_ + kReadAlignment);
    buffer->data =
        reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(buffer->memory.get()), kReadAlignment));
    buffer->copied = std::make_unique<Event>(device_);
    buffers_.push_back(std::move(buffer));
  }
  gathered_ = device_->allocate_host(buffer_bytes_);
  mover_ = std::make_unique<RowMover>(device_, *stream_, buffer_bytes_);
  reader_ = make_async_reader(sizes_.reads, &note_);
}

// The least used slot: fewest uses per step since they are counted, and not used by this call.
int64_t ExpertCache::victim(const Pool& pool) const {
  int64_t best = -1;
  double least = 0;
  for (int64_t i = 0; i < std::ssize(pool.slots); ++i) {
    const Pool::Slot& slot = pool.slots[static_cast<size_t>(i)];
    if (slot.layer == nullptr) return i;
    if (slot.last == clock_) continue;
    const double value = static_cast<double>(slot.uses) / static_cast<double>(clock_ - slot.last);
    if (best < 0 || value < least) best = i, least = value;
  }
  return best;
}

std::vector<int32_t> ExpertCache::bring(Layer& layer, std::span<const int32_t> experts) {
  Pool& pool = *layer.pool;
  ++clock_;
  for (const int64_t at : expected_slots_) expected_layer_->pool->slots[static_cast<size_t>(at)].last = clock_;
  std::vector<int32_t> where(experts.size(), -1);
  const auto use = [&](size_t i, int64_t at) {
    Pool::Slot& slot = pool.slots[static_cast<size_t>(at)];
    slot.last = clock_;
    ++slot.uses;
    where[i] = static_cast<int32_t>(at);
  };
  for (size_t i = 0; i < experts.size(); ++i) {
    const int64_t at = layer.slot_of[static_cast<size_t>(experts[i])];
    if (at >= 0) use(i, at);
  }
  std::vector<int64_t> slots;
  std::vector<int32_t> missing;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (where[i] >= 0) {
      ++(pool.slots[static_cast<size_t>(where[i])].expected ? facts_.foreseen : facts_.hits);
      continue;
    }
    const int64_t at = victim(pool);
    if (at < 0) continue;  // left for the next call
    Pool::Slot& slot = pool.slots[static_cast<size_t>(at)];
    if (slot.layer != nullptr) slot.layer->slot_of[static_cast<size_t>(slot.expert)] = -1;
    slot = {.layer = &layer, .expert = experts[i]};
    use(i, at);
    slots.push_back(at);
    missing.push_back(experts[i]);
  }
  if (missing.empty() && expected_.empty()) return where;
  const auto start = std::chrono::steady_clock::now();
  try {
    read(layer, slots, missing);
  } catch (...) {
    for (const int64_t at : slots) pool.slots[static_cast<size_t>(at)] = {};
    settle_expected(false);
    throw;
  }
  settle_expected(true);
  for (size_t i = 0; i < slots.size(); ++i) layer.slot_of[static_cast<size_t>(missing[i])] = slots[i];
  facts_.misses += missing.size();
  facts_.waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return where;
}

// The next call of bring() packs them, so all of their pieces must be in buffers until then.
void ExpertCache::expect(Layer& layer, std::span<const int32_t> experts) {
  Pool& pool = *layer.pool;
  if (!expected_.empty() || under_way_ > 0) return;
  files_.require_unchanged();
  int64_t room = (std::ssize(pool.slots) - pool.used) / 2;  // the next call needs others, too
  for (const int32_t expert : experts) {
    if (room == 0) break;
    if (layer.slot_of[static_cast<size_t>(expert)] >= 0) continue;
    const int64_t at = victim(pool);
    if (at < 0) break;
    std::vector<Job> pieces = jobs(layer, {&at, 1}, {&expert, 1});
    if (expected_.size() + pieces.size() > buffers_.size()) break;
    std::ranges::move(pieces, std::back_inserter(expected_));
    Pool::Slot& slot = pool.slots[static_cast<size_t>(at)];
    if (slot.layer != nullptr) slot.layer->slot_of[static_cast<size_t>(slot.expert)] = -1;
    slot = {.layer = &layer, .expert = expert, .last = clock_, .expected = true};
    layer.slot_of[static_cast<size_t>(expert)] = at;
    expected_slots_.push_back(at);
    --room;
  }
  if (expected_.empty()) return;
  expected_layer_ = &layer;
  for (size_t i = 0; i < expected_.size(); ++i) begin(expected_[i], *buffers_[i]);
  submit_pending();
}

// Called after the call of bring() in which they arrived, or that failed.
void ExpertCache::settle_expected(bool arrived) {
  for (const int64_t at : expected_slots_) {
    Pool::Slot& slot = expected_layer_->pool->slots[static_cast<size_t>(at)];
    slot.expected = false;
    if (arrived) continue;
    expected_layer_->slot_of[static_cast<size_t>(slot.expert)] = -1;
    slot = {};
  }
  if (arrived) facts_.early += expected_slots_.size();
  expected_slots_.clear();
  expected_.clear();
}

std::vector<ExpertCache::Job> ExpertCache::jobs(const Layer& layer, std::span<const int64_t> slots,
                                                std::span<const int32_t> experts) {
  std::vector<Job> all;
  for (size_t i = 0; i < slots.size(); ++i) {
    for (const Matrix& matrix : layer.matrices) {
      for (const Piece& piece : matrix.pieces[static_cast<size_t>(experts[i])])
        all.push_back({&matrix, slots[i], &piece});
    }
  }
  return all;
}

void ExpertCache::read(const Layer& layer, std::span<const int64_t> slots, std::span<const int32_t> experts) {
  files_.require_unchanged();
  if (gave_up_) drain();
  device_->state().compute_stream(*device_).record(*computed_);  // after the computation that used the slots
  for (const bool packed : {false, true}) mover_->wait(*computed_, packed);
  if (device_->host_accessible()) computed_->synchronize();  // rows that are not packed are copied at once
  std::vector<Job> all = jobs(layer, slots, experts);
  run(all);
  mover_->record_moved(*arrived_);
  device_->state().compute_stream(*device_).wait(*arrived_);
  for (const std::vector<Job>* const part : {&all, &expected_}) {
    for (const Job& job : *part) facts_.bytes += static_cast<uint64_t>(job.piece->rows) * job.matrix->row_bytes;
  }
}

// Waits for these, and for the experts that were begun before.
void ExpertCache::run(std::vector<Job>& jobs) {
  size_t next = 0, done = 0;
  const auto give_up = [&] {
    pending_.clear();
    gave_up_ = true;
    for (const auto& buffer : buffers_) buffer->job = nullptr;
  };
  try {
    while (done < jobs.size() + expected_.size()) {
      for (const auto& buffer : buffers_) {
        if (next < jobs.size() && buffer->job == nullptr) begin(jobs[next++], *buffer);
      }
      wait_for_reads();
      for (const auto& buffer : buffers_) {
        if (buffer->job == nullptr || buffer->reads_left > 0) continue;
        pack(*buffer->job, *buffer);
        buffer->job = nullptr;
        ++done;
      }
    }
  } catch (...) {
    give_up();
    throw;
  }
}

void ExpertCache::begin(Job& job, Buffer& buffer) {
  buffer.copied->synchronize();
  buffer.job = &job;
  buffer.reads.clear();
  const auto number =
      static_cast<uint64_t>(std::ranges::find(buffers_, &buffer, &std::unique_ptr<Buffer>::get) - buffers_.begin());
  for (size_t i = 0; i < job.piece->segments.size(); ++i) {
    const Segment& segment = job.piece->segments[i];
    buffer.reads.push_back({.file = files_.descriptor(segment.file),
                            .offset = segment.offset,
                            .bytes = segment.bytes,
                            .target = buffer.data + segment.at,
                            .tag = number << kSegmentBits | i});
    pending_.push_back(buffer.reads.back());
  }
  buffer.reads_left = static_cast<int>(job.piece->segments.size());
}

void ExpertCache::submit_pending() {
  while (under_way_ < sizes_.reads && !pending_.empty()) {
    reader_->submit(pending_.back());
    pending_.pop_back();
    ++under_way_;
  }
}

// Submits pending reads within the limit, and takes finished ones.
void ExpertCache::wait_for_reads() {
  if (cancel_ != nullptr && *cancel_) throw Error(ErrorCode::kInterrupted, "interrupted");
  submit_pending();
  finished_.clear();
  if (under_way_ > 0) reader_->wait(finished_, kPatience);
  under_way_ -= static_cast<int>(finished_.size());
  for (const FinishedRead& read : finished_) {
    Buffer& buffer = *buffers_[read.tag >> kSegmentBits];
    if (buffer.job == nullptr) continue;
    const size_t number = read.tag & ((1u << kSegmentBits) - 1);
    const Segment& segment = buffer.job->piece->segments[number];
    if (files_.is_whole(segment, read.result, buffer.reads[number])) {
      --buffer.reads_left;
      files_.forget_pages(segment);
    } else {
      pending_.push_back(buffer.reads[number]);
    }
  }
}

// Reads of a canceled call.
void ExpertCache::drain() {
  while (under_way_ > 0) wait_for_reads();
  gave_up_ = false;
}

void ExpertCache::pack(const Job& job, const Buffer& buffer) {
  const Matrix& m = *job.matrix;
  const std::byte* source = buffer.data + job.piece->skip;
  if (!job.piece->row_at.empty()) {
    stream_->synchronize();  // the rows gathered before
    auto* out = static_cast<std::byte*>(gathered_.get());
    source = out;
    for (const uint32_t at : job.piece->row_at) {
      std::memcpy(out, buffer.data + at, m.row_bytes);
      out += m.row_bytes;
    }
  }
  const abi::PackRequest rows = {m.dtype, m.all_rows, m.columns, job.slot * m.rows + job.piece->first_row,
                                 job.piece->rows};
  mover_->move(rows, m.packed, source, m.target);
  mover_->record_read(*buffer.copied);
}

}  // namespace gabbro::streaming
