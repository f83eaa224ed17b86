// TileCopy (kernels/gpu/matrix.h) where memory cannot be copied into a block's without going through registers.
#pragma once

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr bool kCopiesPassRegisters = false;

template <int count>
class RegisterCopy {
 public:
  GPU_FUNCTION void begin(int i, void* to, const void* from, bool inside) {
    to_[i] = static_cast<Quad*>(to);
    quads_[i] = inside ? load_quad(from) : Quad{};
  }
  GPU_FUNCTION void sent() {}
  template <int later = 0>
  GPU_FUNCTION void landed() {
#pragma unroll
    for (int i = 0; i < count; ++i) *to_[i] = quads_[i];
  }

 private:
  Quad* to_[count];
  Quad quads_[count];
};

}  // namespace gabbro::gpu::GABBRO_GPU
