// Formats that matrices are quantized to while they are loaded, and the device memory that they take.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/models/weights/weights.h"

namespace gabbro::llm {

// Planned tensors by their names in GGUF.
using Formats = std::map<std::string, PlannedTensor>;

// Those of the checkpoint's matrices in a file of this type; empty for null. Throws bad_input for a format without an
// encoder.
Formats planned_formats(const Checkpoint& checkpoint, const FileType* type);

// The format that a matrix is quantized to while loading; nothing where it stays in its own.
std::optional<DType> new_format(const Formats& planned, const std::string& name, DType stored);

// Device memory of all matrices of the checkpoint.
size_t bytes_of_matrices(const Checkpoint& checkpoint, std::span<const WeightName> names, const Formats& planned,
                         const Device& device);

}  // namespace gabbro::llm
