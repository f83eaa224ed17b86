// `cumsum` over the last axis, f32, f64, i64 (which wraps around) and i32 to i64; of f16 and bf16 the sum is f32. An
// addition waits for the one before, so that a worker has several rows under way at once, a piece of each at a time.
#include <algorithm>
#include <array>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kRows = 4;    // under way at once
constexpr int64_t kPiece = 16;  // elements of each at a time, so few that the next row's begin before they end

// Y is the element of the result, unsigned for integers.
template <class T, class Y = T>
class Scan : public Kernel {
 public:
  explicit Scan(const abi::TensorView& x) : columns_(x.shape[x.rank - 1]), rows_(elements(x) / columns_) {
    implementation = "cumsum";
    bytes = static_cast<double>(sizeof(T) + sizeof(Y)) * static_cast<double>(elements(x));
    flops = static_cast<double>(elements(x));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* y = static_cast<Y*>(launch.outputs[0].data);
    worker.parallel_for(rows_, row_grain(columns_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row += kRows) {
        add_up(x + row * columns_, y + row * columns_, std::min(kRows, end - row));
      }
    });
  }

 private:
  using Sum = Wide<Y>;

  void add_up(const T* x, Y* y, int64_t rows) const {
    std::array<Sum, kRows> sums{};
    for (int64_t begin = 0; begin < columns_; begin += kPiece) {
      const int64_t count = std::min(kPiece, columns_ - begin);
      for (int64_t r = 0; r < rows; ++r) {
        sums[static_cast<size_t>(r)] =
            add_piece(x + r * columns_ + begin, y + r * columns_ + begin, count, sums[static_cast<size_t>(r)]);
      }
    }
  }

  static Sum add_piece(const T* x, Y* y, int64_t count, Sum sum) {
    if constexpr (kHalf<T>) {
      alignas(64) float wide[kPiece];
      widen(x, 1, wide, count);
      for (int64_t i = 0; i < count; ++i) wide[i] = sum += wide[i];
      narrow(wide, y, count);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = sum += static_cast<Y>(x[i]);
    }
    return sum;
  }

  int64_t columns_;
  int64_t rows_;
};

}  // namespace

KernelPointer make_cumsum(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_scan(request)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  switch (x.dtype) {
    case DType::f32:
      return std::make_unique<Scan<float>>(x);
    case DType::f16:
      return std::make_unique<Scan<Half>>(x);
    case DType::bf16:
      return std::make_unique<Scan<BFloat>>(x);
    case DType::f64:
      return std::make_unique<Scan<double>>(x);
    case DType::i32:
      return std::make_unique<Scan<int32_t, uint64_t>>(x);
    case DType::i64:
      return std::make_unique<Scan<uint64_t>>(x);
    default:
      return nullptr;
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
