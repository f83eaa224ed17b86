// A tensor of a file that is written, or of weights that are quantized while loading.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gabbro/dtype.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// A tensor of a file of a given type.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  DType dtype;
  ExpertsSize experts{};  // of a tensor [E, rows, columns]
  DType asked = dtype;    // by the type of the file: another dtype if rows are not whole blocks of it

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t dimension : shape) count *= dimension;
    return count;
  }
  uint64_t bytes() const { return dtype_bytes(dtype, static_cast<size_t>(elements())); }
};

// Planned tensors by their names in GGUF.
using Formats = std::map<std::string, PlannedTensor>;

}  // namespace gabbro::llm
