// The vocabulary for nvcc.
#pragma once

#include "kernels/gpu/compiled.h"

// The host gives each block as many bytes at the launch as NAME_memory says (api_cuda.cc): the compiler sets apart 48
// KB at most by itself.
#define GPU_BOUND_KERNEL(name, bounds, bytes, Args, ...)          \
  extern "C" __device__ const unsigned int name##_memory = bytes; \
  extern "C" __global__ bounds void name(const Args args) {       \
    gabbro::gpu::GABBRO_GPU::let_next_begin();                    \
    __VA_ARGS__;                                                  \
  }
#define GPU_CUDA_KERNEL(name, threads, bytes, Args, ...) \
  GPU_BOUND_KERNEL(name, __launch_bounds__(threads), bytes, Args, __VA_ARGS__)
#define GPU_LATE_KERNEL(name, threads, Args, ...)                               \
  extern "C" __device__ const unsigned int name##_memory = 0;                   \
  extern "C" __global__ __launch_bounds__(threads) void name(const Args args) { \
    gabbro::gpu::GABBRO_GPU::wait_for_previous();                               \
    gabbro::gpu::GABBRO_GPU::let_next_begin();                                  \
    gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args);                                 \
  }
#define GPU_EARLY_KERNEL(name, threads, Args, ...) \
  GPU_CUDA_KERNEL(name, threads, 0, Args, gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args))
#define GPU_MEMORY_KERNEL(name, threads, Memory, Args, ...)                                          \
  GPU_CUDA_KERNEL(name, threads, sizeof(Memory), Args, gabbro::gpu::GABBRO_GPU::wait_for_previous(); \
                  gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args))
#define GPU_EARLY_MEMORY_KERNEL(name, threads, Memory, Args, ...) \
  GPU_CUDA_KERNEL(name, threads, sizeof(Memory), Args, gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args))
#define GPU_EARLY_BLOCKS_KERNEL(name, threads, blocks, Memory, Args, ...)          \
  GPU_BOUND_KERNEL(name, __launch_bounds__(threads, blocks), sizeof(Memory), Args, \
                   gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args))
#define GPU_KERNEL(name, threads, Args, ...)                                            \
  GPU_CUDA_KERNEL(name, threads, 0, Args, gabbro::gpu::GABBRO_GPU::wait_for_previous(); \
                  gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args))

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kWave = 32;
inline constexpr bool kFewRegisters = false;

template <class Memory>
GPU_FUNCTION inline Memory& block_memory() {
  extern __shared__ uint4 launch_memory[];
  return *reinterpret_cast<Memory*>(launch_memory);
}

// Programmatic dependent launch, of compute capability 9.0 on: a launch may begin before the one ahead of it has ended,
// and waits for its end (and for what it wrote) here.
GPU_FUNCTION inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
GPU_FUNCTION inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
#define GABBRO_CLUSTERS
GPU_FUNCTION inline u32 cluster_blocks() {
  u32 blocks;
  asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(blocks));
  return blocks;
}
GPU_FUNCTION inline void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
GPU_FUNCTION inline void cluster_arrive() {
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");  // waits for no stores to memory
#else
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
#endif
  arrive_in_cluster();
}
GPU_FUNCTION inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
GPU_FUNCTION inline void cluster_barrier() {
  cluster_arrive();
  cluster_wait();
}
GPU_FUNCTION inline void leave_cluster() {
  arrive_in_cluster();
  cluster_wait();
}
template <class T>
GPU_FUNCTION inline const T* of_block(const T* p, u32 block) {
  u64 address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(p), "r"(block));
  return reinterpret_cast<const T*>(address);
}
#endif
// Loads 16 bytes of memory that this launch reads as a whole, once, and that nothing writes meanwhile: the L2 cache
// fetches the neighbors too, and the L1 cache keeps nothing.
GPU_FUNCTION inline Vec16 load_streamed(const void* p) {
#if __CUDA_ARCH__ >= 800
  Vec16 vec;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vec.word[0]), "=r"(vec.word[1]), "=r"(vec.word[2]), "=r"(vec.word[3])
               : "l"(p));
  return vec;
#else
  return *static_cast<const Vec16*>(p);
#endif
}
GPU_FUNCTION inline void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// A value that may be about to change, for a guess: no cache keeps it.
GPU_FUNCTION inline i32 peek(const i32* p) { return *const_cast<const volatile i32*>(p); }
GPU_FUNCTION inline void release_block() {
  fence();
  barrier();
}
GPU_FUNCTION inline void acquire_for_block() {}
GPU_FUNCTION inline void acquire() { fence(); }
GPU_FUNCTION inline u32 load_shared_result(const u32* p) { return *const_cast<const volatile u32*>(p); }
#if __CUDA_ARCH__ >= 800
#define GABBRO_ROUNDS_TO_BFLOAT
GPU_FUNCTION inline u16 round_to_bfloat(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#endif
GPU_FUNCTION inline float load_shared_result(const float* p) { return __ldcg(p); }
GPU_FUNCTION inline FloatPair load_shared_result(const FloatPair* p) {
  const float2 pair = __ldcg(reinterpret_cast<const float2*>(p));
  return {pair.x, pair.y};
}

template <class T>
GPU_FUNCTION inline T shuffle_xor(T value, u32 mask) {
  return __shfl_xor_sync(0xffffffff, value, static_cast<int>(mask));
}
template <class T>
GPU_FUNCTION inline T shuffle(T value, u32 lane) {
  return __shfl_sync(0xffffffff, value, static_cast<int>(lane));
}
// Whether it is so for a lane of the wave.
GPU_FUNCTION inline bool wave_any(bool is) { return __any_sync(0xffffffff, is); }

// sum + the dot product of four signed bytes each.
GPU_FUNCTION inline i32 dot4(i32 a, i32 b, i32 sum) { return __dp4a(a, b, sum); }

// Four of the eight bytes of `low` and `high`; each byte of `indices` (0 to 7) names one.
GPU_FUNCTION inline u32 select_bytes(u32 low, u32 high, u32 indices) {
  const u32 pairs = indices | indices >> 4;  // nibbles 0 and 1, 4 and 5
  return __byte_perm(low, high, __byte_perm(pairs, 0, 0x4420));
}

GPU_FUNCTION inline float bits_to_float(u32 bits) { return __uint_as_float(bits); }
GPU_FUNCTION inline u32 float_to_bits(float x) { return __float_as_uint(x); }
// Written as instructions: nvrtc may be installed without CUDA's headers.
GPU_FUNCTION inline float to_float(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
GPU_FUNCTION inline Half to_half(float x) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
GPU_FUNCTION inline i32 round_to_int(float x) { return __float2int_rn(x); }  // ties to even

// The rounded product: it is not contracted with an addition that follows.
GPU_FUNCTION inline float multiply(float a, float b) { return __fmul_rn(a, b); }
GPU_FUNCTION inline float log(float x) { return ::logf(x); }
GPU_FUNCTION inline float quick_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_FUNCTION inline float quick_max(float a, float b) {
  float larger;
  asm("max.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
GPU_FUNCTION inline float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace gabbro::gpu::GABBRO_GPU
