// The part of the vocabulary that nvcc and hipcc spell alike.
#pragma once

#include "kernels/gpu/types.h"

#define GPU_FUNCTION __device__
// For members of objects that live in registers, which a call would send to memory, and for parts of a kernel, which
// are compiled as if they were written in it.
#define GPU_INLINE __device__ __attribute__((always_inline))
#define GPU_SHARED(type, name, count) __shared__ alignas(16) type name[count]

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline u32 thread_index() { return threadIdx.x; }
GPU_FUNCTION inline u32 block_size() { return blockDim.x; }
GPU_FUNCTION inline Dim block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
GPU_FUNCTION inline Dim grid_size() { return {gridDim.x, gridDim.y, gridDim.z}; }
GPU_FUNCTION inline void barrier() { __syncthreads(); }
// Orders this thread's earlier writes before its later ones, as other blocks see them, and the same for reads.
GPU_FUNCTION inline void fence() { __threadfence(); }
GPU_FUNCTION inline void fence_host() { __threadfence_system(); }  // the same, as the host sees them
// Both give the value before.
GPU_FUNCTION inline u32 atomic_add(u32* counter, u32 summand) { return atomicAdd(counter, summand); }
GPU_FUNCTION inline u32 atomic_increment(u32* counter) { return atomic_add(counter, 1); }

GPU_FUNCTION inline float exp(float x) { return ::expf(x); }
GPU_FUNCTION inline float sqrt(float x) { return ::sqrtf(x); }
GPU_FUNCTION inline float sin(float x) { return ::sinf(x); }
GPU_FUNCTION inline float cos(float x) { return ::cosf(x); }
GPU_FUNCTION inline float tanh(float x) { return ::tanhf(x); }
GPU_FUNCTION inline float pow(float x, float y) { return ::powf(x, y); }
GPU_FUNCTION inline float floor(float x) { return ::floorf(x); }
GPU_FUNCTION inline float expm1(float x) { return ::expm1f(x); }
GPU_FUNCTION inline float log1p(float x) { return ::log1pf(x); }
GPU_FUNCTION inline float log2(float x) { return ::log2f(x); }
GPU_FUNCTION inline float log10(float x) { return ::log10f(x); }
GPU_FUNCTION inline float tan(float x) { return ::tanf(x); }
GPU_FUNCTION inline float sinh(float x) { return ::sinhf(x); }
GPU_FUNCTION inline float cosh(float x) { return ::coshf(x); }
GPU_FUNCTION inline float asin(float x) { return ::asinf(x); }
GPU_FUNCTION inline float acos(float x) { return ::acosf(x); }
GPU_FUNCTION inline float atan(float x) { return ::atanf(x); }
GPU_FUNCTION inline float asinh(float x) { return ::asinhf(x); }
GPU_FUNCTION inline float acosh(float x) { return ::acoshf(x); }
GPU_FUNCTION inline float atanh(float x) { return ::atanhf(x); }
GPU_FUNCTION inline float ceil(float x) { return ::ceilf(x); }
GPU_FUNCTION inline float trunc(float x) { return ::truncf(x); }
GPU_FUNCTION inline float round(float x) { return ::rintf(x); }  // ties to even
GPU_FUNCTION inline float atan2(float a, float b) { return ::atan2f(a, b); }
GPU_FUNCTION inline float hypot(float a, float b) { return ::hypotf(a, b); }
GPU_FUNCTION inline float fmod(float a, float b) { return ::fmodf(a, b); }
GPU_FUNCTION inline float abs(float x) { return ::fabsf(x); }
GPU_FUNCTION inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

}  // namespace gabbro::gpu::GABBRO_GPU
