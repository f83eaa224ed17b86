// A forecast of the memory that a pipeline takes, from the plans that it would run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/pictures/picture_request.h"
#include "src/pictures/pipeline_parts.h"
#include "src/pictures/precision.h"

namespace gabbro {
class Device;
}

namespace gabbro::pictures {

// Bytes on the device.
struct PartMemory {
  std::string name;           // "U-Net"
  uint64_t parameters = 0;    // of the tensors that are loaded
  uint64_t weight_bytes = 0;  // after loading
  uint64_t work_bytes = 0;    // activations and scratch memory of one call, its inputs and its result
  uint64_t moved_bytes = 0;   // of weights in host memory, that each call copies to the device
};

struct PipelineMemory {
  std::vector<PartMemory> parts;  // in the order of their work: text encoders, U-Net, autoencoder
  uint64_t weight_bytes = 0;      // of all parts, which stay loaded
  uint64_t work_bytes = 0;        // of the largest part: plans share their memory
  std::string precision;          // that the U-Net and the autoencoder compute in
  bool decodes_in_bands = false;
  uint64_t total_bytes() const { return weight_bytes + work_bytes; }
};

struct PictureSize {
  int64_t width = 0, height = 0;  // in pixels; 0: those that the model was trained with
};

struct MemoryQuestion {
  PictureSize size{};
  Precision precision = Precision::kAuto;
  DecodeBands bands = DecodeBands::kAuto;
  bool text = true;       // the text encoders are on the device
  bool separate = false;  // matrices of the U-Net have separate memory, so that loading takes no more than working
  // Blocks of the U-Net take turns, and the first ones stay up to these bytes; none: all stay.
  std::optional<uint64_t> resident_bytes{};
};

// Sides of 0 become the model's own. The U-Net is counted with guidance, a batch of two. Nothing is computed. Throws
// bad_input that names the file, or a side that is not a multiple of the model's.
PipelineMemory forecast_memory(const PipelineParts& parts, const std::shared_ptr<Device>& device,
                               MemoryQuestion& question);

}  // namespace gabbro::pictures
