// Reductions over the last axis.
#include "kernels/rows/reduce.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"
#include "src/base/round_up.h"

namespace gabbro::gpu {
namespace {

// Shorter rows do not fill a wave.
constexpr int64_t kThreadColumns = 8;
constexpr int64_t kManyRows = 4096;
constexpr int64_t kWaveColumns = 1024;
// Blocks that keep a large device busy, and columns that are worth a block: of a row, or of a wave's lanes of rows.
constexpr int64_t kManyBlocks = 2048;
constexpr int64_t kBlockColumns = 4096;
constexpr int64_t kLanesColumns = 128;

class Reduce : public Kernel {
 public:
  Reduce(const abi::KernelRequest& request, const MakeContext& context) {
    abi::TensorView x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    column_stride_ = x.strides[x.rank - 1];
    x.rank -= 1;
    rows_ = axes_of({&x, 1});
    const std::string name = request.op + ("_" + std::string(dtype_name(x.dtype)));
    choose_team(context);
    implementation = name + team_;
    function_ = context.function(implementation);
    if (parts_ > 1) join_ = context.function(name + "_join");
    join_rows_ = kElementThreads / context.wave();
    const int64_t vector_elements = kVectorBytes / static_cast<int64_t>(dtype_bytes(x.dtype, 1));
    part_columns_ = (columns_ + parts_ - 1) / parts_;
    if (column_stride_ == 1 && columns_ % vector_elements == 0) {
      in_vectors_ = true;
      for (int axis = 0; axis < rows_.rank; ++axis)
        in_vectors_ = in_vectors_ && rows_.strides[0][axis] % vector_elements == 0;
      if (in_vectors_) part_columns_ = round_up(part_columns_, vector_elements);
    }
    scratch_bytes = parts_ > 1 ? static_cast<size_t>(parts_ * rows_.total * kLargestState) : 0;
    flops = static_cast<double>(rows_.total) * static_cast<double>(columns_);
    bytes = static_cast<double>(dtype_bytes(x.dtype, 1)) * (flops + static_cast<double>(rows_.total));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    void* states = parts_ > 1 ? launch.scratch : nullptr;
    const void* x = input<void>(launch, 0);
    Dim grid = flat_blocks(blocks_for(rows_.total, rows_per_block_), api::block_threads(function_));
    grid.y = static_cast<u32>(parts_);
    run(function_, grid,
        ReduceArgs{.x = x,
                   .y = output<void>(launch, 0),
                   .states = states,
                   .columns = columns_,
                   .column_stride = column_stride_,
                   .part_columns = part_columns_,
                   .vectors = in_vectors_ && is_16_byte_aligned(x),
                   .rows = rows_});
    if (parts_ == 1) return;
    run(join_, flat_blocks(blocks_for(rows_.total, join_rows_), api::block_threads(join_)),
        ReduceJoinArgs{.states = states, .y = output<void>(launch, 0), .parts = parts_, .rows = rows_.total});
  }

 private:
  void choose_team(const MakeContext& context) {
    const bool side_by_side = column_stride_ != 1 && rows_.strides[0][0] == 1 && rows_.shape[0] > 1;
    int64_t worth_a_block = columns_;
    if (columns_ <= kThreadColumns || (column_stride_ != 1 && !side_by_side && rows_.total >= kManyRows)) {
      team_ = "_thread";
      rows_per_block_ = kElementThreads;
    } else if (side_by_side) {
      team_ = "_lanes";
      rows_per_block_ = context.wave();
      worth_a_block = kLanesColumns;
    } else if (columns_ <= kWaveColumns && rows_.total > 1) {
      team_ = "_wave";
      rows_per_block_ = kElementThreads / context.wave();
    } else {
      team_ = "_block";
      worth_a_block = kBlockColumns;
    }
    const int64_t blocks = std::max<int64_t>(1, blocks_for(rows_.total, rows_per_block_));
    parts_ = std::clamp<int64_t>(std::min(columns_ / std::max<int64_t>(1, worth_a_block), kManyBlocks / blocks), 1,
                                 kManyBlocks);
  }

  const api::Function* function_;
  const api::Function* join_ = nullptr;
  const char* team_ = "";
  Axes rows_;
  int64_t columns_ = 0;
  int64_t column_stride_ = 0;
  int64_t parts_ = 1;
  int64_t part_columns_ = 0;
  bool in_vectors_ = false;  // if x is aligned
  uint32_t rows_per_block_ = 1;
  uint32_t join_rows_ = 1;
};

bool is_reduced(const abi::KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i32 ||
         dtype == DType::i64;
}

}  // namespace

std::unique_ptr<Kernel> make_reduce(const abi::KernelRequest& request, const MakeContext& context) {
  return is_reduction(request, false) && is_reduced(request) ? std::make_unique<Reduce>(request, context) : nullptr;
}

std::unique_ptr<Kernel> make_argreduce(const abi::KernelRequest& request, const MakeContext& context) {
  return is_reduction(request, true) && is_reduced(request) ? std::make_unique<Reduce>(request, context) : nullptr;
}

}  // namespace gabbro::gpu
