// Formats that matrices are quantized to while they are loaded, and the device memory that they take.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "src/formats/checkpoint.h"
#include "src/models/weights/layer_range.h"
#include "src/models/weights/planned_tensor.h"
#include "src/models/weights/weight_names.h"

namespace gabbro {

class Device;

}

namespace gabbro::llm {

// The format that a matrix is quantized to while loading; nothing where it stays in its own.
std::optional<DType> new_format(const Formats& planned, const std::string& name, DType stored);

// The format that a matrix has on the device, by its name in GGUF; of experts that of the first one. Throws bad_input
// for a tensor that is missing.
DType format_on_device(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                       const std::string& name);

// Device memory of the matrices of the checkpoint, or of a range of its layers (null: all).
size_t bytes_of_matrices(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                         const Device& device, const LayerRange* layers);

}  // namespace gabbro::llm
