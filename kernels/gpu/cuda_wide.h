// Products of four waves together (wgmma, Hopper); kernels/gpu/matrix.h describes them. A lane has the sums of
// columns / 16 Accumulators.
#pragma once

namespace gabbro::gpu::GABBRO_GPU {

// The first n operands of an instruction, and the sums that they are.
#define GABBRO_PLACES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GABBRO_SUMS_8 "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
#define GABBRO_PLACES_16 GABBRO_PLACES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define GABBRO_SUMS_16 \
  GABBRO_SUMS_8, "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15])
#define GABBRO_PLACES_24 GABBRO_PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define GABBRO_SUMS_24 \
  GABBRO_SUMS_16, "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23])
#define GABBRO_PLACES_32 GABBRO_PLACES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define GABBRO_SUMS_32 \
  GABBRO_SUMS_24, "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
#define GABBRO_PLACES_40 GABBRO_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define GABBRO_SUMS_40 \
  GABBRO_SUMS_32, "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39])
#define GABBRO_PLACES_64                                                                                        \
  GABBRO_PLACES_40                                                                                              \
  ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, " \
  "%61, %62, %63"
#define GABBRO_SUMS_64                                                                                        \
  GABBRO_SUMS_40, "+f"(s[40]), "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]),  \
      "+f"(s[47]), "+f"(s[48]), "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), \
      "+f"(s[55]), "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), \
      "+f"(s[63])
#define GABBRO_PLACES_80 \
  GABBRO_PLACES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define GABBRO_SUMS_80                                                                                        \
  GABBRO_SUMS_64, "+f"(s[64]), "+f"(s[65]), "+f"(s[66]), "+f"(s[67]), "+f"(s[68]), "+f"(s[69]), "+f"(s[70]),  \
      "+f"(s[71]), "+f"(s[72]), "+f"(s[73]), "+f"(s[74]), "+f"(s[75]), "+f"(s[76]), "+f"(s[77]), "+f"(s[78]), \
      "+f"(s[79])

// `rows`: text that names them; p says whether the sums count, or are replaced.
#define GABBRO_WIDE(columns, count, type, rows, tiles, adds, ends)                                 \
  "{ .reg .pred p; setp.ne.b32 p, %" #adds                                                         \
  ", 0; "                                                                                          \
  "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" GABBRO_PLACES_##count \
      "}, " rows ", %" #tiles ", p, 1, 1, " ends "; }"
#define GABBRO_ADD(columns, count, type, transposed, a0, a1, a2, a3, tiles_at, adds)                            \
  asm volatile(                                                                                                 \
      GABBRO_WIDE(columns, count, type, "{%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}", tiles_at, adds, transposed) \
      : GABBRO_SUMS_##count                                                                                     \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))

template <class T, int columns>
struct WideProduct;

// With `count` sums, and the numbers of the other operands.
#define GABBRO_WIDE_PRODUCT(columns, count, ...)                                    \
  template <class T>                                                                \
  struct WideProduct<T, columns> {                                                  \
    GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {            \
      if constexpr (kIsBFloat<T>) {                                                 \
        GABBRO_ADD(columns, count, "bf16", "0", __VA_ARGS__);                       \
      } else {                                                                      \
        GABBRO_ADD(columns, count, "f16", "0", __VA_ARGS__);                        \
      }                                                                             \
    }                                                                               \
    GPU_INLINE static void add_transposed(const Fragment& a, u64 tiles, float* s) { \
      if constexpr (kIsBFloat<T>) {                                                 \
        GABBRO_ADD(columns, count, "bf16", "1", __VA_ARGS__);                       \
      } else {                                                                      \
        GABBRO_ADD(columns, count, "f16", "1", __VA_ARGS__);                        \
      }                                                                             \
    }                                                                               \
  };
GABBRO_WIDE_PRODUCT(16, 8, 8, 9, 10, 11, 12, 13)
GABBRO_WIDE_PRODUCT(32, 16, 16, 17, 18, 19, 20, 21)
GABBRO_WIDE_PRODUCT(48, 24, 24, 25, 26, 27, 28, 29)
GABBRO_WIDE_PRODUCT(64, 32, 32, 33, 34, 35, 36, 37)
GABBRO_WIDE_PRODUCT(80, 40, 40, 41, 42, 43, 44, 45)
GABBRO_WIDE_PRODUCT(128, 64, 64, 65, 66, 67, 68, 69)
GABBRO_WIDE_PRODUCT(160, 80, 80, 81, 82, 83, 84, 85)
#undef GABBRO_WIDE_PRODUCT
#undef GABBRO_ADD

#define GABBRO_ADD_ROWS(columns, count, type, rows_at, tiles_at, adds_at)                 \
  asm volatile(GABBRO_WIDE(columns, count, type, "%" #rows_at, tiles_at, adds_at, "0, 0") \
               : GABBRO_SUMS_##count                                                      \
               : "l"(rows), "l"(tiles), "r"(adds ? 1 : 0))
// Products of rows in the block's memory.
template <class T, int columns>
struct RowsProduct;
#define GABBRO_ROWS_PRODUCT(columns, count, ...)                                \
  template <class T>                                                            \
  struct RowsProduct<T, columns> {                                              \
    GPU_INLINE static void multiply(u64 rows, u64 tiles, bool adds, float* s) { \
      if constexpr (kIsBFloat<T>) {                                             \
        GABBRO_ADD_ROWS(columns, count, "bf16", __VA_ARGS__);                   \
      } else {                                                                  \
        GABBRO_ADD_ROWS(columns, count, "f16", __VA_ARGS__);                    \
      }                                                                         \
    }                                                                           \
  };
GABBRO_ROWS_PRODUCT(16, 8, 8, 9, 10)
GABBRO_ROWS_PRODUCT(48, 24, 24, 25, 26)
GABBRO_ROWS_PRODUCT(64, 32, 32, 33, 34)
GABBRO_ROWS_PRODUCT(80, 40, 40, 41, 42)
GABBRO_ROWS_PRODUCT(128, 64, 64, 65, 66)
GABBRO_ROWS_PRODUCT(160, 80, 80, 81, 82)
#undef GABBRO_ROWS_PRODUCT
#undef GABBRO_ADD_ROWS
#undef GABBRO_WIDE
#undef GABBRO_PLACES_8
#undef GABBRO_SUMS_8
#undef GABBRO_PLACES_16
#undef GABBRO_SUMS_16
#undef GABBRO_PLACES_24
#undef GABBRO_SUMS_24
#undef GABBRO_PLACES_32
#undef GABBRO_SUMS_32
#undef GABBRO_PLACES_40
#undef GABBRO_SUMS_40
#undef GABBRO_PLACES_64
#undef GABBRO_SUMS_64
#undef GABBRO_PLACES_80
#undef GABBRO_SUMS_80

// Names columns that are stored transposed: 16 rows of k, from the first one on, in vectors of eight columns; the
// `rows` vectors of the same columns are in sequence.
template <int rows>
GPU_FUNCTION inline u64 transposed_together_columns(const Half* tile) {
  constexpr u64 kNextRows = 128, kNextColumns = rows * 16;
  return (shared_address(tile) & 0x3ffff) >> 4 | (kNextRows >> 4) << 16 | (kNextColumns >> 4) << 32;
}

// After done_together(): the compiler may not read sums before.
template <int count>
GPU_INLINE inline void settle_together(float* sums) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

}  // namespace gabbro::gpu::GABBRO_GPU
