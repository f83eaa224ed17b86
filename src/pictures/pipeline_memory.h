// A forecast of the memory that a pipeline takes, from the plans that it would run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/pictures/pipeline_parts.h"

namespace gabbro {
class Device;
}

namespace gabbro::pictures {

// Bytes on the device.
struct PartMemory {
  std::string name;           // "U-Net"
  uint64_t parameters = 0;    // of the tensors that are loaded
  uint64_t weight_bytes = 0;  // as they are loaded
  uint64_t work_bytes = 0;    // activations and scratch memory of one call, its inputs and its result
};

struct PipelineMemory {
  std::vector<PartMemory> parts;  // in the order of their work: text encoders, U-Net, autoencoder
  uint64_t weight_bytes = 0;      // of all parts, which stay loaded
  uint64_t work_bytes = 0;        // of the largest part: plans share their memory
  uint64_t total_bytes() const { return weight_bytes + work_bytes; }
};

struct PictureSize {
  int64_t width = 0, height = 0;  // in pixels; 0: those that the model was trained with
};

// Sides of 0 become the model's own. The U-Net is counted with guidance, a batch of two. Throws
// bad_input that names the file, or a side that is not a multiple of the model's.
PipelineMemory forecast_memory(const PipelineParts& parts, const std::shared_ptr<Device>& device, PictureSize& size);

}  // namespace gabbro::pictures
