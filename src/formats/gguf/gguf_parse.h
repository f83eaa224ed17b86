// One GGUF file, from bytes to checked views of them. Split models and look-up are gguf.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/formats/gguf/gguf.h"

namespace gabbro::gguf {

struct Part {
  uint32_t version;
  uint32_t alignment;
  std::vector<Field> fields;
  std::vector<TensorInfo> tensors;  // their `file` is null

  const Value* find(std::string_view key) const;
};

// `name` is what messages call the file. The result refers to `bytes`. Allocates no more than a small multiple of their
// size, whatever they say.
Part parse(std::span<const std::byte> bytes, std::string_view name);

}  // namespace gabbro::gguf
