// A GGUF model without a file: its tensors are random numbers, and take next to no memory until they are loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_writer.h"

namespace gabbro::gguf {

// Tensor data begins on whole pages, so that one run of random blocks can be mapped behind many tensors.
inline constexpr uint32_t kPageAlignment = 4096;

// The model that `writer` describes (its alignment is kPageAlignment). Tensors that were added with data have it; those
// that were only declared get random weights of their format with a standard deviation of deviation_of(tensor's name):
// the same 16 MiB for all tensors of a format and deviation, over and over, each from another place on. `name` is what
// messages call the file. Throws failed() where the system cannot map that much.
File random_file(const std::string& name, const Writer& writer,
                 const std::function<float(const std::string& tensor)>& deviation_of, uint64_t seed);
inline File random_file(const std::string& name, const Writer& writer, float deviation, uint64_t seed) {
  return random_file(
      name, writer, [=](const std::string&) { return deviation; }, seed);
}

}  // namespace gabbro::gguf
