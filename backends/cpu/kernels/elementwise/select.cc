// Moving elements without looking at them: `copy` (strided to contiguous) and `where` (bool, a, b).
#include <cstring>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <class T>
void copy_row(const Row& row) {
  if (row.stride[0] == 1) {
    std::memcpy(row.out, row.in[0], static_cast<size_t>(row.count) * sizeof(T));
  } else if (row.stride[0] == 0) {
    std::fill_n(static_cast<T*>(row.out), row.count, *static_cast<const T*>(row.in[0]));
  } else {
    map_row<T, T>(row, [](T x) { return x; });
  }
}

// Without a branch: an unpredictable condition would cost ten times as much as the rest.
template <class T>
T chosen(uint8_t condition, T a, T b) {
  const T mask = static_cast<T>(-static_cast<T>(condition != 0));
  return static_cast<T>((a & mask) | (b & static_cast<T>(~mask)));
}

// Strides that are known here have the loop in vectors.
template <int kA, int kB, class T>
void where_elements(const uint8_t* condition, const T* a, const T* b, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = chosen(condition[i], a[kA * i], b[kB * i]);
}

template <class T>
void where_row(const Row& row) {
  const uint8_t* condition = static_cast<const uint8_t*>(row.in[0]);
  const T* a = static_cast<const T*>(row.in[1]);
  const T* b = static_cast<const T*>(row.in[2]);
  T* out = static_cast<T*>(row.out);
  const auto has_strides = [&](int64_t of_a, int64_t of_b) {
    return row.stride[0] == 1 && row.stride[1] == of_a && row.stride[2] == of_b;
  };
  if (has_strides(1, 1)) return where_elements<1, 1>(condition, a, b, row.count, out);
  if (has_strides(1, 0)) return where_elements<1, 0>(condition, a, b, row.count, out);  // else a number
  if (has_strides(0, 1)) return where_elements<0, 1>(condition, a, b, row.count, out);  // e.g. the gradient of relu
  for (int64_t i = 0; i < row.count; ++i)
    out[i] = chosen(condition[i * row.stride[0]], a[i * row.stride[1]], b[i * row.stride[2]]);
}

// Kernels by the size of an element: 1, 2, 4 or 8 bytes.
struct BySize {
  RowFunction rows[4];
  RowFunction of(DType dtype) const {
    switch (dtype_bytes(dtype, 1)) {
      case 1:
        return rows[0];
      case 2:
        return rows[1];
      case 4:
        return rows[2];
      default:
        return rows[3];
    }
  }
};
constexpr BySize kCopy{{copy_row<uint8_t>, copy_row<uint16_t>, copy_row<uint32_t>, copy_row<uint64_t>}};
constexpr BySize kWhere{{where_row<uint8_t>, where_row<uint16_t>, where_row<uint32_t>, where_row<uint64_t>}};

}  // namespace

KernelPointer make_copy(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise(request, 1) || request.inputs[0].dtype != request.outputs[0].dtype) return nullptr;
  return std::make_unique<Elementwise>(request, kCopy.of(request.inputs[0].dtype));
}

KernelPointer make_where(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 3) || request.inputs[0].dtype != DType::boolean) return nullptr;
  const DType dtype = request.outputs[0].dtype;
  if (request.inputs[1].dtype != dtype || request.inputs[2].dtype != dtype) return nullptr;
  return std::make_unique<Elementwise>(request, kWhere.of(dtype));
}

}  // namespace gabbro::cpu::GABBRO_ISA
