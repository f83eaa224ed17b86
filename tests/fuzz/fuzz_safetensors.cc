// Any bytes as a safetensors file: an Error of one line, or tensors whose every byte can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/formats/hugging_face/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t sum = 0;
  try {
    const gabbro::safetensors::Contents contents =
        gabbro::safetensors::parse({reinterpret_cast<const std::byte*>(data), size}, "x.safetensors");
    for (const auto& [key, text] : contents.metadata) sum += key.size() + text.size();
    size_t total = 0;
    for (const gabbro::safetensors::TensorInfo& tensor : contents.tensors) {
      total += tensor.data.size();
      for (const std::byte byte : tensor.data) sum += std::to_integer<size_t>(byte);
      for (const int64_t length : tensor.shape)
        if (length < 0) std::abort();
    }
    if (total > size) std::abort();  // tensors never share bytes
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  volatile size_t sink = sum;
  (void)sink;
  return 0;
}
