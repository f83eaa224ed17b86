#include "backends/gpu/ops/library_matmul.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/common/request.h"

namespace gabbro::gpu {
namespace {

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// Layout of a matrix [lines][depth] for the library, if one of its axes is contiguous.
std::optional<api::Factor> factor_of(int64_t lines, int64_t depth, int64_t line_stride, int64_t depth_stride) {
  const bool along = depth_stride == 1 || depth == 1, across = line_stride == 1 || lines == 1;
  if (along && (lines == 1 || line_stride >= depth)) return api::Factor{.step = lines == 1 ? depth : line_stride};
  if (across && (depth == 1 || depth_stride >= lines)) {
    return api::Factor{.step = depth == 1 ? lines : depth_stride, .transposed = true};
  }
  return std::nullopt;
}

class Product : public Kernel {
 public:
  Product(std::string name, const LibraryMatmul& m, std::shared_ptr<const api::Gemm> product)
      : product_(std::move(product)), bias_(m.bias) {
    implementation = std::move(name);
    const auto batches = static_cast<double>(m.batches);
    const double rows = static_cast<double>(m.a.rows), columns = static_cast<double>(m.b.columns),
                 depth = static_cast<double>(m.a.columns);
    flops = 2 * batches * rows * columns * depth;
    bytes = static_cast<double>(dtype_bytes(m.dtype, 1)) * batches * (rows * depth + depth * columns + rows * columns);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(product_.get(), {.w = input<void>(launch, 1),
                         .x = input<void>(launch, 0),
                         .addend = nullptr,
                         .bias = bias_ ? input<void>(launch, 2) : nullptr,
                         .y = output<void>(launch, 0)});
  }

 private:
  std::shared_ptr<const api::Gemm> product_;
  bool bias_;
};

}  // namespace

bool read_library_matmul(const abi::KernelRequest& request, LibraryMatmul& matmul) {
  matmul.dtype = request.inputs[0].dtype;
  matmul.a = abi::last_axes(request.inputs[0]);
  matmul.b = abi::last_axes(request.inputs[1]);
  const abi::TensorView views[] = {abi::batch_axes(request.inputs[0], request.outputs[0]),
                                   abi::batch_axes(request.inputs[1], request.outputs[0])};
  const abi::StridedAxes axes = abi::merge_axes(views);
  if (axes.rank > 1 || !is_float(matmul.dtype)) return false;
  matmul.batches = axes.total;
  matmul.a_batch = axes.strides[0][0];
  matmul.b_batch = axes.strides[1][0];
  // One matrix for all of them, and contiguous rows: one large product.
  if (matmul.batches > 1 && matmul.b_batch == 0 && matmul.a_batch == matmul.a.rows * matmul.a.row_stride) {
    matmul.a.rows *= std::exchange(matmul.batches, 1);
  }
  return true;
}

std::unique_ptr<Kernel> make_library_matmul(const std::string& operation, const std::string& library,
                                            const LibraryMatmul& m, const MakeContext& context) {
  if (!is_float(m.dtype) || std::min({m.batches, m.a.rows, m.a.columns, m.b.columns}) == 0) return nullptr;
  auto x = factor_of(m.a.rows, m.a.columns, m.a.row_stride, m.a.column_stride),
       w = factor_of(m.b.columns, m.b.rows, m.b.column_stride, m.b.row_stride);
  if (!x || !w) return nullptr;
  x->batch_step = m.a_batch;
  w->batch_step = m.b_batch;
  auto product = context.product(library, {.dtype = m.dtype,
                                           .result = m.dtype,
                                           .rows = m.b.columns,
                                           .tokens = m.a.rows,
                                           .depth = m.a.columns,
                                           .batches = m.batches,
                                           .w = *w,
                                           .x = *x,
                                           .y_step = m.b.columns,
                                           .bias = m.bias,
                                           .activation = m.activation});
  if (product == nullptr) return nullptr;
  return std::make_unique<Product>(operation + " " + library, m, std::move(product));
}

}  // namespace gabbro::gpu
