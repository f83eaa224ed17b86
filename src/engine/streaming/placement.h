// Decides where each weight of a model with limited memory is stored, before anything is read: on the device, in pinned
// host memory, or in its file. Weights that fit the device never move.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/engine/model_needs.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/models/weights/requested_tensor.h"

namespace gabbro::streaming {

// Tokens of a prompt that share a pass over streamed weights.
inline constexpr int64_t kStreamedChunk = 2048;

struct PlacedMatrix {
  enum class Home { kDevice, kHost, kFile, kByNeed };

  std::string name;  // GGUF's
  int64_t layer = -1;
  size_t row_bytes = 0;          // in the file
  int rank = 0;                  // matrices with lower ranks stay on the device first
  uint64_t file_bytes = 0;       // read by a pass over the weights
  uint64_t device_bytes = 0;     // on the device
  uint64_t ring_bytes = 0;       // in the ring; 0: it cannot be streamed
  uint64_t host_bytes = 0;       // of host memory, if packed there
  uint64_t converted_bytes = 0;  // scratch of products of many tokens on a GPU, at most
  DType dtype = DType::f32;
  std::vector<llm::ModelMatrix> made;  // the matrices that the model makes of it: one, mostly
  // Experts that can be read on demand; else 0.
  int64_t experts = 0, used = 0;  // per layer, and per token
  uint64_t slot_bytes = 0;        // of one expert, on the device
  Home home = Home::kDevice;
};

struct MemoryBudget {
  uint64_t device = 0;  // bytes, for everything; 0: no limit
  uint64_t host = 0;    // bytes of pinned memory for weights, besides the buffers of reads
};

// Memory besides matrices, in bytes.
struct FixedMemory {
  uint64_t program = 0;  // of the process, where the device works in host memory
  uint64_t vectors = 0;  // norms, biases
  uint64_t kv_cache = 0;
  uint64_t scratch = 0;
  uint64_t buffers = 0;  // of the stream, on the device
  uint64_t total() const { return program + vectors + kv_cache + scratch + buffers; }
};

struct Placement {
  std::vector<PlacedMatrix> matrices;
  std::vector<ExpertPool> pools;  // of the experts that are read on demand
  FixedMemory fixed;
  uint64_t resident_bytes = 0;  // of matrices on the device
  uint64_t ring_bytes = 0;
  uint64_t host_bytes = 0;      // of matrices in host memory
  uint64_t bytes_per_pass = 0;  // streamed per pass; of experts only the ones of one token
  uint64_t file_bytes_per_pass = 0;

  bool streams() const { return bytes_per_pass > 0; }
  uint64_t expert_bytes() const {
    uint64_t bytes = 0;
    for (const ExpertPool& pool : pools) bytes += static_cast<uint64_t>(pool.slots) * pool.slot_bytes;
    return bytes;
  }
  uint64_t device_bytes() const { return fixed.total() + resident_bytes + ring_bytes + expert_bytes(); }
  WeightStream::Choice choice(const StreamSizes& sizes) const;
};

// Bytes of a matrix in the memory of the device, packed if the device packs its format.
uint64_t bytes_on(const Device& device, const llm::ModelMatrix& m);

// The smallest budget that holds these.
uint64_t smallest_budget(std::vector<PlacedMatrix> matrices, const FixedMemory& fixed);

// Throws kNoDevice that names the smallest sufficient budget. `where`: "cpu".
Placement place(std::vector<PlacedMatrix> matrices, const FixedMemory& fixed, const MemoryBudget& budget,
                const std::string& where);

// The matrices of a checkpoint, and the other memory of its model.
std::vector<PlacedMatrix> matrices_of(const Checkpoint& checkpoint, const Device& device);
// The matrices and the other memory of a model of this shape, without a checkpoint.
std::vector<PlacedMatrix> matrices_of(const llm::ModelPlan& plan, const FileType& type, const Device& device);
// Bytes in the file of the largest layer.
uint64_t largest_layer(const std::vector<PlacedMatrix>& matrices);
FixedMemory fixed_memory(const ModelNeeds& needs, const std::vector<PlacedMatrix>& matrices, const Device& device,
                         uint64_t kv_bytes, int64_t context);

// Formats bytes as messages do: "24 MiB".
std::string mib(uint64_t bytes);

}  // namespace gabbro::streaming
