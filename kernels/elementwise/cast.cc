// Conversion between plain dtypes, by the rules of cast.h.
#include "kernels/elementwise/cast.h"

#include "kernels/elementwise/strided_access.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class From, class To>
GPU_FUNCTION inline void cast(const ElementwiseArgs& a) {
  const auto* x = static_cast<const From*>(a.in[0]);
  auto* y = static_cast<To*>(a.out);
  for_elements<To, 1>(
      a.axes, [&](const i64* at) { return converted<To>(x[at[0]]); }, [&](i64 i, To value) { y[i] = value; });
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_CAST(from, From, to, To) \
  GPU_KERNEL(cast_##from##_##to, 256, gabbro::gpu::ElementwiseArgs, cast<From, To>)
#define GABBRO_CASTS(from, From)                     \
  GABBRO_CAST(from, From, f32, float)                \
  GABBRO_CAST(from, From, f64, double)               \
  GABBRO_CAST(from, From, f16, gabbro::gpu::Half)    \
  GABBRO_CAST(from, From, bf16, gabbro::gpu::BFloat) \
  GABBRO_CAST(from, From, i8, gabbro::gpu::i8)       \
  GABBRO_CAST(from, From, u8, gabbro::gpu::u8)       \
  GABBRO_CAST(from, From, i16, gabbro::gpu::i16)     \
  GABBRO_CAST(from, From, i32, gabbro::gpu::i32)     \
  GABBRO_CAST(from, From, i64, gabbro::gpu::i64)     \
  GABBRO_CAST(from, From, bool, gabbro::gpu::GABBRO_GPU::Boolean)
GABBRO_CASTS(f32, float)
GABBRO_CASTS(f64, double)
GABBRO_CASTS(f16, gabbro::gpu::Half)
GABBRO_CASTS(bf16, gabbro::gpu::BFloat)
GABBRO_CASTS(i8, gabbro::gpu::i8)
GABBRO_CASTS(u8, gabbro::gpu::u8)
GABBRO_CASTS(i16, gabbro::gpu::i16)
GABBRO_CASTS(i32, gabbro::gpu::i32)
GABBRO_CASTS(i64, gabbro::gpu::i64)
GABBRO_CASTS(bool, gabbro::gpu::GABBRO_GPU::Boolean)
