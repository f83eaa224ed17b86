// `take_along`, `scatter_add` and `index_add`.
#include "kernels/index/scatter_add.h"

#include "backends/common/scatter_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

class Along : public Kernel {
 public:
  // `blocks`: of the grid. `moved`: elements that are read and written.
  Along(const abi::AlongRequest& along, const abi::IndexRule& rule, std::string kernel, int64_t blocks, int64_t moved,
        const MakeContext& context)
      : along_(along),
        blocks_(static_cast<u32>(blocks)),
        function_(context.function(kernel)),
        check_(context.index_check(rule)) {
    implementation = std::move(kernel);
    bytes = static_cast<double>(moved) * 2 * static_cast<double>(dtype_bytes(along.dtype, 1));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, {blocks_},
        AlongArgs{.x = input<void>(launch, 0),
                  .indices = input<i32>(launch, 1),
                  .values = launch.input_count > 2 ? input<void>(launch, 2) : nullptr,
                  .y = output<void>(launch, 0),
                  .rows = along_.rows,
                  .columns = along_.columns,
                  .picks = along_.picks,
                  .check = check_});
  }

 private:
  abi::AlongRequest along_;
  u32 blocks_;
  const api::Function* function_;
  IndexCheck check_;
};

}  // namespace

std::unique_ptr<Kernel> make_take_along(const abi::KernelRequest& request, const MakeContext& context) {
  abi::AlongRequest along;
  if (!read_take_along(request, along)) return nullptr;
  const int64_t total = along.rows * along.picks;
  return std::make_unique<Along>(along, abi::read_index_rule(request, along.columns),
                                 "take_along_" + word_name(along.dtype), blocks_for(total, kElementThreads), total,
                                 context);
}

std::unique_ptr<Kernel> make_scatter_add(const abi::KernelRequest& request, const MakeContext& context) {
  abi::AlongRequest along;
  if (!read_scatter_add(request, along) || along.dtype == DType::f64) return nullptr;
  const int64_t total = along.rows * along.columns;
  return std::make_unique<Along>(along, abi::read_index_rule(request, along.columns),
                                 "scatter_add_" + std::string(dtype_name(along.dtype)),
                                 blocks_for(total, kElementThreads), total + along.rows * along.picks, context);
}

std::unique_ptr<Kernel> make_scatter_set(const abi::KernelRequest& request, const MakeContext& context) {
  abi::AlongRequest along;
  if (!read_scatter_set(request, along)) return nullptr;
  const int64_t total = along.rows * along.columns;
  return std::make_unique<Along>(along, abi::read_index_rule(request, along.columns),
                                 "scatter_set_" + word_name(along.dtype), blocks_for(total, kElementThreads),
                                 total + along.rows * along.picks, context);
}

std::unique_ptr<Kernel> make_index_add(const abi::KernelRequest& request, const MakeContext& context) {
  abi::AlongRequest add;
  if (!read_index_add(request, add) || add.dtype == DType::f64) return nullptr;
  return std::make_unique<Along>(add, abi::read_index_rule(request, add.rows),
                                 "index_add_" + std::string(dtype_name(add.dtype)), add.rows,
                                 (add.rows + add.picks) * add.columns, context);
}

}  // namespace gabbro::gpu
