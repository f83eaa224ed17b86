// TileCopy and TransposedCopy (kernels/gpu/matrix.h) for targets whose copies into a block's memory go through
// registers.
#pragma once

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr bool kCopiesPassRegisters = false;

// With a pitch, element j of vector i goes to to[j * pitch + i], where `to` is the first vector's: 1, 2, 4 or 8
// vectors, which one instruction stores.
template <int count, u32 pitch = 0>
class RegisterCopy {
 public:
  GPU_FUNCTION void begin(int i, void* to, const void* from, bool inside) {
    begin(i, to, inside ? load_vec16(from) : Vec16{});
  }
  GPU_FUNCTION void begin(int i, void* to, const Vec16& vec) {
    to_[i] = static_cast<Vec16*>(to);
    vectors_[i] = vec;
  }
  GPU_FUNCTION void sent() {}
  template <int later = 0>
  GPU_FUNCTION void landed() {
    if constexpr (pitch > 0) {
      store_transposed();
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) *to_[i] = vectors_[i];
    }
  }

 private:
  struct alignas(2 * count) Together {
    u16 half[count];
  };
  GPU_FUNCTION void store_transposed() {
#pragma unroll
    for (u32 j = 0; j < 8; ++j) {
      Together column;
#pragma unroll
      for (int i = 0; i < count; ++i) column.half[i] = static_cast<u16>(vectors_[i].word[j / 2] >> (j % 2 * 16));
      *reinterpret_cast<Together*>(reinterpret_cast<u16*>(to_[0]) + j * pitch) = column;
    }
  }

  Vec16* to_[count];
  Vec16 vectors_[count] = {};
};

}  // namespace gabbro::gpu::GABBRO_GPU
