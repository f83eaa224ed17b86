// `gather`: rows by index.
#include <algorithm>

#include "backends/common/request.h"
#include "backends/gpu/op_table.h"
#include "backends/gpu/ops/words.h"
#include "kernels/index.h"

namespace gabbro::gpu {
namespace {

// A tensor seen as rows along its first axis, each contiguous.
struct Rows {
  int64_t count = 0;
  int64_t step = 0;  // in elements
  int64_t columns = 0;
};

bool read_rows(const abi::TensorView& view, Rows& rows) {
  if (view.rank < 1 || view.layout != abi::Layout::kStrided || is_quantised(view.dtype)) return false;
  abi::TensorView row = view;
  row.rank -= 1;
  std::copy_n(view.shape + 1, row.rank, row.shape);
  std::copy_n(view.strides + 1, row.rank, row.strides);
  rows = {view.shape[0], view.strides[0], elements(row)};
  return is_contiguous(row);
}

double bytes_moved(const Rows& rows, DType dtype) {
  return 2.0 * static_cast<double>(rows.count * rows.columns) * static_cast<double>(dtype_bytes(dtype, 1));
}

class Gather : public Kernel {
 public:
  Gather(const Rows& x, const Rows& y, DType dtype, const MakeContext& context)
      : function_(context.function("gather_" + word_name(dtype))), x_(x), total_(y.count * y.columns) {
    implementation = "gather";
    bytes = bytes_moved(y, dtype);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, {blocks_for(total_, kElementThreads)},
        GatherArgs{.x = input<void>(launch, 0),
                   .indices = input<i32>(launch, 1),
                   .y = output<void>(launch, 0),
                   .rows = x_.count,
                   .row_step = x_.step,
                   .columns = x_.columns,
                   .total = total_});
  }

 private:
  const api::Function* function_;
  Rows x_;
  int64_t total_;
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const abi::KernelRequest& request, const MakeContext& context) {
  Rows x, y;
  if (!has_operands(request, 2, 1) || !read_rows(request.inputs[0], x)) return nullptr;
  const abi::TensorView& out = request.outputs[0];
  if (!read_rows(out, y) || !is_contiguous(out) || out.dtype != request.inputs[0].dtype) return nullptr;
  if (!has_shape(request.inputs[1], DType::i32, {y.count}) || x.columns != y.columns) return nullptr;
  if (x.count == 0 && y.count > 0) return nullptr;
  return std::make_unique<Gather>(x, y, out.dtype, context);
}

}  // namespace gabbro::gpu
