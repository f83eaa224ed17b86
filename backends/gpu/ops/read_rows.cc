// `embedding` and `dequantize`: rows of a weight matrix as f32.
#include <string>

#include "backends/common/dequantized.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/pack.h"
#include "kernels/rows/read_rows.h"

namespace gabbro::gpu {
namespace {

class ReadRows : public Kernel {
 public:
  ReadRows(const abi::KernelRequest& request, int64_t rows, const MakeContext& context)
      : rows_(rows), check_(context.index_check(abi::read_index_rule(request, request.inputs[0].shape[0]))) {
    const abi::TensorView& weight = request.inputs[0];
    const std::string name(kernel_format(weight.dtype));
    function_ = context.function("read_rows_" + name);
    implementation = std::string(request.op) + " " + name;
    const auto values = static_cast<double>(rows * weight.shape[1]);
    const DTypeInfo info = dtype_info(weight.dtype);
    bytes = values * (4 + static_cast<double>(info.block_bytes) / info.block_elements);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const abi::TensorView weight = abi::stored_view(launch.inputs[0], has_kernels);
    ReadRowsArgs args = {.ids = launch.input_count > 1 ? input<i32>(launch, 1) : nullptr,
                         .y = output<float>(launch, 0),
                         .columns = static_cast<i32>(weight.shape[1])};
    if (is_quantized(weight.dtype)) {
      args.matrix = packed_matrix(weight.dtype, weight.shape[0], weight.shape[1], weight.data);
    } else {
      args.matrix = {.low = static_cast<const u8*>(weight.data),
                     .rows = static_cast<i32>(weight.shape[0]),
                     .row_step = weight.strides[0] * dtype_info(weight.dtype).block_bytes};
    }
    const auto parts = blocks_for(args.columns, read_columns(is_quantized(weight.dtype)));
    run(function_, {static_cast<u32>(rows_), parts}, CheckedReadRowsArgs{.rows = args, .check = check_});
  }

 private:
  int64_t rows_;
  const api::Function* function_;
  IndexCheck check_;
};

bool is_matrix(const abi::TensorView& view) {
  if (view.rank != 2 || view.shape[0] < 1 || view.shape[1] < 1) return false;
  if (is_quantized(view.dtype)) return view.layout == abi::Layout::kPacked;
  if (view.layout != abi::Layout::kStrided || view.strides[1] != 1) return false;
  return view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16;
}

}  // namespace

std::unique_ptr<Kernel> make_embedding(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 2, 1) || !is_matrix(request.inputs[0])) return nullptr;
  const abi::TensorView &ids = request.inputs[1], &out = request.outputs[0];
  if (!is_plain(ids, DType::i32) || !is_contiguous(ids) || !is_plain(out, DType::f32) || !is_contiguous(out))
    return nullptr;
  if (elements(ids) < 1 || elements(out) != elements(ids) * request.inputs[0].shape[1]) return nullptr;
  return std::make_unique<ReadRows>(request, elements(ids), context);
}

std::unique_ptr<Kernel> make_dequantize(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 1, 1) || !is_matrix(request.inputs[0])) return nullptr;
  const abi::TensorView& weight = request.inputs[0];
  if (!has_shape(request.outputs[0], DType::f32, {weight.shape[0], weight.shape[1]})) return nullptr;
  return std::make_unique<ReadRows>(request, weight.shape[0], context);
}

}  // namespace gabbro::gpu
