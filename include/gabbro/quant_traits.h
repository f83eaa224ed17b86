// The table of block formats: one row per format. DType, GGUF's types, file types, packing, dispatch and the checks of
// weights are made from it. How a block is decoded is in <format>.cc next to it. No header is included here: device
// compilers read this file too.
#pragma once

namespace gabbro {

// The levels that the codes of a format with a codebook stand for.
struct QuantLevels {
  signed char value[16];
  bool used = true;
  signed char low[16] = {};  // levels of more than 8 bits are 256 · value + low
  bool wide = false;
  bool operator==(const QuantLevels&) const = default;
};
inline constexpr QuantLevels kNoLevels = {.value = {}, .used = false};

// IQ4_NL, IQ4_XS: 16 levels, denser near zero.
inline constexpr QuantLevels kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// MXFP4, NVFP4: E2M1 floats times 2 (OCP Microscaling Formats 1.0). The code of -0 is a zero.
inline constexpr QuantLevels kFp4Levels = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// The lattices of IQ1, IQ2 and IQ3: the upper bit of a code is a sign (of IQ1's offset), the lower ones the digit of a
// grid point (src/formats/quant/grids.h).
inline constexpr QuantLevels kIq1Levels = {-7, 1, 9, 0, -9, -1, 7, 0};
inline constexpr QuantLevels kIq2Levels = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr QuantLevels kIq3XxsLevels = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr QuantLevels kIq3SLevels = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

// NF4 (Dettmers et al. 2023, QLoRA, appendix E): quantiles of the normal distribution, times 8191 and rounded.
inline constexpr QuantLevels kNf4Levels = {.value = {-32, -22, -17, -13, -9, -6, -3, 0, 3, 5, 8, 11, 14, 18, 23, 32},
                                           .low = {1, -71, 51, 93, -26, 23, 22, 0, -116, 38, -32, -48, 26, 0, 34, -1},
                                           .wide = true};

// Encoding of a block's scale (src/formats/quant/scale_codes.h). Minimums are always f16.
enum class ScaleCode {
  kF16,
  kF16Nibbles,  // f16 in the top nibbles of four 16-bit words
  kE8M0,        // a power of two
  kUE4M3,       // of each group: an unsigned float of 8 bits
  kF32,
};

struct QuantTraits {
  const char* ggml_name;  // of the element type, as GGUF files have it
  int ggml_type;          // its number there; from 9001 on: a format of safetensors folders that GGUF lacks
  int file_type = -1;     // general.file_type of models of this format alone; -1: none
  int block_elements;
  int block_bytes;

  // Codes, in the canonical form of src/formats/quant/quant.h. Formats with equal fields from here to `scale_shift`,
  // and of one encoding of scales, share packed layouts and kernels.
  int bits = 0;                    // of a code: 2, 3, 4, 5, 6 or 8; 0: no codes, the format is only dequantized
  int group = 32;                  // elements that share a sub-scale: 16 or 32
  int zero = 0;                    // the code of level 0
  QuantLevels levels = kNoLevels;  // codebook
  bool sub_scales = false;
  int scale_shift = 0;       // the canonical scale is the stored one times 2^-scale_shift
  bool zero_points = false;  // the minimum counts in units of the scale: minus the code of level 0, a whole number
  bool e4m3 = false;         // codes are floats: sign, four bits of exponent (bias 7), three of mantissa; none is a NaN

  // Byte offsets of the scales in a block.
  ScaleCode scale = ScaleCode::kF16;
  int scale_at = 0;
  int minimum_at = -1;  // -1: no minimum

  constexpr bool has_minimum() const { return minimum_at >= 0; }
};

// X(name, fields...) of each format, in the order of DType, to which the names belong. The ABI fixes the order: new
// rows go to the end.
// clang-format off
#define GABBRO_QUANT_FORMATS(X)                                                                                     \
  X(q4_0,    .ggml_name = "Q4_0",    .ggml_type = 2,  .file_type = 2,  .block_elements = 32,  .block_bytes = 18,    \
             .bits = 4, .zero = 8)                                                                                  \
  X(q4_1,    .ggml_name = "Q4_1",    .ggml_type = 3,  .file_type = 3,  .block_elements = 32,  .block_bytes = 20,    \
             .bits = 4, .minimum_at = 2)                                                                            \
  X(q5_0,    .ggml_name = "Q5_0",    .ggml_type = 6,  .file_type = 8,  .block_elements = 32,  .block_bytes = 22,    \
             .bits = 5, .zero = 16)                                                                                 \
  X(q5_1,    .ggml_name = "Q5_1",    .ggml_type = 7,  .file_type = 9,  .block_elements = 32,  .block_bytes = 24,    \
             .bits = 5, .minimum_at = 2)                                                                            \
  X(q8_0,    .ggml_name = "Q8_0",    .ggml_type = 8,  .file_type = 7,  .block_elements = 32,  .block_bytes = 34,    \
             .bits = 8, .zero = 128)                                                                                \
  X(q2_k,    .ggml_name = "Q2_K",    .ggml_type = 10,                  .block_elements = 256, .block_bytes = 84,    \
             .bits = 2, .group = 16, .sub_scales = true, .scale_at = 80, .minimum_at = 82)                          \
  X(q3_k,    .ggml_name = "Q3_K",    .ggml_type = 11,                  .block_elements = 256, .block_bytes = 110,   \
             .bits = 3, .group = 16, .zero = 4, .sub_scales = true, .scale_at = 108)                                \
  X(q4_k,    .ggml_name = "Q4_K",    .ggml_type = 12,                  .block_elements = 256, .block_bytes = 144,   \
             .bits = 4, .sub_scales = true, .minimum_at = 2)                                                        \
  X(q5_k,    .ggml_name = "Q5_K",    .ggml_type = 13,                  .block_elements = 256, .block_bytes = 176,   \
             .bits = 5, .sub_scales = true, .minimum_at = 2)                                                        \
  X(q6_k,    .ggml_name = "Q6_K",    .ggml_type = 14, .file_type = 18, .block_elements = 256, .block_bytes = 210,   \
             .bits = 6, .group = 16, .zero = 32, .sub_scales = true, .scale_at = 208)                               \
  X(iq4_nl,  .ggml_name = "IQ4_NL",  .ggml_type = 20, .file_type = 25, .block_elements = 32,  .block_bytes = 18,    \
             .bits = 4, .levels = kIq4Levels)                                                                      \
  X(iq4_xs,  .ggml_name = "IQ4_XS",  .ggml_type = 23, .file_type = 30, .block_elements = 256, .block_bytes = 136,   \
             .bits = 4, .levels = kIq4Levels, .sub_scales = true)                                                  \
  X(q1_0,    .ggml_name = "Q1_0",    .ggml_type = 41, .file_type = 40, .block_elements = 128, .block_bytes = 18,    \
             .bits = 2, .zero = 1)                                                                                  \
  X(q2_0,    .ggml_name = "Q2_0",    .ggml_type = 42, .file_type = 41, .block_elements = 64,  .block_bytes = 18,    \
             .bits = 2, .zero = 1)                                                                                  \
  X(tq1_0,   .ggml_name = "TQ1_0",   .ggml_type = 34, .file_type = 36, .block_elements = 256, .block_bytes = 54,    \
             .bits = 2, .zero = 1, .scale_at = 52)                                                                  \
  X(tq2_0,   .ggml_name = "TQ2_0",   .ggml_type = 35, .file_type = 37, .block_elements = 256, .block_bytes = 66,    \
             .bits = 2, .zero = 1, .scale_at = 64)                                                                  \
  X(iq1_s,   .ggml_name = "IQ1_S",   .ggml_type = 19, .file_type = 24, .block_elements = 256, .block_bytes = 50,    \
             .bits = 3, .group = 16, .levels = kIq1Levels, .sub_scales = true, .scale_shift = 3)                   \
  X(iq1_m,   .ggml_name = "IQ1_M",   .ggml_type = 29, .file_type = 31, .block_elements = 256, .block_bytes = 56,    \
             .bits = 3, .group = 16, .levels = kIq1Levels, .sub_scales = true, .scale_shift = 3,                   \
             .scale = ScaleCode::kF16Nibbles, .scale_at = 48)                                                       \
  X(iq2_xxs, .ggml_name = "IQ2_XXS", .ggml_type = 16, .file_type = 19, .block_elements = 256, .block_bytes = 66,    \
             .bits = 3, .group = 16, .levels = kIq2Levels, .sub_scales = true, .scale_shift = 3)                   \
  X(iq2_xs,  .ggml_name = "IQ2_XS",  .ggml_type = 17, .file_type = 20, .block_elements = 256, .block_bytes = 74,    \
             .bits = 3, .group = 16, .levels = kIq2Levels, .sub_scales = true, .scale_shift = 3)                   \
  X(iq2_s,   .ggml_name = "IQ2_S",   .ggml_type = 22,                  .block_elements = 256, .block_bytes = 82,    \
             .bits = 3, .group = 16, .levels = kIq2Levels, .sub_scales = true, .scale_shift = 3)                   \
  X(iq3_xxs, .ggml_name = "IQ3_XXS", .ggml_type = 18, .file_type = 23, .block_elements = 256, .block_bytes = 98,    \
             .bits = 4, .levels = kIq3XxsLevels, .sub_scales = true, .scale_shift = 2)                             \
  X(iq3_s,   .ggml_name = "IQ3_S",   .ggml_type = 21, .file_type = 26, .block_elements = 256, .block_bytes = 110,   \
             .bits = 4, .levels = kIq3SLevels, .sub_scales = true)                                                 \
  X(mxfp4,   .ggml_name = "MXFP4",   .ggml_type = 39, .file_type = 38, .block_elements = 32,  .block_bytes = 17,    \
             .bits = 4, .levels = kFp4Levels, .scale = ScaleCode::kE8M0)                                           \
  X(nvfp4,   .ggml_name = "NVFP4",   .ggml_type = 40, .file_type = 39, .block_elements = 64,  .block_bytes = 36,    \
             .group = 16, .scale = ScaleCode::kUE4M3)                                                               \
  X(int4_zp, .ggml_name = "INT4_ZP", .ggml_type = 9001, .file_type = 9001, .block_elements = 32, .block_bytes = 20,  \
             .bits = 4, .zero_points = true, .minimum_at = 2)                                                        \
  X(int8_f32, .ggml_name = "INT8_F32", .ggml_type = 9002, .file_type = 9002, .block_elements = 32, .block_bytes = 36,\
             .bits = 8, .zero = 128, .scale = ScaleCode::kF32)                                                       \
  X(fp8_e4m3, .ggml_name = "FP8_E4M3", .ggml_type = 9003, .file_type = 9003, .block_elements = 32, .block_bytes = 36,\
             .bits = 8, .e4m3 = true, .scale = ScaleCode::kF32)                                                      \
  X(nf4, .ggml_name = "NF4", .ggml_type = 9004, .file_type = 9004, .block_elements = 64, .block_bytes = 36,          \
             .bits = 4, .levels = kNf4Levels, .scale = ScaleCode::kF32)
// clang-format on

// The rows by their names.
namespace formats {
#define GABBRO_APPLY(name, ...) inline constexpr QuantTraits name = {__VA_ARGS__};
GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
}  // namespace formats

}  // namespace gabbro
