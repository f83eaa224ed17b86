// The state of WeightStream that its threads and the computing thread share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "src/backend/stream.h"
#include "src/base/async_reader.h"
#include "src/engine/streaming/move_rows.h"
#include "src/engine/streaming/pieces.h"
#include "src/engine/streaming/stream_times.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/tensor/tensor.h"

namespace gabbro::streaming {

// A matrix of a layer.
struct Streamed {
  std::string name;
  Tensor tensor;
  DType dtype;
  int64_t rows = 0, columns = 0;
  size_t row_bytes = 0;     // in the file
  size_t device_bytes = 0;  // in the ring
  bool packed = false;
  bool in_place = false;       // its reads go to the ring
  std::vector<Piece> pieces;   // empty: it is in host memory
  std::shared_ptr<void> host;  // in the layout of the ring

  // Bytes that a pass moves.
  uint64_t moved_bytes() const { return host != nullptr ? device_bytes : static_cast<uint64_t>(rows) * row_bytes; }
};

struct StreamedLayer {
  enum class State { kFree, kFilling, kReady };

  int64_t number = 0;
  std::vector<size_t> matrices;  // in Shared::matrices
  size_t always = 0;  // matrices before this index are always moved; the host computes the rest in passes of few tokens
  // Guarded by Shared::mutex.
  State state = State::kFree;
  std::vector<std::byte*> where;  // each matrix, in the ring
  uint64_t ring_end = 0;          // position after the last one
  std::unique_ptr<Event> ready, done;
};

// A buffer for one piece.
struct Stage {
  std::shared_ptr<void> memory;
  std::byte* data = nullptr;
  std::unique_ptr<Event> copied;
  bool busy = false;  // guarded by Shared::mutex
};

struct WeightStream::Shared {
  explicit Shared(std::shared_ptr<Device> on) : device(std::move(on)) {}

  // Functions of the reading thread.
  void run();
  void feed();
  bool issue();
  bool begin_layer();
  bool hand_over();
  void complete(const FinishedRead& read);
  void submit_pending();
  void take_finished(std::chrono::milliseconds timeout);
  void wait(uint64_t seen);
  bool take_room(StreamedLayer& layer, size_t matrix, const Event** after);
  Stage* free_stage();
  void fail(std::exception_ptr failure);

  // Functions of the packing thread: reads go on meanwhile.
  struct Issued;
  void pack_arrived();
  void finish(const Issued& entry);
  void move_piece(const Streamed& matrix, const Piece& piece, std::byte* buffer, std::byte* target);
  // Called before the threads begin. Allocates the ring and the mover of weights.
  void prepare();
  // Replaces the rows in host memory, which are in the file's layout, by packed ones.
  void pack_in_host(const Streamed& matrix);

  StreamedLayer* layer_of_number(int64_t number);  // null: none of its matrices is streamed
  // The number of matrices of a layer that a pass needs. The caller holds the mutex.
  size_t needed(const StreamedLayer& layer) const { return skips_host ? layer.always : layer.matrices.size(); }

  const std::shared_ptr<Device> device;
  StreamSizes sizes;
  Files files;
  std::vector<Streamed> matrices;
  std::vector<StreamedLayer> layers;  // layers with streamed matrices, in order

  std::shared_ptr<void> ring_memory;
  std::byte* ring = nullptr;  // aligned for reads
  // Matrices take room in the ring when they are packed, so that reads go on to free buffers while it is full. If some
  // are read to the ring itself, or are in host memory, all take room before the read.
  bool takes_room_late = false;
  std::vector<Stage> stages;
  Stage gathered;  // rows in their order
  std::unique_ptr<RowMover> mover;
  size_t largest_row = 0;  // in the file
  std::unique_ptr<AsyncReader> reader;
  std::string reader_name, note;
  std::unique_ptr<StreamTimes> times;  // null unless times are recorded
  StreamTimes::Clock::time_point computing_since;

  // The position of the next piece to issue, in the endless sequence of pieces.
  size_t next_layer = 0, next_matrix = 0, next_piece = 0;
  size_t wanted = 0;  // matrices of the layer that was begun
  bool pass_begins = true;
  bool layer_begun = false, matrix_begun = false;
  const Event* begun_after = nullptr;
  uint64_t ring_head = 0;  // position that is free next; modulo the size of the ring
  struct Issued {
    size_t layer, matrix;  // of `layers`, and in its list
    bool last = false;     // of the layer
    const Piece* piece;    // null: all of it, from host memory
    Stage* stage;          // null: in place
    const Event* after;    // of the last computation that used this range of the ring; null: none, or waited for
    int reads_left;
    std::vector<FileRead> reads;  // missing reads, by segment
    StreamTimes::Clock::time_point begun = {};
  };
  std::deque<Issued> issued;
  uint64_t first_issued = 0;               // number of the front
  static constexpr int kSegmentBits = 16;  // of a read's tag, after the number of its piece
  std::deque<FileRead> pending;            // not submitted yet
  int under_way = 0;
  std::vector<FinishedRead> finished;

  mutable std::mutex mutex;
  std::condition_variable changed, arrival;
  bool stopping = false, ended = false;
  bool all_arrived = false;    // the last piece was handed over
  std::deque<Issued> arrived;  // read, in order, and not packed yet
  std::exception_ptr error;
  uint64_t ring_tail = 0;            // position up to which the ring may be written again
  const Event* last_done = nullptr;  // of the computation that used it last
  struct Begun {
    size_t layer, count;  // index in `layers`, and number of its matrices
  };
  std::deque<Begun> begun;  // layers that are not released yet, in order
  bool skips_host = false;  // matrices of blocks that the host computes are passed over
  uint64_t releases = 0;    // of layers and of buffers
  uint64_t bytes_arrived = 0;
  double waited = 0;
  std::thread thread;
};

}  // namespace gabbro::streaming
