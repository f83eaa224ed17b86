// How a pipeline works in less memory than it would take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/pictures/pipeline_memory.h"

namespace gabbro::pictures {

// Measures that lower the memory of a pipeline, in this order: text encoders compute on the CPU; pictures are decoded
// in bands; blocks of the U-Net wait in host memory and take turns on the device.
struct Placement {
  bool text_on_cpu = false;
  DecodeBands bands = DecodeBands::kAuto;
  std::optional<uint64_t> resident_bytes{};  // as MemoryQuestion has it
  uint64_t moved_bytes = 0;                  // of the U-Net's weights, that each step copies to the device
  PipelineMemory forecast{};                 // on the device

  std::string describe() const;  // one line; empty: nothing is done
};

// For at most `budget` bytes on a device with separate memory. Throws bad_input for other devices; another budget that
// is too small, with the least that works.
Placement place_pipeline(const PipelineParts& parts, const std::shared_ptr<Device>& device,
                         const MemoryQuestion& question, uint64_t budget);

}  // namespace gabbro::pictures
