#include "src/formats/gguf/ggml_type.h"

#include "src/base/error.h"

namespace gabbro::gguf {
namespace {

constexpr GgmlType plain(uint32_t number, std::string_view name, DType dtype) {
  return {number, name, dtype_info(dtype).block_elements, dtype_info(dtype).block_bytes, dtype};
}

constexpr GgmlType block_format(DType dtype) {
  const QuantTraits& traits = quant_traits(dtype);
  return {static_cast<uint32_t>(traits.ggml_type), traits.ggml_name, static_cast<uint32_t>(traits.block_elements),
          static_cast<uint32_t>(traits.block_bytes), dtype};
}

// Formats that we do not run: ggml-common.h of llama.cpp, October 2026. The others are in
// include/gabbro/quant_traits.h.
constexpr GgmlType kTypes[] = {
#define GABBRO_APPLY(name, ...) block_format(DType::name),
    GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
        plain(0, "F32", DType::f32),
    plain(1, "F16", DType::f16),
    {9, "Q8_1", 32, 36, {}},
    {15, "Q8_K", 256, 292, {}},
    plain(24, "I8", DType::i8),
    plain(25, "I16", DType::i16),
    plain(26, "I32", DType::i32),
    plain(27, "I64", DType::i64),
    plain(28, "F64", DType::f64),
    plain(30, "BF16", DType::bf16),
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
  for (const GgmlType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

uint32_t ggml_type_number(DType dtype) {
  for (const GgmlType& type : kTypes) {
    if (type.dtype == dtype) return type.number;
  }
  throw bad_input("GGUF has no element type {}", dtype_name(dtype));
}

}  // namespace gabbro::gguf
