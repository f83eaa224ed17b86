// Reductions over the last axis.
#include "kernels/reduce.h"
#include "backends/gpu/op_table.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

// What is short, or better read along another axis by many threads, is no work for a whole wave.
constexpr int64_t kThreadColumns = 8;
constexpr int64_t kManyRows = 4096;
constexpr int64_t kWaveColumns = 1024;

class Reduce : public Kernel {
 public:
  Reduce(const abi::KernelRequest& request, const MakeContext& context) {
    abi::TensorView x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    column_stride_ = x.strides[x.rank - 1];
    x.rank -= 1;
    rows_ = axes_of({&x, 1});
    implementation = request.op + ("_" + std::string(dtype_name(x.dtype)));
    if (columns_ <= kThreadColumns || (column_stride_ != 1 && rows_.total >= kManyRows)) {
      implementation += "_thread";
      rows_per_block_ = kElementThreads;
    } else if (columns_ <= kWaveColumns && rows_.total > 1) {
      implementation += "_wave";
      rows_per_block_ = kElementThreads / context.wave();
    } else {
      implementation += "_block";
    }
    function_ = context.function(implementation);
    flops = static_cast<double>(rows_.total) * static_cast<double>(columns_);
    bytes = 4 * (flops + static_cast<double>(rows_.total));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, {blocks_for(rows_.total, rows_per_block_)},
        ReduceArgs{.x = input<void>(launch, 0),
                   .y = output<void>(launch, 0),
                   .columns = columns_,
                   .column_stride = column_stride_,
                   .rows = rows_});
  }

 private:
  const api::Function* function_;
  Axes rows_;
  int64_t columns_ = 0;
  int64_t column_stride_ = 0;
  uint32_t rows_per_block_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_reduce(const abi::KernelRequest& request, const MakeContext& context) {
  return is_reduction(request, false) ? std::make_unique<Reduce>(request, context) : nullptr;
}

std::unique_ptr<Kernel> make_argreduce(const abi::KernelRequest& request, const MakeContext& context) {
  return is_reduction(request, true) ? std::make_unique<Reduce>(request, context) : nullptr;
}

}  // namespace gabbro::gpu
