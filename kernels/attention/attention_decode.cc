// Attention of few tokens over caches of f16 and i8.
#include "kernels/attention/attention_decode.h"

#define GABBRO_ATTENTION(suffix, type, dim)                                                                  \
  GPU_KERNEL(attention_##suffix##_##dim, 512, gabbro::gpu::AttentionArgs, attention<gabbro::gpu::type, dim>) \
  GPU_EARLY_KERNEL(attention_step_##suffix##_##dim, 512, gabbro::gpu::AttentionStepArgs,                     \
                   attention_step<gabbro::gpu::type, dim>)

GABBRO_ATTENTION(f16, KvType::kF16, 128)
GABBRO_ATTENTION(f16, KvType::kF16, 256)
GABBRO_ATTENTION(i8, KvType::kI8, 128)
GABBRO_ATTENTION(i8, KvType::kI8, 256)
GPU_KERNEL(attention_merge, 128, gabbro::gpu::AttentionMergeArgs, attention_merge<float>)
