// A tensor that a family asked for, and the matrices that the model makes of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/models/weights/transformers_layout.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// A tensor that a family asked for.
struct RequestedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  TransformersLayout theirs;
  ExpertsSize experts{};                  // of a tensor [E, rows, columns]
  HeadMatrices heads{};                   // likewise
  std::vector<HeadMatrices> taken_out{};  // of a tensor that has the matrices of all heads: those that are made of it
  bool in_f32 = false;                    // read in f32, and stored so in GGUF
};

// A requested matrix as the model has it.
struct ModelMatrix {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
};

// The matrices that the model makes of a requested one: one, mostly. Throws bad_input as WeightSource does.
std::vector<ModelMatrix> model_matrices(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                        const RequestedTensor& requested);

// Whether the rows of a requested matrix are stored as such, and can be read from the file each time they are needed.
// Others are gathered while loading, and stay in memory. Throws as above.
bool has_stored_rows(std::span<const WeightName> names, const Checkpoint& checkpoint, const RequestedTensor& requested);

}  // namespace gabbro::llm
