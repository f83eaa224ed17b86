// Wide products of four waves together (wgmma, Hopper); kernels/gpu/matrix.h describes them. A lane has the sums of
// columns / 16 Accumulators.
#pragma once

namespace gabbro::gpu::GABBRO_GPU {

template <class T, int columns>
struct WideProduct;

#define GABBRO_WIDE(type, transposed)                                                                  \
  asm volatile(                                                                                        \
      "{ .reg .pred p; setp.ne.b32 p, %13, 0; "                                                        \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type                                      \
      " {"                                                                                             \
      "%0, %1, %2, %3, %4, %5, %6, %7"                                                                 \
      "}, {%8, %9, %10, %11}, %12, p, 1, 1, " transposed "; }"                                         \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]) \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
template <class T>
struct WideProduct<T, 16> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
};
#undef GABBRO_WIDE

#define GABBRO_WIDE(type, transposed)                                                                               \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %29, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n48k16.f32." type "." type                                                   \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23"                                                                                          \
      "}, {%24, %25, %26, %27}, %28, p, 1, 1, " transposed "; }"                                                    \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23])                   \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
template <class T>
struct WideProduct<T, 48> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
  GPU_INLINE static void add_transposed(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "1");
    } else {
      GABBRO_WIDE("f16", "1");
    }
  }
};
#undef GABBRO_WIDE

#define GABBRO_WIDE(type, transposed)                                                                               \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %37, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                   \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"                                                  \
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, " transposed "; }"                                                    \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),     \
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])                   \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
#define GABBRO_WIDE_ROWS(type)                                                                                      \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %34, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                   \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"                                                  \
      "}, %32, %33, p, 1, 1, 0, 0; }"                                                                               \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),     \
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])                   \
      : "l"(rows), "l"(tiles), "r"(adds ? 1 : 0))
template <class T>
struct WideProduct<T, 64> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
  GPU_INLINE static void add_transposed(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "1");
    } else {
      GABBRO_WIDE("f16", "1");
    }
  }
  GPU_INLINE static void add_rows(u64 rows, u64 tiles, bool adds, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE_ROWS("bf16");
    } else {
      GABBRO_WIDE_ROWS("f16");
    }
  }
};
#undef GABBRO_WIDE
#undef GABBRO_WIDE_ROWS

#define GABBRO_WIDE(type, transposed)                                                                               \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %45, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n80k16.f32." type "." type                                                   \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39"          \
      "}, {%40, %41, %42, %43}, %44, p, 1, 1, " transposed "; }"                                                    \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),     \
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]),     \
        "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39])                   \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
template <class T>
struct WideProduct<T, 80> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
  GPU_INLINE static void add_transposed(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "1");
    } else {
      GABBRO_WIDE("f16", "1");
    }
  }
};
#undef GABBRO_WIDE

#define GABBRO_WIDE(type, transposed)                                                                               \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %69, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                  \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "        \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "        \
      "%60, %61, %62, %63"                                                                                          \
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, " transposed "; }"                                                    \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),     \
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]),     \
        "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]),     \
        "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),     \
        "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]),     \
        "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63])                   \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
template <class T>
struct WideProduct<T, 128> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
};
#undef GABBRO_WIDE

#define GABBRO_WIDE(type, transposed)                                                                               \
  asm volatile(                                                                                                     \
      "{ .reg .pred p; setp.ne.b32 p, %85, 0; "                                                                     \
      "wgmma.mma_async.sync.aligned.m64n160k16.f32." type "." type                                                  \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                  \
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "        \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "        \
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"          \
      "}, {%80, %81, %82, %83}, %84, p, 1, 1, " transposed "; }"                                                    \
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),      \
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),     \
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]),     \
        "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]),     \
        "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),     \
        "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]),     \
        "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63]), "+f"(s[64]),     \
        "+f"(s[65]), "+f"(s[66]), "+f"(s[67]), "+f"(s[68]), "+f"(s[69]), "+f"(s[70]), "+f"(s[71]), "+f"(s[72]),     \
        "+f"(s[73]), "+f"(s[74]), "+f"(s[75]), "+f"(s[76]), "+f"(s[77]), "+f"(s[78]), "+f"(s[79])                   \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(tiles), "r"(1))
template <class T>
struct WideProduct<T, 160> {
  GPU_INLINE static void add(const Fragment& a, u64 tiles, float* s) {
    if constexpr (kIsBFloat<T>) {
      GABBRO_WIDE("bf16", "0");
    } else {
      GABBRO_WIDE("f16", "0");
    }
  }
};
#undef GABBRO_WIDE

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
