// The threads of a WeightStream: one reads ahead; the other moves arrived pieces to the ring, in order, and packs them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/engine/streaming/stream_state.h"

namespace gabbro::streaming {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // interval between looks at the stop flag

}  // namespace

void WeightStream::Shared::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(failure);
  }
  changed.notify_all();
}

void WeightStream::Shared::run() {
  std::thread packer;
  try {
    packer = std::thread([this] { pack_arrived(); });
    feed();
  } catch (...) {
    fail(std::current_exception());
  }
  {
    const std::lock_guard lock(mutex);
    all_arrived = true;
  }
  arrival.notify_all();
  if (packer.joinable()) packer.join();
  reader.reset();  // waits for pending reads
  try {
    mover->synchronize();   // nothing uses the ring when it is freed
  } catch (const Error&) {  // a lost device uses nothing
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

void WeightStream::Shared::feed() {
  for (;;) {
    uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex);
      if (stopping || error) return;
      seen = releases;
    }
    bool progress = false;
    while (issue()) progress = true;
    submit_pending();
    take_finished(std::chrono::milliseconds(0));
    while (hand_over()) progress = true;
    if (!progress) wait(seen);
  }
}

// Goes to the next layer that is streamed. Returns false if there is none.
bool WeightStream::Shared::begin_layer() {
  {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; needed(layers[next_layer]) == 0; ++i) {
      if (i == layers.size()) return false;
      next_layer = (next_layer + 1) % layers.size();
      pass_begins = pass_begins || next_layer == 0;
    }
    wanted = needed(layers[next_layer]);
    begun.push_back({next_layer, wanted});
  }
  if (std::exchange(pass_begins, false)) files.require_unchanged();
  return true;
}

// Begins with the next piece. Returns false if there is no room for it.
bool WeightStream::Shared::issue() {
  if (!layer_begun && !begin_layer()) return false;
  layer_begun = true;
  StreamedLayer& layer = layers[next_layer];
  const Streamed& matrix = matrices[layer.matrices[next_matrix]];
  if (!matrix_begun) {
    const std::lock_guard lock(mutex);
    if (!takes_room_late && !take_room(layer, next_matrix, &begun_after)) return false;
    matrix_begun = true;
  }
  if (matrix.host != nullptr) {
    issued.push_back(
        {.layer = next_layer, .matrix = next_matrix, .last = next_matrix + 1 == wanted, .after = begun_after});
  } else {
    Stage* const stage = matrix.in_place ? nullptr : free_stage();
    if (!matrix.in_place && stage == nullptr) return false;
    const Piece& piece = matrix.pieces[next_piece];
    Issued entry{.layer = next_layer,
                 .matrix = next_matrix,
                 .last = next_matrix + 1 == wanted,
                 .piece = &piece,
                 .stage = stage,
                 .after = std::exchange(begun_after, nullptr)};
    entry.begun = StreamTimes::Clock::now();
    std::byte* const buffer = stage != nullptr ? stage->data : layer.where[next_matrix] - piece.skip;
    for (size_t i = 0; i < piece.segments.size(); ++i) {
      const Segment& segment = piece.segments[i];
      const uint64_t number = first_issued + issued.size();
      entry.reads.push_back({.file = files.descriptor(segment.file),
                             .offset = segment.offset,
                             .bytes = segment.bytes,
                             .target = buffer + segment.at,
                             .tag = number << kSegmentBits | i});
      pending.push_back(entry.reads.back());
    }
    entry.reads_left = static_cast<int>(piece.segments.size());
    issued.push_back(std::move(entry));
    if (++next_piece < matrix.pieces.size()) return true;
  }
  next_piece = 0;
  matrix_begun = false;
  if (++next_matrix == wanted) {
    next_matrix = 0;
    layer_begun = false;
    next_layer = (next_layer + 1) % layers.size();
    pass_begins = pass_begins || next_layer == 0;
  }
  return true;
}

// Takes room in the ring for a matrix of a layer. Its first use must wait for `after`. The caller holds the mutex.
bool WeightStream::Shared::take_room(StreamedLayer& layer, size_t number, const Event** after) {
  const Streamed& matrix = matrices[layer.matrices[number]];
  if (number == 0 && layer.state != StreamedLayer::State::kFree) return false;
  const size_t bytes = round_up(matrix.device_bytes, kReadAlignment) + (matrix.in_place ? 2 * kReadAlignment : 0);
  uint64_t at = ring_head;
  const size_t to_end = sizes.ring_bytes - at % sizes.ring_bytes;
  if (bytes > to_end) at += to_end;
  if (at + bytes - ring_tail > sizes.ring_bytes) return false;
  layer.state = StreamedLayer::State::kFilling;
  layer.where[number] = ring + at % sizes.ring_bytes + (matrix.in_place ? matrix.pieces.front().skip : 0);
  ring_head = layer.ring_end = at + bytes;
  *after = last_done;
  return true;
}

Stage* WeightStream::Shared::free_stage() {
  Stage* stage = nullptr;
  {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find_if(stages, [](const Stage& s) { return !s.busy; });
    if (found == stages.end()) return nullptr;
    stage = &*found;
    stage->busy = true;
  }
  stage->copied->synchronize();
  return stage;
}

void WeightStream::Shared::submit_pending() {
  for (; under_way < sizes.reads && !pending.empty(); ++under_way) {
    reader->submit(pending.front());
    pending.pop_front();
  }
}

void WeightStream::Shared::take_finished(std::chrono::milliseconds timeout) {
  if (under_way == 0) return;
  finished.clear();
  reader->wait(finished, timeout);
  for (const FinishedRead& read : finished) complete(read);
}

void WeightStream::Shared::complete(const FinishedRead& read) {
  --under_way;
  Issued& entry = issued[(read.tag >> kSegmentBits) - first_issued];
  const size_t number = read.tag & ((1u << kSegmentBits) - 1);
  const Segment& segment = entry.piece->segments[number];
  FileRead& asked = entry.reads[number];
  if (files.is_whole(segment, read.result, asked)) {
    --entry.reads_left;
    return files.forget_pages(segment);
  }
  pending.push_front(asked);
}

// Passes the piece that was issued first to the packing thread, if it is complete.
bool WeightStream::Shared::hand_over() {
  if (issued.empty() || issued.front().reads_left > 0) return false;
  if (const Issued& entry = issued.front(); times != nullptr && entry.piece != nullptr) {
    times->add(StreamTimes::Kind::kRead, layers[entry.layer].number, entry.begun, StreamTimes::Clock::now(),
               entry.piece->buffer_bytes());
  }
  {
    const std::lock_guard lock(mutex);
    arrived.push_back(std::move(issued.front()));
  }
  arrival.notify_one();
  issued.pop_front();
  ++first_issued;
  return true;
}

void WeightStream::Shared::pack_arrived() {
  try {
    for (;;) {
      std::unique_lock lock(mutex);
      arrival.wait(lock, [&] { return stopping || all_arrived || !arrived.empty(); });
      if (stopping || arrived.empty()) return;
      Issued entry = std::move(arrived.front());
      arrived.pop_front();
      StreamedLayer& layer = layers[entry.layer];
      if (takes_room_late && entry.piece == &matrices[layer.matrices[entry.matrix]].pieces.front()) {
        changed.wait(lock, [&] { return stopping || error || take_room(layer, entry.matrix, &entry.after); });
        if (stopping || error) return;
      }
      lock.unlock();
      finish(entry);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void WeightStream::Shared::finish(const Issued& entry) {
  StreamedLayer& layer = layers[entry.layer];
  const Streamed& matrix = matrices[layer.matrices[entry.matrix]];
  std::byte* const target = layer.where[entry.matrix];
  const auto begin = StreamTimes::Clock::now();
  if (entry.after != nullptr) mover->wait(*entry.after, matrix.packed && matrix.host == nullptr);
  if (entry.piece == nullptr) {
    mover->copy(static_cast<const std::byte*>(matrix.host.get()), target, matrix.device_bytes);
  } else if (entry.stage != nullptr) {
    move_piece(matrix, *entry.piece, entry.stage->data, target);
    mover->record_read(*entry.stage->copied);
  }
  const bool whole = entry.piece == nullptr || entry.piece == &matrix.pieces.back();
  const bool last = whole && entry.last;
  if (last) mover->record_moved(*layer.ready);
  if (times != nullptr) times->add(StreamTimes::Kind::kPack, layer.number, begin, StreamTimes::Clock::now(), 0);
  const std::lock_guard lock(mutex);
  if (entry.stage != nullptr) {
    entry.stage->busy = false;
    ++releases;
  }
  if (whole) bytes_arrived += matrix.moved_bytes();
  if (last) layer.state = StreamedLayer::State::kReady;
  changed.notify_all();
}

void WeightStream::Shared::move_piece(const Streamed& matrix, const Piece& piece, std::byte* buffer,
                                      std::byte* target) {
  const std::byte* source = buffer + piece.skip;
  if (!piece.row_at.empty()) {
    gathered.copied->synchronize();
    for (size_t i = 0; i < piece.row_at.size(); ++i)
      std::memcpy(gathered.data + i * matrix.row_bytes, buffer + piece.row_at[i], matrix.row_bytes);
    source = gathered.data;
  }
  mover->move({matrix.dtype, matrix.rows, matrix.columns, piece.first_row, piece.rows}, matrix.packed, source, target);
  if (!piece.row_at.empty()) mover->record_read(*gathered.copied);
}

// Waits until a read has finished or, with no pending reads, until a layer or buffer is released after the first `seen`
// ones.
void WeightStream::Shared::wait(uint64_t seen) {
  if (under_way > 0) return take_finished(kPoll);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kPoll, [&] { return stopping || error || releases != seen; });
}

}  // namespace gabbro::streaming
