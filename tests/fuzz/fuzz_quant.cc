// Any bytes as blocks of any format (the first byte picks it): codes stay in range, and a row dequantizes. Blocks that
// the encoders make of any floats decode too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/formats/quant/quant.h"

using namespace gabbro;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto dtype = static_cast<DType>(kFirstQuantized + data[0] % kQuantFormatCount);
  const DTypeInfo info = dtype_info(dtype);
  const QuantFormat& format = quant_format(dtype);
  // Copied, so that the sanitizer sees a read past the last block.
  const size_t blocks = (size - 1) / info.block_bytes;
  const auto* first = reinterpret_cast<const std::byte*>(data + 1);
  const std::vector<std::byte> bytes(first, first + blocks * info.block_bytes);
  for (size_t b = 0; b < blocks && format.decode != nullptr; ++b) {
    DecodedBlock block;
    format.decode(bytes.data() + b * info.block_bytes, block);
    for (int i = 0; i < info.block_elements; ++i) {
      if (block.codes[i] >> quant_traits(dtype).bits != 0) std::abort();
    }
  }
  std::vector<float> values(blocks * info.block_elements);
  dequantize_row(dtype, bytes.data(), values.data(), static_cast<int64_t>(values.size()));
  if (format.encode == nullptr) return 0;
  std::vector<float> floats((size - 1) / sizeof(float) / info.block_elements * info.block_elements);
  if (!floats.empty()) std::memcpy(floats.data(), data + 1, floats.size() * sizeof(float));
  std::vector<std::byte> encoded(dtype_bytes(dtype, floats.size()));
  const bool weighted = size > 1 && data[1] % 2 == 1;  // the values as their own importance
  const float* importance = weighted ? floats.data() : nullptr;
  quantize_row(dtype, floats.data(), importance, encoded.data(), static_cast<int64_t>(floats.size()));
  dequantize_row(dtype, encoded.data(), floats.data(), static_cast<int64_t>(floats.size()));
  return 0;
}
