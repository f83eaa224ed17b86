// The split of a model's layers over several devices: a pure function of the layers' sizes and of the devices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/models/weights/layer_range.h"
#include "src/models/weights/planned_tensor.h"

namespace gabbro::staged {

// The bytes of a model by layer.
struct LayerSizes {
  std::vector<uint64_t> weights, cache;  // by layer
  uint64_t embeddings = 0;               // of the first device
  uint64_t head = 0;                     // of the last device
};

struct StageDevice {
  std::string name;
  double speed = 1;     // bytes of weights in a time; only ratios matter
  uint64_t memory = 0;  // bytes for weights and cache; 0: unknown
};

// The sizes of a checkpoint's layers as they are stored, with these bytes of cache by layer.
LayerSizes sizes_of(const Checkpoint& checkpoint, std::span<const llm::WeightName> names, std::vector<uint64_t> cache);

// Sizes of the tensors of a file, by their names in GGUF.
LayerSizes sizes_of(std::span<const llm::PlannedTensor> tensors, std::vector<uint64_t> cache);

// Bytes of weights and cache that a range takes.
uint64_t memory_of(const LayerSizes& sizes, const llm::LayerRange& range);

// Gives each device, in their order, a range of at least one layer that fits in its memory, and minimizes the time of
// the slowest device. Throws bad_input if there are fewer layers than devices, and OutOfMemory if no split fits.
std::vector<llm::LayerRange> split_layers(const LayerSizes& sizes, std::span<const StageDevice> devices);

}  // namespace gabbro::staged
