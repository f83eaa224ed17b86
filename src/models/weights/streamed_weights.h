// Weights that do not stay on the device, as the models see them: the streams themselves are in src/engine/streaming.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gabbro/ops.h"
#include "src/base/mapped_file.h"

namespace gabbro::llm {

// A matrix as its rows are stored in the files.
struct MatrixInFiles {
  std::string name;  // GGUF's
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  std::function<const std::byte*(int64_t row)> row;      // mapped, and not read; rows may be in any order
  std::vector<std::shared_ptr<const MappedFile>> files;  // that hold them
};

// The matrices of a layer's experts; some are on the device, in slots: the rows of slot s are [s · N, (s + 1) ·
// N) of a matrix whose experts have N rows.
class ExpertSlots {
 public:
  virtual ~ExpertSlots() = default;
  virtual int64_t count() const = 0;
  // Reads what is missing of these experts, each named once; returns the slot of each of them, or -1 where there are
  // not as many slots: a later call brings it. All that uses the slots of an earlier call, of any layer, has been
  // enqueued. Throws what goes wrong with reading.
  virtual std::vector<int32_t> bring(std::span<const int32_t> experts) = 0;
  // These will probably be asked for next: reads of some of them begin. Others' slots of the last call stay.
  virtual void expect(std::span<const int32_t> experts) = 0;
  virtual const std::atomic<bool>* cancel() const = 0;  // ends computing between two calls; null: nothing does
};

// Layers whose feed-forward blocks the host computes in place where a pass has few tokens: it reads their weights
// sooner than the bus moves them. The device computes them in other passes.
struct HostBlocks {
  std::shared_ptr<Device> device;     // that works in host memory
  std::vector<std::string> prefixes;  // "blk.3.", sorted
  int64_t tokens = 0;                 // of a pass, at most
  size_t bytes = 0;                   // of their matrices on `device`
};

// Takes matrices that do not stay on the device (src/engine/streaming).
class StreamedWeights {
 public:
  virtual ~StreamedWeights() = default;
  virtual bool takes(const std::string& name) const = 0;
  virtual Tensor add(const MatrixInFiles& matrix) = 0;  // without memory until its layer's turn
  // Whether the experts of this matrix are read when they are needed; then add_experts() gives the matrix of all slots.
  virtual bool takes_by_need(const std::string& name) const = 0;
  virtual Tensor add_experts(const MatrixInFiles& matrix) = 0;
  // Slots of the layer with this prefix ("blk.3."); null: none of its experts are read by need.
  virtual std::shared_ptr<ExpertSlots> expert_slots(const std::string& prefix) = 0;
  virtual size_t resident_bytes() const = 0;  // on the device, of the matrices that it does not take
  // Asked for by a model that can have the feed-forward block of the layer with this prefix on the host; null: not of
  // this one.
  virtual const HostBlocks* take_host_block(const std::string& /*prefix*/) { return nullptr; }
};

}  // namespace gabbro::llm
