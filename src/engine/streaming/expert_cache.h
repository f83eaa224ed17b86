// Experts of mixtures that are read from the model's files when a router chooses them. Layers whose experts have one
// size and format share slots on the device; those that were used often and lately stay.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/stream.h"
#include "src/base/async_reader.h"
#include "src/engine/streaming/move_rows.h"
#include "src/engine/streaming/pieces.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/models/weights/streamed_weights.h"

namespace gabbro::streaming {

class ExpertCache {
 public:
  // `sizes`: of reads and buffers. Memory is allocated while matrices are added. Throws OutOfMemory.
  ExpertCache(std::shared_ptr<Device> device, std::vector<ExpertPool> pools, const StreamSizes& sizes);
  // Reads that hang keep their buffers, and end by themselves.
  ~ExpertCache();

  bool takes(const std::string& name) const;
  // "blk.3.ffn_up_exps.weight", the rows of an expert together -> [slots · rows of an expert, columns].
  Tensor add(const llm::MatrixInFiles& matrix);
  // Slots of the layer with this prefix ("blk.3."); null: its experts are not read by need.
  std::shared_ptr<llm::ExpertSlots> slots(const std::string& prefix);
  void start();

  // Ends waiting for reads, with kInterrupted; null: nothing does.
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  const ExpertFacts& facts() const { return facts_; }
  std::string reader_name() const { return reader_ != nullptr ? reader_->name() : ""; }
  const std::string& note() const { return note_; }
  bool is_direct() const { return files_.direct(); }

 private:
  class LayerSlots;
  struct Matrix;
  struct Pool;
  struct Layer;
  struct Buffer;
  struct Job;

  Layer* layer_of(const std::string& name);
  std::vector<int32_t> bring(Layer& layer, std::span<const int32_t> experts);
  void expect(Layer& layer, std::span<const int32_t> experts);
  void settle_expected(bool arrived);
  int64_t victim(const Pool& pool) const;
  void read(const Layer& layer, std::span<const int64_t> slots, std::span<const int32_t> experts);
  std::vector<Job> jobs(const Layer& layer, std::span<const int64_t> slots, std::span<const int32_t> experts);
  void run(std::vector<Job>& jobs);
  void drain();
  void submit_pending();
  void wait_for_reads();
  void begin(Job& job, Buffer& buffer);
  void pack(const Job& job, const Buffer& buffer);

  std::shared_ptr<Device> device_;
  StreamSizes sizes_;
  Files files_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::map<std::string, std::unique_ptr<Layer>> layers_;  // by prefix
  std::unique_ptr<AsyncReader> reader_;
  std::string note_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<RowMover> mover_;
  std::unique_ptr<Event> computed_, arrived_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::shared_ptr<void> gathered_;
  size_t buffer_bytes_ = 0;
  // Pieces of experts that are read before they are needed, and their slots.
  std::vector<Job> expected_;
  Layer* expected_layer_ = nullptr;
  std::vector<int64_t> expected_slots_;
  std::vector<FileRead> pending_;
  std::vector<FinishedRead> finished_;
  int under_way_ = 0;
  bool gave_up_ = false;  // reads of a call that failed are under way
  uint64_t clock_ = 0;    // calls of bring
  const std::atomic<bool>* cancel_ = nullptr;
  ExpertFacts facts_;
};

}  // namespace gabbro::streaming
