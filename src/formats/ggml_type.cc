#include "src/formats/ggml_type.h"

#include "src/base/error.h"

namespace gabbro::gguf {
namespace {

constexpr GgmlType supported(uint32_t number, std::string_view name, DType dtype) {
  return {number, name, dtype_info(dtype).block_elements, dtype_info(dtype).block_bytes, dtype};
}

// Sizes: ggml-common.h of llama.cpp, October 2026.
constexpr GgmlType kTypes[] = {
    supported(0, "F32", DType::f32),
    supported(1, "F16", DType::f16),
    supported(2, "Q4_0", DType::q4_0),
    supported(3, "Q4_1", DType::q4_1),
    supported(6, "Q5_0", DType::q5_0),
    supported(7, "Q5_1", DType::q5_1),
    supported(8, "Q8_0", DType::q8_0),
    {9, "Q8_1", 32, 36, {}},
    supported(10, "Q2_K", DType::q2_k),
    supported(11, "Q3_K", DType::q3_k),
    supported(12, "Q4_K", DType::q4_k),
    supported(13, "Q5_K", DType::q5_k),
    supported(14, "Q6_K", DType::q6_k),
    {15, "Q8_K", 256, 292, {}},
    {16, "IQ2_XXS", 256, 66, {}},
    {17, "IQ2_XS", 256, 74, {}},
    {18, "IQ3_XXS", 256, 98, {}},
    {19, "IQ1_S", 256, 50, {}},
    supported(20, "IQ4_NL", DType::iq4_nl),
    {21, "IQ3_S", 256, 110, {}},
    {22, "IQ2_S", 256, 82, {}},
    supported(23, "IQ4_XS", DType::iq4_xs),
    supported(24, "I8", DType::i8),
    supported(25, "I16", DType::i16),
    supported(26, "I32", DType::i32),
    supported(27, "I64", DType::i64),
    supported(28, "F64", DType::f64),
    {29, "IQ1_M", 256, 56, {}},
    supported(30, "BF16", DType::bf16),
    {34, "TQ1_0", 256, 54, {}},
    {35, "TQ2_0", 256, 66, {}},
    {39, "MXFP4", 32, 17, {}},
    {40, "NVFP4", 64, 36, {}},
    {41, "Q1_0", 128, 18, {}},
    {42, "Q2_0", 64, 18, {}},
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
