// The thread of a WeightStream: reads ahead, moves what has arrived to the ring, in order, and packs it there.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/engine/streaming/stream_state.h"

namespace gabbro::streaming {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // after which it looks whether it shall stop

}  // namespace

void WeightStream::Shared::run() {
  std::exception_ptr failure;
  try {
    feed();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    error = failure;
  }
  changed.notify_all();
  reader.reset();  // waits for the reads that are under way
  try {
    device->state().copy_stream(*device).synchronize();  // nothing uses the ring when it is freed
  } catch (const Error&) {                               // a lost device uses nothing
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
      if (stopping) return;
      seen = releases;
    }
    bool progress = false;
    while (issue()) progress = true;
    submit_pending();
    take_finished(std::chrono::milliseconds(0));
    progress = finish_front() || progress;
    if (!progress) wait(seen);
  }
}

// Begins with the next piece. False where there is no room for it.
bool WeightStream::Shared::issue() {
  StreamedLayer& layer = layers[next_layer];
  const Streamed& matrix = matrices[layer.matrices[next_matrix]];
  if (!matrix_begun && !begin_matrix(layer, matrix)) return false;
  if (matrix.host != nullptr) {
    issued.push_back({.layer = next_layer, .matrix = next_matrix});
  } else {
    Stage* const stage = matrix.in_place ? nullptr : free_stage();
    if (!matrix.in_place && stage == nullptr) return false;
    const Piece& piece = matrix.pieces[next_piece];
    Issued entry{.layer = next_layer, .matrix = next_matrix, .piece = &piece, .stage = stage};
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
  if (++next_matrix == layer.matrices.size()) {
    next_matrix = 0;
    next_layer = (next_layer + 1) % layers.size();
  }
  return true;
}

// Takes room in the ring.
bool WeightStream::Shared::begin_matrix(StreamedLayer& layer, const Streamed& matrix) {
  if (next_layer == 0 && next_matrix == 0) files.require_unchanged();
  const Event* ended_before = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (next_matrix == 0 && layer.state != StreamedLayer::State::kFree) return false;
    const size_t bytes = round_up(matrix.device_bytes, kReadAlignment) + (matrix.in_place ? 2 * kReadAlignment : 0);
    uint64_t at = ring_head;
    const size_t to_end = sizes.ring_bytes - at % sizes.ring_bytes;
    if (bytes > to_end) at += to_end;
    if (at + bytes - ring_tail > sizes.ring_bytes) return false;
    layer.state = StreamedLayer::State::kFilling;
    layer.where[next_matrix] = ring + at % sizes.ring_bytes + (matrix.in_place ? matrix.pieces.front().skip : 0);
    ring_head = layer.ring_end = at + bytes;
    ended_before = last_done;
  }
  if (ended_before != nullptr) device->state().copy_stream(*device).wait(*ended_before);
  matrix_begun = true;
  return true;
}

Stage* WeightStream::Shared::free_stage() {
  const auto found = std::ranges::find_if(stages, [](const Stage& stage) { return !stage.busy; });
  if (found == stages.end()) return nullptr;
  found->copied->synchronize();
  found->busy = true;
  return &*found;
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
  const std::string& path = files.path(segment.file);
  if (read.result < 0 && read.result != -EINTR && read.result != -EAGAIN) {
    throw failed("{}: cannot read {} bytes at byte {}: {}", path, asked.bytes, asked.offset,
                 std::strerror(static_cast<int>(-read.result)));
  }
  const auto got = static_cast<size_t>(std::max<int64_t>(read.result, 0));
  const uint64_t end = asked.offset + got;
  if (end >= segment.offset + segment.needed) {
    --entry.reads_left;
    return files.forget_pages(segment);
  }
  const size_t whole = got / kReadAlignment * kReadAlignment;
  if (whole == 0 && read.result >= 0) {
    throw failed("{}: the file ends at byte {}, its weights at byte {} or later: it was truncated", path, end,
                 segment.offset + segment.needed);
  }
  asked.offset += whole;
  asked.target += whole;
  asked.bytes -= whole;
  pending.push_front(asked);
}

// Moves the piece that was issued first, if it is there.
bool WeightStream::Shared::finish_front() {
  if (issued.empty() || issued.front().reads_left > 0) return false;
  const Issued entry = std::move(issued.front());
  issued.pop_front();
  ++first_issued;
  StreamedLayer& layer = layers[entry.layer];
  const Streamed& matrix = matrices[layer.matrices[entry.matrix]];
  std::byte* const target = layer.where[entry.matrix];
  if (entry.piece == nullptr) {
    move_from_host(matrix, target);
  } else if (entry.stage != nullptr) {
    move_piece(matrix, *entry.piece, entry.stage->data, target);
    device->state().copy_stream(*device).record(*entry.stage->copied);
    entry.stage->busy = false;
  }
  const bool whole = entry.piece == nullptr || entry.piece == &matrix.pieces.back();
  const bool last = whole && entry.matrix + 1 == layer.matrices.size();
  if (last) device->state().copy_stream(*device).record(*layer.ready);
  const std::lock_guard lock(mutex);
  if (whole) bytes_arrived += static_cast<uint64_t>(matrix.rows) * matrix.row_bytes;
  if (last) {
    layer.state = StreamedLayer::State::kReady;
    changed.notify_all();
  }
  return true;
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
  move_rows(matrix, piece.first_row, piece.rows, source, target);
  if (!piece.row_at.empty()) device->state().copy_stream(*device).record(*gathered.copied);
}

void WeightStream::Shared::move_rows(const Streamed& matrix, int64_t first, int64_t rows, const std::byte* source,
                                     std::byte* target) {
  Stream& stream = device->state().copy_stream(*device);
  const size_t bytes = static_cast<size_t>(rows) * matrix.row_bytes;
  if (!matrix.packed) {
    target += static_cast<size_t>(first) * matrix.row_bytes;
    if (device->host_accessible()) {
      std::memcpy(target, source, bytes);
    } else {
      stream.copy_to_device(target, source, bytes);
    }
    return;
  }
  if (!device->host_accessible()) {
    stream.copy_to_device(device_stage.get(), source, bytes);
    source = static_cast<const std::byte*>(device_stage.get());
  }
  stream.pack({matrix.dtype, matrix.rows, matrix.columns, first, rows}, source, target);
}

void WeightStream::Shared::move_from_host(const Streamed& matrix, std::byte* target) {
  const auto fitting = static_cast<int64_t>(sizes.piece_bytes / matrix.row_bytes) / abi::kPackRows * abi::kPackRows;
  const int64_t step = std::max(fitting, abi::kPackRows);
  const auto* const source = static_cast<const std::byte*>(matrix.host.get());
  for (int64_t row = 0; row < matrix.rows; row += step) {
    move_rows(matrix, row, std::min(step, matrix.rows - row), source + static_cast<size_t>(row) * matrix.row_bytes,
              target);
  }
}

// Until a read has finished, or, where none is under way, a layer was released after the first `seen` ones.
void WeightStream::Shared::wait(uint64_t seen) {
  if (under_way > 0) return take_finished(kPoll);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kPoll, [&] { return stopping || releases != seen; });
}

}  // namespace gabbro::streaming
