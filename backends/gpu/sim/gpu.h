// The vocabulary of kernels/gpu/gpu.h for the host: the simulator runs each thread of a block on a separate stack.
// Kernels are compiled once with GABBRO_SIM_WAVE 32 and once with 64.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "backends/gpu/sim/block.h"
#include "src/base/half.h"

#if GABBRO_SIM_WAVE == 32
#define GABBRO_GPU sim32
#else
#define GABBRO_GPU sim64
#endif

#define GPU_FUNCTION
#define GPU_INLINE
// One block at a time runs on a thread of the host, so that its shared memory can be the thread's.
#define GPU_SHARED(type, name, count)               \
  alignas(16) static thread_local type name[count]; \
  if (sim::poisons_shared) sim::poison_shared(name, sizeof name)
#define GPU_KERNEL(name, threads, Args, ...)                                   \
  namespace gabbro::gpu::GABBRO_GPU {                                          \
  static const sim::Registration name##_registration{                          \
      #name, GABBRO_SIM_WAVE, threads, sizeof(Args),                           \
      [](const void* args) { __VA_ARGS__(*static_cast<const Args*>(args)); }}; \
  }
#define GPU_MEMORY_KERNEL(name, threads, Memory, Args, ...) GPU_KERNEL(name, threads, Args, __VA_ARGS__)
#define GPU_EARLY_MEMORY_KERNEL GPU_MEMORY_KERNEL
#define GPU_EARLY_BLOCKS_KERNEL(name, threads, blocks, ...) GPU_MEMORY_KERNEL(name, threads, __VA_ARGS__)
#define GPU_EARLY_KERNEL GPU_KERNEL  // launches run in sequence
#define GPU_LATE_KERNEL GPU_KERNEL

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kWave = GABBRO_SIM_WAVE;
inline constexpr bool kFewRegisters = false;

template <class Memory>
Memory& block_memory() {
  GPU_SHARED(Memory, memory, 1);
  return memory[0];
}

inline void wait_for_previous() {}
inline void prefetch(const void*) {}
inline Vec16 load_streamed(const void* p) { return *static_cast<const Vec16*>(p); }
inline i32 peek(const i32* p) { return *p; }
inline u32 load_shared_result(const u32* p) { return *p; }
inline float load_shared_result(const float* p) { return *p; }
inline FloatPair load_shared_result(const FloatPair* p) { return *p; }
inline void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void fence_host() { fence(); }
inline u32 atomic_add(u32* counter, u32 summand) { return std::atomic_ref(*counter).fetch_add(summand); }
inline u32 atomic_increment(u32* counter) { return atomic_add(counter, 1); }

inline u32 thread_index() { return sim::current_thread(); }
inline u32 block_size() { return sim::current_block().threads; }
inline Dim block_index() { return sim::current_block().index; }
inline Dim grid_size() { return sim::current_block().grid; }
inline void barrier(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { sim::barrier({file, line}); }

inline void release_block(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  fence();
  barrier(file, line);
}
inline void acquire_for_block() { fence(); }
inline void acquire() {}

// Exchanges values within the wave; all its lanes must call this together.
template <class T>
T shuffle(T value, u32 lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 8);
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const u64 other = sim::exchange(bits, {file, line})[lane % kWave];
  std::memcpy(&value, &other, sizeof value);
  return value;
}
template <class T>
T shuffle_xor(T value, u32 mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return shuffle(value, (thread_index() % kWave) ^ mask, file, line);
}
// Whether it is so for a lane of the wave.
inline bool wave_any(bool is, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const u64* lanes = sim::exchange(is, {file, line});
  return std::any_of(lanes, lanes + kWave, [](u64 one) { return one != 0; });
}

// sum + the dot product of four signed bytes each.
inline i32 dot4(i32 a, i32 b, i32 sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<i8>(a >> i) * static_cast<i8>(b >> i);
  return sum;
}

// Four of the eight bytes of `low` and `high`; each byte of `indices` (0 to 7) names one.
inline u32 select_bytes(u32 low, u32 high, u32 indices) {
  const u64 bytes = low | static_cast<u64>(high) << 32;
  u32 selected = 0;
  for (int i = 0; i < 32; i += 8) selected |= static_cast<u32>(bytes >> (8 * (indices >> i & 7)) & 0xff) << i;
  return selected;
}

inline float bits_to_float(u32 bits) { return std::bit_cast<float>(bits); }
inline u32 float_to_bits(float x) { return std::bit_cast<u32>(x); }
inline float to_float(Half x) { return half_bits_to_float(x.bits); }
inline Half to_half(float x) { return {float_to_half_bits(x)}; }
inline i32 round_to_int(float x) { return static_cast<i32>(std::nearbyint(x)); }  // ties to even

inline float exp(float x) { return std::exp(x); }
inline float quick_reciprocal(float x) { return 1 / x; }
inline float quick_max(float a, float b) { return std::fmax(a, b); }
inline float quick_exp2(float x) { return std::exp2(x); }
inline float log(float x) { return std::log(x); }
inline float sqrt(float x) { return std::sqrt(x); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }
inline float tanh(float x) { return std::tanh(x); }
inline float pow(float x, float y) { return std::pow(x, y); }
inline float floor(float x) { return std::floor(x); }
inline float expm1(float x) { return std::expm1(x); }
inline float log1p(float x) { return std::log1p(x); }
inline float log2(float x) { return std::log2(x); }
inline float log10(float x) { return std::log10(x); }
inline float tan(float x) { return std::tan(x); }
inline float sinh(float x) { return std::sinh(x); }
inline float cosh(float x) { return std::cosh(x); }
inline float asin(float x) { return std::asin(x); }
inline float acos(float x) { return std::acos(x); }
inline float atan(float x) { return std::atan(x); }
inline float asinh(float x) { return std::asinh(x); }
inline float acosh(float x) { return std::acosh(x); }
inline float atanh(float x) { return std::atanh(x); }
inline float ceil(float x) { return std::ceil(x); }
inline float trunc(float x) { return std::trunc(x); }
inline float round(float x) { return std::nearbyint(x); }  // ties to even
inline float atan2(float a, float b) { return std::atan2(a, b); }
inline float hypot(float a, float b) { return std::hypot(a, b); }
inline float fmod(float a, float b) { return std::fmod(a, b); }
inline float abs(float x) { return std::fabs(x); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float multiply(float a, float b) { return a * b; }

}  // namespace gabbro::gpu::GABBRO_GPU
