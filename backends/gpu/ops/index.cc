// `gather`, `resolve_index`, `scatter`, and `iota`.
#include "kernels/index/index.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

double bytes_moved(const abi::RowsView& rows, DType dtype) {
  return 2.0 * static_cast<double>(rows.count * rows.columns) * static_cast<double>(dtype_bytes(dtype, 1));
}

class Gather : public Kernel {
 public:
  Gather(const abi::KernelRequest& request, const abi::RowMove& move, const MakeContext& context)
      : function_(context.function("gather_" + word_name(request.inputs[0].dtype))),
        check_(context.index_check(abi::read_index_rule(request, move.source.count))),
        x_(move.source),
        total_(move.target.count * move.target.columns),
        vector_elements_(kVectorBytes / static_cast<int64_t>(dtype_bytes(request.inputs[0].dtype, 1))) {
    if (x_.columns % vector_elements_ == 0 && x_.step % vector_elements_ == 0)
      vectors_ = context.function("gather_vec16");
    implementation = "gather";
    bytes = bytes_moved(move.target, request.inputs[0].dtype);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const void *x = input<void>(launch, 0), *y = output<void>(launch, 0);
    const bool vectors = vectors_ != nullptr && is_16_byte_aligned(x) && is_16_byte_aligned(y);
    const int64_t unit = vectors ? vector_elements_ : 1;
    run(vectors ? vectors_ : function_, flat_grid(total_ / unit, kElementThreads),
        GatherArgs{.x = x,
                   .indices = input<i32>(launch, 1),
                   .y = output<void>(launch, 0),
                   .row_step = x_.step / unit,
                   .columns = x_.columns / unit,
                   .total = total_ / unit,
                   .check = check_});
  }

 private:
  const api::Function* function_;
  IndexCheck check_;
  const api::Function* vectors_ = nullptr;  // for rows of whole vectors, and those that begin with one
  abi::RowsView x_;
  int64_t total_;
  int64_t vector_elements_;  // elements of a 16-byte vector
};

class ResolveIndex : public Kernel {
 public:
  ResolveIndex(const abi::KernelRequest& request, const abi::ResolveRequest& resolve, const MakeContext& context)
      : function_(context.function("resolve_index_" + std::string(dtype_name(resolve.dtype)))),
        check_(context.index_check(abi::read_index_rule(request, resolve.size))),
        resolve_(resolve) {
    implementation = "resolve_index";
    bytes = static_cast<double>(resolve.count) *
            (static_cast<double>(dtype_bytes(resolve.dtype, 1)) +
             static_cast<double>(resolve.repeats + (resolve.has_outer ? 1 : 0)) * sizeof(i32));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, flat_grid(resolve_.count, kElementThreads),
        ResolveIndexArgs{.indices = input<void>(launch, 0),
                         .outer = resolve_.has_outer ? input<i32>(launch, 1) : nullptr,
                         .y = output<i32>(launch, 0),
                         .count = resolve_.count,
                         .repeats = resolve_.repeats,
                         .check = check_});
  }

 private:
  const api::Function* function_;
  IndexCheck check_;
  abi::ResolveRequest resolve_;
};

class Scatter : public Kernel {
 public:
  Scatter(const abi::RowMove& move, DType dtype, const MakeContext& context)
      : function_(context.function("scatter_" + word_name(dtype))), move_(move) {
    implementation = "scatter";
    bytes = bytes_moved(move.source, dtype);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, flat_blocks(move_.source.count, api::block_threads(function_)),
        ScatterArgs{.target = launch.inputs[0].data,
                    .indices = input<i32>(launch, 1),
                    .rows = input<void>(launch, 2),
                    .target_rows = move_.target.count,
                    .target_step = move_.target.step,
                    .row_step = move_.source.step,
                    .count = move_.source.count,
                    .columns = move_.source.columns});
  }

 private:
  const api::Function* function_;
  abi::RowMove move_;
};

class Iota : public Kernel {
 public:
  Iota(const abi::KernelRequest& request, const MakeContext& context)
      : function_(context.function("iota_" + std::string(dtype_name(request.outputs[0].dtype)))),
        total_(request.outputs[0].shape[0]),
        start_(real_attribute(request, "start", 0)),
        step_(real_attribute(request, "step", 1)),
        whole_start_(integer_attribute(request, "start", 0)) {
    implementation = "iota";
    bytes = static_cast<double>(dtype_bytes(request.outputs[0].dtype, 1)) * static_cast<double>(total_);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, flat_grid(total_, kElementThreads),
        IotaArgs{output<void>(launch, 0), total_, start_, step_, whole_start_});
  }

 private:
  const api::Function* function_;
  int64_t total_;
  double start_;
  double step_;
  int64_t whole_start_;
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const abi::KernelRequest& request, const MakeContext& context) {
  abi::RowMove move;
  if (!is_gather(request, move)) return nullptr;
  return std::make_unique<Gather>(request, move, context);
}

std::unique_ptr<Kernel> make_resolve_index(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ResolveRequest resolve;
  if (!abi::read_resolve_index(request, resolve)) return nullptr;
  return std::make_unique<ResolveIndex>(request, resolve, context);
}

std::unique_ptr<Kernel> make_scatter(const abi::KernelRequest& request, const MakeContext& context) {
  abi::RowMove move;
  if (!is_scatter(request, move)) return nullptr;
  return std::make_unique<Scatter>(move, request.inputs[0].dtype, context);
}

std::unique_ptr<Kernel> make_iota(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_iota(request) || request.outputs[0].dtype == DType::f64) return nullptr;
  return std::make_unique<Iota>(request, context);
}

}  // namespace gabbro::gpu
