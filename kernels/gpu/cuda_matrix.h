// The vocabulary for matrix cores (kernels/gpu/matrix.h) for nvcc: mma.sync, ldmatrix and cp.async, of compute
// capability 8.0 on.
#pragma once

#define GABBRO_MATRIX_CORES

namespace gabbro::gpu::GABBRO_GPU {

#define GABBRO_COPIES_PASS_REGISTERS
inline constexpr bool kCopiesPassRegisters = true;
inline constexpr bool kLoadsTranspose = true;
GPU_FUNCTION inline void hold_loads() {}  // loads are volatile already

// Words as ldmatrix gives them: rows 0-7 of k 0-7, rows 8-15 of k 0-7, and both of k 8-15.
struct Fragment {
  u32 word[4];
};
// Rows 0-7 of k 0-7 and of k 8-15, then rows 8-15: an instruction takes two words that are neighbors.
struct Columns {
  u32 word[4];
};

struct Accumulator {
  static constexpr int kCount = 8;
  float value[kCount] = {};
};

inline constexpr int kRowSlots = 2;
inline constexpr bool kColumnPairs = true;
GPU_FUNCTION constexpr int row_slot(int i) { return i / 2 % 2; }
GPU_FUNCTION inline u32 row_of(int i) { return lane() / 4 + static_cast<u32>(row_slot(i)) * 8; }
GPU_FUNCTION inline u32 column_of(int i) { return static_cast<u32>(i / 4 * 8 + i % 2) + lane() % 4 * 2; }
GPU_FUNCTION inline float row_max(float x) {
  x = max_of(x, shuffle_xor(x, 1));
  return max_of(x, shuffle_xor(x, 2));
}
GPU_FUNCTION inline float row_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

GPU_FUNCTION inline u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

GPU_FUNCTION inline Fragment load_fragment(const Half* tile, u32 pitch) {
  Fragment f;
  const u32 address = shared_address(tile + lane() % 16 * pitch + lane() / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])
               : "r"(address));
  return f;
}
GPU_FUNCTION inline Columns load_columns(const Half* tile, u32 pitch) {
  Columns f;
  const u32 address = shared_address(tile + (lane() / 16 * 8 + lane() % 8) * pitch + lane() / 8 % 2 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])
               : "r"(address));
  return f;
}
GPU_FUNCTION inline Columns load_transposed(const Half* tile, u32 pitch) {
  Columns f;
  const u32 address = shared_address(tile + lane() % 16 * pitch + lane() / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])
               : "r"(address));
  return f;
}

// Lane q of four has elements 4q to 4q + 3 of k.
inline constexpr int kLaneRows = 2, kLaneDepth = 4, kDepthLanes = 4;
GPU_FUNCTION inline u32 lane_row(int i) { return lane() / 4 + static_cast<u32>(i) * 8; }
GPU_FUNCTION inline u32 lane_part() { return lane() % 4; }
template <int words>
GPU_FUNCTION inline Fragment fragment_of(const u32 (&rows)[kLaneRows][words], int first) {
  return {{rows[0][first], rows[1][first], rows[0][first + 1], rows[1][first + 1]}};
}
template <int words>
GPU_FUNCTION inline Columns columns_of(const u32 (&columns)[kLaneRows][words], int first) {
  return {{columns[0][first], columns[0][first + 1], columns[1][first], columns[1][first + 1]}};
}

// An instruction, of eight columns: the first ones (half 0) or the others.
#define GABBRO_MULTIPLY(type)                                                                  \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                   \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                   \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                         \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[2 * half]), \
        "r"(b.word[2 * half + 1]))
template <class T>
GPU_FUNCTION inline void multiply_half(const Fragment& a, const Columns& b, int half, Accumulator& sums) {
  float* c = sums.value + half * 4;
  if constexpr (kIsBFloat<T>) {
    GABBRO_MULTIPLY("bf16");
  } else {
    GABBRO_MULTIPLY("f16");
  }
}
#undef GABBRO_MULTIPLY
template <class T = Half>
GPU_FUNCTION inline void multiply(const Fragment& a, const Columns& b, Accumulator& sums) {
  multiply_half<T>(a, b, 0, sums);
  multiply_half<T>(a, b, 1, sums);
}
#define GABBRO_MULTIPLIES_EIGHT
GPU_FUNCTION inline void multiply_eight(const Fragment& a, const Columns& b, Accumulator& sums) {
  multiply_half<Half>(a, b, 0, sums);
}

GPU_FUNCTION inline u32 pack_f16x2(float x, float y) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
GPU_FUNCTION inline u32 pack_bfloats(float x, float y) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
template <class T>
GPU_FUNCTION inline u32 pack(float x, float y) {
  return kIsBFloat<T> ? pack_bfloats(x, y) : pack_f16x2(x, y);
}
GPU_FUNCTION inline u32 add_f16x2(u32 a, u32 b) {
  u32 sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
GPU_FUNCTION inline u32 fma_f16x2(u32 a, u32 b, u32 c) {
  u32 sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
GPU_FUNCTION inline void spread_bytes(u32 word, u32* f16) {
  f16[0] = __byte_perm(word, 0x64646464, 0x4140);
  f16[1] = __byte_perm(word, 0x64646464, 0x4342);
}

template <class T = Half>
GPU_FUNCTION inline Fragment to_fragment(const Accumulator& sums) {
  Fragment f;
#pragma unroll
  for (int i = 0; i < 4; ++i) f.word[i] = pack<T>(sums.value[2 * i], sums.value[2 * i + 1]);
  return f;
}

template <int count>
class TileCopy {
 public:
  GPU_FUNCTION void begin(int, void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  }
  GPU_FUNCTION void sent() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int later = 0>
  GPU_FUNCTION void landed() {
    asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
  }
};
template <int count, u32 pitch>
using TransposedCopy = TileCopy<count>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Hopper's products of four waves together (wgmma): each has 16 of 64 rows as a Fragment, and all read the same columns
// from the block's memory while the waves go on.
#define GABBRO_TOGETHER
// columns / 8 tiles of eight columns times eight k each, 128 bytes a tile, the second half of k after all tiles of the
// first. PTX: "Matrix descriptor", K-major without swizzling.
template <int columns>
GPU_FUNCTION inline u64 together_columns(const Half* tiles) {
  constexpr u64 kHalfOfK = columns / 8 * 128, kNextTile = 128;
  return (shared_address(tiles) & 0x3ffff) >> 4 | (kHalfOfK >> 4) << 16 | (kNextTile >> 4) << 32;
}
// Rows in groups of eight: eight k of a group are 128 contiguous bytes. The next group is `row_step` elements on, the
// next eight k are `k_step` elements on.
template <u32 row_step, u32 k_step>
GPU_FUNCTION inline u64 together_rows(const Half* tile) {
  constexpr u64 kNextK = k_step * 2, kNextRows = row_step * 2;
  return (shared_address(tile) & 0x3ffff) >> 4 | (kNextK >> 4) << 16 | (kNextRows >> 4) << 32;
}
// 0, which the compiler does not know: where a product's operands are results of loads, it would move them to the
// registers that belong together as soon as they are loaded, and wait for them there.
GPU_FUNCTION inline u32 hidden_zero() {
  u32 lower, own;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
  return lower & own;
}
// Before products whose operands were written since the last ones.
GPU_FUNCTION inline void begin_together() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPU_FUNCTION inline void sent_together() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until no more than the last `later` groups are under way.
template <int later>
GPU_FUNCTION inline void done_together() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
}
// Orders accesses of a wave's lanes to the block's memory.
GPU_FUNCTION inline void wave_barrier() { __syncwarp(); }
// The compiler may not merge this branch with the other one.
GPU_FUNCTION inline void keep_branch() { asm volatile("" ::: "memory"); }
// After writes to the block's memory that such products read.
GPU_FUNCTION inline void show_together() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A block may have 227 KB of memory.
#define GABBRO_LARGE_BLOCKS

// Copies into the block's memory by the copy engine (cp.async.bulk), which one thread begins. No registers hold them
// or their addresses, and products of four waves see them without a fence.
#define GABBRO_BULK_COPIES
// Counts arrivals and the bytes of copies that are to come, of one group of them after the other.
struct CopyBarrier {
  u64 word;
};
// Called by one thread, before show_barriers() and the block's barrier; a group has `arrivals`.
GPU_FUNCTION inline void begin_barrier(CopyBarrier& to, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&to)), "r"(arrivals) : "memory");
}
GPU_FUNCTION inline void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Called by a wave, one arrival: data that its lanes have read may be overwritten.
GPU_FUNCTION inline void arrive(CopyBarrier& at) {
  wave_barrier();
  if (lane() == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&at)) : "memory");
}
// An arrival; the group has this many bytes as well, in all its copies.
GPU_FUNCTION inline void expect_bytes(CopyBarrier& of, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&of)), "r"(bytes)
               : "memory");
}
// Called by one thread; addresses and bytes are multiples of 16.
GPU_FUNCTION inline void begin_bulk_copy(CopyBarrier& of, void* to, const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&of))
               : "memory");
}
// Until group `number` of this barrier, counted from 0, has all its arrivals and bytes.
GPU_FUNCTION inline void wait_for_barrier(CopyBarrier& of, u32 number) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(
          shared_address(&of)),
      "r"(number % 2)
      : "memory");
}
#endif

}  // namespace gabbro::gpu::GABBRO_GPU

#ifdef GABBRO_TOGETHER
#include "kernels/gpu/cuda_wide.h"
#endif
