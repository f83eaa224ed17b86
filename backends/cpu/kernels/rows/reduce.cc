// Reductions over the last axis: x [..., C] to [..., 1], f16 and bf16 in f32, sums of i32 in i64. Integers wrap around.
// A NaN makes sum, prod, max, min NaN and is what argmax and argmin find first; of equal elements they find the first.
// Over nothing: sum 0, prod 1, max and min the lowest and the highest number, argmax and argmin 0.
#include <string_view>

#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/reduce_functions.h"
#include "backends/cpu/kernels/rows/reduce_integers.h"
#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

struct Functions {
  void (*row)(const void* row, int64_t stride, int64_t count, void* out);
  void (*side)(const void* rows, int64_t stride, int64_t count, void* out, int64_t width);
  void (*join)(const Part& part, void* out);
};

// Few pieces of work with many elements each are cut into parts, whose number depends on the shape alone.
constexpr int64_t kFewPieces = 16, kPartElements = 32768, kMostParts = 64;

class Reduce : public Kernel {
 public:
  Reduce(const abi::KernelRequest& request, const Functions& functions) : functions_(functions) {
    abi::TensorView x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    stride_ = x.strides[x.rank - 1];
    x.rank -= 1;
    walk_ = StridedWalk({&x, 1});
    rows_ = walk_.total();
    element_ = static_cast<int64_t>(dtype_bytes(x.dtype, 1));
    result_ = static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1));
    side_ = stride_ != 1 && walk_.row_stride(0) == 1 && rows_ > 1;
    const int64_t together = side_ ? std::min(kSide, rows_) : 1;
    if (rows_ <= kFewPieces * together)
      parts_ = std::clamp<int64_t>(columns_ * together / kPartElements, 1, std::min(kMostParts, columns_ + 1));
    scratch_bytes = parts_ > 1 ? static_cast<size_t>(parts_ * rows_ * result_) : 0;
    implementation = std::string(request.op) + " " + std::string(dtype_name(x.dtype));
    bytes = static_cast<double>(rows_) * static_cast<double>(columns_ * element_ + result_);
    flops = static_cast<double>(rows_) * static_cast<double>(columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    if (parts_ == 1) {
      const int64_t grain = side_ ? std::max(kSide, row_grain(columns_)) : row_grain(columns_);
      worker.parallel_for(rows_, grain, [&](int64_t begin, int64_t end) { reduce(x, y, begin, end, 0, columns_); });
      return;
    }
    auto* partial = static_cast<char*>(launch.scratch);
    worker.parallel_for(parts_, 1, [&](int64_t part, int64_t) {
      reduce(x, partial + part * rows_ * result_, 0, rows_, part_begin(part), part_begin(part + 1));
    });
    worker.barrier();
    if (worker.index() == 0 && !worker.stopped()) join(x, partial, y);
  }

 private:
  int64_t part_begin(int64_t part) const { return part * columns_ / parts_; }

  // Rows [begin, end), each from column `first` to `last`, to y.
  void reduce(const char* x, char* y, int64_t begin, int64_t end, int64_t first, int64_t last) const {
    x += first * stride_ * element_;
    walk_.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
      for (int64_t i = 0; i < count; i += side_ ? kSide : 1) {
        const char* row = x + (offsets[0] + i * walk_.row_stride(0)) * element_;
        char* out = y + (position + i) * result_;
        if (side_) {
          functions_.side(row, stride_, last - first, out, std::min(kSide, count - i));
        } else {
          functions_.row(row, stride_, last - first, out);
        }
      }
    });
  }

  void join(const char* x, const char* partial, char* y) const {
    std::copy_n(partial, rows_ * result_, y);
    walk_.rows(0, rows_, [&](const auto& offsets, int64_t position, int64_t count) {
      for (int64_t part = 1; part < parts_; ++part) {
        functions_.join({.x = x + offsets[0] * element_,
                         .rows = count,
                         .row_stride = walk_.row_stride(0),
                         .stride = stride_,
                         .begin = part_begin(part),
                         .results = partial + (part * rows_ + position) * result_},
                        y + position * result_);
      }
    });
  }

  Functions functions_;
  StridedWalk walk_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t stride_ = 0;
  int64_t element_ = 0;  // bytes, as of a result
  int64_t result_ = 0;
  int64_t parts_ = 1;
  bool side_ = false;  // neighboring rows are contiguous, and their elements are not
};

template <class T>
const Functions* functions_of(std::string_view op) {
  struct Named {
    std::string_view op;
    Functions functions;
  };
  static constexpr Named kReductions[] = {
      {"sum", {reduce_row<T, Sum>, reduce_side<T, Sum>, join_results<T, Sum>}},
      {"prod", {reduce_row<T, Product>, reduce_side<T, Product>, join_results<T, Product>}},
      {"max", {reduce_row<T, Max>, reduce_side<T, Max>, join_results<T, Max>}},
      {"min", {reduce_row<T, Min>, reduce_side<T, Min>, join_results<T, Min>}},
      {"argmax", {arg_row<T, true>, arg_side<T, true>, join_places<T, true>}},
      {"argmin", {arg_row<T, false>, arg_side<T, false>, join_places<T, false>}},
  };
  for (const Named& reduction : kReductions) {
    if (reduction.op == op) return &reduction.functions;
  }
  return nullptr;
}

const Functions* functions_of(std::string_view op, DType dtype) {
  static constexpr Functions kSumOfI32{sum_i32_row, sum_i32_side, join_i64_sums};
  if (op == "sum" && dtype == DType::i32) return &kSumOfI32;
  switch (dtype) {
    case DType::f32:
      return functions_of<float>(op);
    case DType::f16:
      return functions_of<Half>(op);
    case DType::bf16:
      return functions_of<BFloat>(op);
    case DType::f64:
      return functions_of<double>(op);
    case DType::i32:
      return functions_of<int32_t>(op);
    case DType::i64:
      return functions_of<int64_t>(op);
    default:
      return nullptr;
  }
}

KernelPointer make(const abi::KernelRequest& request, bool index) {
  if (!is_reduction(request, index)) return nullptr;
  const Functions* functions = functions_of(request.op, request.inputs[0].dtype);
  return functions == nullptr ? nullptr : std::make_unique<Reduce>(request, *functions);
}

}  // namespace

KernelPointer make_reduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, false); }

KernelPointer make_argreduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, true); }

}  // namespace gabbro::cpu::GABBRO_ISA
