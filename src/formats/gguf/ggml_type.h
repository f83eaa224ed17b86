// The numbers by which GGUF names element types: all that llama.cpp knows, whether we can run them or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gabbro/dtype.h"

namespace gabbro::gguf {

struct GgmlType {
  uint32_t number;
  std::string_view name;  // "Q4_K", as model files are called
  uint32_t block_elements;
  uint32_t block_bytes;
  std::optional<DType> dtype;  // empty: we can list and measure it, but not run it
};

// Null for a number that is not in use (or was removed from the format: 4, 5, 31-33, 36-38).
const GgmlType* find_ggml_type(uint32_t number);

// The number of a dtype; throws bad_input for u8 and bool, which GGUF lacks.
uint32_t ggml_type_number(DType dtype);

}  // namespace gabbro::gguf
