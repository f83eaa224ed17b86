// The quantizers behind a C interface, for compare_quantizers.py.
#include "src/formats/quant/quant.h"

using namespace gabbro;

extern "C" {

// The name of quantized format `index` and its number in GGUF files, elements and bytes of a block, whether it has an
// encoder; null past the last one.
const char* gabbro_format(int index, int* numbers) {
  if (index >= kQuantFormatCount) return nullptr;
  const auto dtype = static_cast<DType>(kFirstQuantized + index);
  const QuantTraits& traits = quant_traits(dtype);
  numbers[0] = traits.ggml_type;
  numbers[1] = traits.block_elements;
  numbers[2] = traits.block_bytes;
  numbers[3] = quant_format(dtype).encode != nullptr;
  return dtype_name(dtype).data();
}

// Quantizes [rows, columns]; the format has an encoder.
void gabbro_quantize(int index, const float* source, void* out, int64_t rows, int64_t columns,
                     const float* importance) {
  const auto dtype = static_cast<DType>(kFirstQuantized + index);
  const auto bytes = static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(columns)));
  for (int64_t row = 0; row < rows; ++row)
    quantize_row(dtype, source + row * columns, importance, static_cast<std::byte*>(out) + row * bytes, columns);
}

void gabbro_dequantize(int index, const void* blocks, float* out, int64_t elements) {
  const auto dtype = static_cast<DType>(kFirstQuantized + index);
  dequantize_row(dtype, static_cast<const std::byte*>(blocks), out, elements);
}
}
