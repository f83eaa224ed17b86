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

// A range of at least one layer for each device, in their order, so that the slowest device is done as soon as can be
// and nothing is larger than its memory. Throws bad_input where there are fewer layers than devices, and OutOfMemory
// where no split fits.
std::vector<llm::LayerRange> split_layers(const LayerSizes& sizes, std::span<const StageDevice> devices);

}  // namespace gabbro::staged
