// The vocabulary in which kernels are written: lane, wave, block, barrier, shuffle, dot4. One header per compiler
// defines it, and this one adds what follows from that. A wave has kWave lanes: 32 or 64; nothing else may be assumed.
//
// A kernel is a function of one struct by value, instantiated under a name by
//   GPU_KERNEL(name, threads, Args, function)    `threads` is the block's size
// or by GPU_EARLY_KERNEL where the function begins before the launch ahead of it has ended: up to wait_for_previous(),
// which every block that writes or reads more must call, it may only load or prefetch() weights and what the host calls
// settled (Launcher::settled), and peek() at what may change. The launch after one of GPU_LATE_KERNEL begins when that
// one has got its inputs, so that its guesses at them are right.
//
// Memory of a block: GPU_SHARED(type, name, count), at the top of a function; it begins at a multiple of 16 bytes. Up
// to 48 KB in all; a kernel that wants more (up to 64 KB on AMD, 99 KB on NVIDIA) is instantiated by
//   GPU_MEMORY_KERNEL(name, threads, Memory, Args, function)
// (or GPU_EARLY_MEMORY_KERNEL) and finds one object of the type Memory by block_memory<Memory>(). With
//   GPU_EARLY_BLOCKS_KERNEL(name, threads, blocks, Memory, Args, function)
// the compiler leaves registers for that number of blocks on an NVIDIA multiprocessor.
//
// Blocks of a launch exchange stored data by counting each other:
//   release_block()        by all threads, which includes a barrier; then thread 0 counts the block by an atomic
//   acquire_for_block()    by thread 0, once it has seen the others' counts, before the next barrier
//   acquire()              by all threads after that barrier; then load_shared_result() reads what the others stored
// On each compiler one of the last two does nothing.
//
// If GABBRO_CLUSTERS is defined, the blocks along z of a launch may be a cluster, which run at the same time and read
// each other's memory (CUDA, from compute capability 9.0 on):
//   cluster_blocks()            their number, 1 without clusters
//   cluster_barrier()           of all their threads, or in two parts: cluster_arrive(), cluster_wait(). Data
//                               written to their own block's memory is there then, and nothing else
//   leave_cluster()             at the end: until the others have read this block's memory
//   of_block(p, z)              where that block has what this one has at p
#pragma once

#include "kernels/gpu/types.h"

#if defined(__HIPCC__) || defined(__HIPCC_RTC__)
#define GABBRO_GPU device
#include "kernels/gpu/hip.h"
#elif defined(__CUDACC__)
#define GABBRO_GPU device
#include "kernels/gpu/cuda.h"
#elif !defined(GABBRO_GPU)  // as by the simulator's header (backends/gpu/sim/vocabulary.h): sim32 or sim64
#error "compile this with nvcc or hipcc, or include the vocabulary of another compiler first"
#endif

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline u32 lane() { return thread_index() % kWave; }
GPU_FUNCTION inline u32 wave_index() { return thread_index() / kWave; }
// Index of the thread in a one-dimensional grid.
GPU_FUNCTION inline i64 global_index() { return static_cast<i64>(block_index().x) * block_size() + thread_index(); }

GPU_FUNCTION inline float to_float(float x) { return x; }
GPU_FUNCTION inline float to_float(i32 x) { return static_cast<float>(x); }
GPU_FUNCTION inline float to_float(BFloat x) { return bits_to_float(static_cast<u32>(x.bits) << 16); }
// To the nearest, ties to even; a NaN stays one.
GPU_FUNCTION inline BFloat to_bfloat(float x) {
#ifdef GABBRO_ROUNDS_TO_BFLOAT
  return {round_to_bfloat(x)};  // of the compiler's header: one instruction
#endif
  const u32 bits = float_to_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<u16>(bits >> 16 | 0x40)};
  return {static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <class T>
inline constexpr bool kIsBFloat = false;
template <>
inline constexpr bool kIsBFloat<BFloat> = true;

template <class T>
GPU_FUNCTION inline T from_float(float x);
template <>
GPU_FUNCTION inline float from_float<float>(float x) {
  return x;
}
template <>
GPU_FUNCTION inline Half from_float<Half>(float x) {
  return to_half(x);
}
template <>
GPU_FUNCTION inline BFloat from_float<BFloat>(float x) {
  return to_bfloat(x);
}

GPU_FUNCTION inline Vec16 load_vec16(const void* p) { return *static_cast<const Vec16*>(p); }

template <class T>
GPU_FUNCTION inline T min_of(T a, T b) {
  return b < a ? b : a;
}
// quick_max(a, b) of f32 is one instruction; a number if either is one.
template <class T>
GPU_FUNCTION inline T max_of(T a, T b) {
  return a < b ? b : a;
}

// The sum (or the largest, or the smallest) of the lanes' values, in every lane; pairs are added in the same order for
// any wave size.
template <class T>
GPU_FUNCTION inline T wave_sum(T value) {
  for (u32 step = 1; step < kWave; step *= 2) value += shuffle_xor(value, step);
  return value;
}
template <class T>
GPU_FUNCTION inline T wave_max(T value) {
  for (u32 step = 1; step < kWave; step *= 2) value = max_of(value, shuffle_xor(value, step));
  return value;
}
template <class T>
GPU_FUNCTION inline T wave_min(T value) {
  for (u32 step = 1; step < kWave; step *= 2) value = min_of(value, shuffle_xor(value, step));
  return value;
}

inline constexpr u32 kMaxWaves = 1024 / kWave;

// Sum over all threads of the block, in every thread. The barriers allow calls in a row.
GPU_FUNCTION inline float block_sum(float value) {
  GPU_SHARED(float, parts, kMaxWaves);
  value = wave_sum(value);
  barrier();
  if (lane() == 0) parts[wave_index()] = value;
  barrier();
  float sum = 0;
  for (u32 w = 0; w < block_size() / kWave; ++w) sum += parts[w];
  return sum;
}
GPU_FUNCTION inline float block_max(float value) {
  GPU_SHARED(float, parts, kMaxWaves);
  value = wave_max(value);
  barrier();
  if (lane() == 0) parts[wave_index()] = value;
  barrier();
  float largest = parts[0];
  for (u32 w = 1; w < block_size() / kWave; ++w) largest = max_of(largest, parts[w]);
  return largest;
}

}  // namespace gabbro::gpu::GABBRO_GPU
