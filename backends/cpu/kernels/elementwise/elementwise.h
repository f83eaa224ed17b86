// The kernel of every elementwise op: a walk over the inputs and a function for one row of them.
#pragma once

#include <memory>
#include <string>

#include "backends/common/request.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/elementwise/strided.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kMaxRowInputs = 3;

// One row: inputs with their strides in elements (0: the same element for all), and `count` consecutive outputs.
struct Row {
  const void* in[kMaxRowInputs];
  int64_t stride[kMaxRowInputs];
  void* out;
  int64_t count;
};
using RowFunction = void (*)(const Row& row);

// Rows of f16 or bf16 by the function of f32, a piece at a time; the results are of the same dtype, or bool.
template <class T>
void half_row(const Row& row, RowFunction function, int inputs, bool boolean) {
  constexpr int64_t kPiece = 256;
  float in[kMaxRowInputs][kPiece], out[kPiece];
  for (int64_t begin = 0; begin < row.count; begin += kPiece) {
    Row piece{.out = out, .count = std::min(kPiece, row.count - begin)};
    if (boolean) piece.out = static_cast<uint8_t*>(row.out) + begin;
    for (int i = 0; i < inputs; ++i) {
      const T* from = static_cast<const T*>(row.in[i]) + begin * row.stride[i];
      const int64_t count = row.stride[i] == 0 ? 1 : piece.count;
      widen(from, row.stride[i], in[i], count);
      piece.in[i] = in[i];
      piece.stride[i] = row.stride[i] == 0 ? 0 : 1;
    }
    function(piece);
    if (boolean) continue;
    narrow(out, static_cast<T*>(row.out) + begin, piece.count);
  }
}

class Elementwise : public Kernel {
 public:
  Elementwise(const abi::KernelRequest& request, RowFunction function)
      : walk_({request.inputs, static_cast<size_t>(request.input_count)}), function_(function) {
    for (int i = 0; i < request.input_count; ++i) {
      input_bytes_[i] = dtype_bytes(request.inputs[i].dtype, 1);
      bytes += static_cast<double>(walk_.total()) * static_cast<double>(input_bytes_[i]);
    }
    inputs_ = request.input_count;
    output_bytes_ = dtype_bytes(request.outputs[0].dtype, 1);
    dtype_ = request.inputs[0].dtype;
    boolean_ = request.outputs[0].dtype == DType::boolean;
    bytes += static_cast<double>(walk_.total()) * static_cast<double>(output_bytes_);
    flops = static_cast<double>(walk_.total());
    implementation = std::string(request.op) + " " + std::string(dtype_name(request.inputs[0].dtype));
  }

  // One row with any strides.
  void compute(const Row& row) const {
    if (!through_f32_) {
      function_(row);
    } else if (dtype_ == DType::f16) {
      half_row<Half>(row, function_, inputs_, boolean_);
    } else {
      half_row<BFloat>(row, function_, inputs_, boolean_);
    }
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    worker.parallel_for(walk_.total(), kElementGrain, [&](int64_t begin, int64_t end) {
      walk_.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
        Row row{};
        for (int i = 0; i < inputs_; ++i) {
          row.in[i] = static_cast<const char*>(launch.inputs[i].data) + offsets[i] * input_bytes_[i];
          row.stride[i] = walk_.row_stride(i);
        }
        row.out = static_cast<char*>(launch.outputs[0].data) + position * output_bytes_;
        row.count = count;
        compute(row);
      });
    });
  }

  // The inputs are f16 or bf16, and the function is that of f32.
  std::unique_ptr<Elementwise> through_f32(bool is) && {
    through_f32_ = is;
    return std::make_unique<Elementwise>(std::move(*this));
  }

 private:
  StridedWalk walk_;
  RowFunction function_;
  int inputs_ = 0;
  int64_t input_bytes_[kMaxRowInputs] = {};
  int64_t output_bytes_ = 0;
  DType dtype_ = DType::f32;
  bool boolean_ = false;
  bool through_f32_ = false;
};

// f16 and bf16 by their own function or, if that is null, by the one of f32.
inline std::unique_ptr<Elementwise> by_rows(const abi::KernelRequest& request, RowFunction row, RowFunction f16,
                                            RowFunction bf16) {
  const DType dtype = request.inputs[0].dtype;
  const RowFunction direct = dtype == DType::f16 ? f16 : dtype == DType::bf16 ? bf16 : nullptr;
  return Elementwise(request, direct != nullptr ? direct : row).through_f32(is_half(dtype) && direct == nullptr);
}

// out[i] = f(a[i]); one loop for each stride that occurs, so that the compiler can use vectors.
template <class In, class Out, class F>
void map_row(const Row& row, F f) {
  const In* a = static_cast<const In*>(row.in[0]);
  Out* out = static_cast<Out*>(row.out);
  const int64_t stride = row.stride[0];
  if (stride == 1) {
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(a[i]);
  } else {
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(a[i * stride]);
  }
}

template <class In, class Out, class F>
void map_row2(const Row& row, F f) {
  const In* a = static_cast<const In*>(row.in[0]);
  const In* b = static_cast<const In*>(row.in[1]);
  Out* out = static_cast<Out*>(row.out);
  const int64_t sa = row.stride[0];
  const int64_t sb = row.stride[1];
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(a[i], b[i]);
  } else if (sa == 1 && sb == 0) {
    const In other = *b;
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(a[i], other);
  } else if (sa == 0 && sb == 1) {
    const In other = *a;
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(other, b[i]);
  } else {
    for (int64_t i = 0; i < row.count; ++i) out[i] = f(a[i * sa], b[i * sb]);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
