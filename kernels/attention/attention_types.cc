// Attention over caches of f32, bf16 and u4, of any number of tokens: each token reads its keys by itself, as in
// decode.
#include "kernels/attention/attention_decode.h"

#define GABBRO_ATTENTION(suffix, type) \
  GPU_KERNEL(attention_##suffix##_256, 512, gabbro::gpu::AttentionArgs, attention<gabbro::gpu::type, 256>)

GABBRO_ATTENTION(f32, KvType::kF32)
GABBRO_ATTENTION(bf16, KvType::kBf16)
GABBRO_ATTENTION(u4, KvType::kU4)
