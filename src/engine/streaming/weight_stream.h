// Weights of layers that take turns in a ring of device memory: read ahead from the model's files, or copied from
// pinned host memory, packed, and overwritten after their layer. docs/design/streaming.md has the picture.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/models/weights/streamed_weights.h"

namespace gabbro::streaming {

struct StreamSizes {
  size_t ring_bytes = 0;   // on the device
  size_t piece_bytes = 0;  // of one read
  int reads = 0;           // pending at a time
  int buffers = 0;         // for pieces that are being read, or wait to be packed
};

// Memory of a stream besides its ring, in bytes.
struct StreamOverhead {
  size_t host = 0;    // buffers of reads
  size_t device = 0;  // buffers of copies; none on a device that uses host memory
};
// The read pattern for layers of at most this size in the file.
StreamSizes default_sizes(const Device& device, uint64_t largest_layer);
StreamOverhead overhead_of(const Device& device, const StreamSizes& sizes, size_t largest_row);
// Bytes of a matrix in the ring, with alignment.
size_t ring_bytes_of(const Device& device, DType dtype, int64_t rows, int64_t columns);

// Layers whose experts share slots: "blk.3." and others whose experts have the same size and format.
struct ExpertPool {
  std::vector<std::string> prefixes;
  int64_t experts = 0, used = 0;  // per layer, and per token
  int64_t slots = 0;
  uint64_t slot_bytes = 0;  // on the device
};

// Statistics of experts that are read on demand.
struct ExpertFacts {
  int64_t slots = 0;
  uint64_t hits = 0, misses = 0;  // needed experts that were on the device or not
  uint64_t early = 0;             // experts that were read before they were needed,
  uint64_t foreseen = 0;          // and the ones that were needed then; neither hits nor misses
  uint64_t bytes = 0;             // read
  double waited = 0;              // seconds
};

class ExpertCache;

struct StreamFacts {
  uint64_t bytes_per_pass = 0;
  uint64_t file_bytes_per_pass = 0;  // from files
  uint64_t bytes = 0;                // that arrived since the stream began
  double waited = 0;                 // seconds that layers waited for their weights
  std::string reader;                // "io_uring, direct"
  ExpertFacts experts;
  std::string note;  // one line: a refused feature; mostly empty
};

class WeightStream : public llm::StreamedWeights {
 public:
  struct Choice {
    std::vector<std::string> streamed;  // names of matrices, sorted
    std::vector<std::string> in_host;   // the streamed ones in pinned host memory; sorted
    size_t resident_bytes = 0;
    size_t largest_row = 0;  // of streamed matrices, in the file
    StreamSizes sizes;
    std::vector<ExpertPool> pools;
    llm::HostBlocks host;  // layers whose matrices are all in host memory, and layers with feed-forward blocks there
  };

  WeightStream(std::shared_ptr<Device> device, Choice choice);
  // Stops the reads. If a read does not end within 30 ms, its memory is released when it does.
  ~WeightStream() override;

  bool takes(const std::string& name) const override;
  Tensor add(const llm::MatrixInFiles& matrix) override;
  bool takes_by_need(const std::string& name) const override;
  Tensor add_experts(const llm::MatrixInFiles& matrix) override;
  std::shared_ptr<llm::ExpertSlots> expert_slots(const std::string& prefix) override;
  size_t resident_bytes() const override { return choice_.resident_bytes; }
  const llm::HostBlocks* take_host_block(const std::string& prefix) override;
  // Cancels waiting for experts; null: cannot be canceled.
  void set_cancel(const std::atomic<bool>* cancel);

  // Begins to read ahead. Throws OutOfMemory.
  void start();

  // Called before a pass of `tokens` tokens. Returns the bytes that it moves: layers that the host computes are not
  // moved.
  uint64_t begin_pass(int64_t tokens);
  // Waits until the layer's weights are on the device, or will be before later work on its compute stream. Throws
  // errors of reading, and kInterrupted when `cancel` becomes true. Layers come in cyclic order; left out layers are
  // skipped.
  void acquire(int64_t layer, const std::atomic<bool>* cancel);
  // Releases the layer after all work that uses it is enqueued.
  void release(int64_t layer);

  StreamFacts facts() const;

 private:
  struct Shared;
  std::shared_ptr<Device> device_;
  Choice choice_;
  int64_t acquired_ = -1;  // a layer
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<ExpertCache> experts_;  // null: no experts are read on demand
};

}  // namespace gabbro::streaming
