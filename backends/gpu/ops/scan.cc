// `cumsum` over the last axis.
#include "kernels/rows/scan.h"

#include "backends/common/primitives.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

class Scan : public Kernel {
 public:
  Scan(const abi::TensorView& x, const abi::TensorView& y, const MakeContext& context)
      : columns_(x.shape[x.rank - 1]),
        rows_(elements(x) / columns_),
        tiles_((columns_ + kScanTile - 1) / kScanTile),
        name_(dtype_name(x.dtype)),
        sums_(context.function("scan_sums_" + name_)),
        offsets_(context.function("scan_offsets_" + name_)),
        scan_(context.function("scan_" + name_)) {
    const int64_t row_bytes = columns_ * static_cast<int64_t>(dtype_bytes(x.dtype, 1));
    const int64_t words = row_bytes / 4;  // registers of a row
    if (row_bytes % kVectorBytes == 0 && words <= longest_scanned_row(kScanThreads))
      row_ = context.function("scan_row_" + name_ + (words <= longest_scanned_row(kScanSmallThreads) ? "_small" : ""));
    scratch_bytes = tiles_ == 1 ? 0 : static_cast<size_t>(rows_ * tiles_) * dtype_bytes(y.dtype, 1);
    implementation = "cumsum " + name_;
    bytes = static_cast<double>(dtype_bytes(x.dtype, 1) + dtype_bytes(y.dtype, 1)) * static_cast<double>(elements(x));
    flops = static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const ScanArgs args{.x = input<void>(launch, 0),
                        .y = output<void>(launch, 0),
                        .sums = tiles_ == 1 ? nullptr : launch.scratch,
                        .columns = columns_,
                        .tiles = static_cast<i32>(tiles_)};
    if (row_ != nullptr && is_16_byte_aligned(args.x) && is_16_byte_aligned(args.y)) {
      run(row_, {static_cast<u32>(rows_)}, args);
      return;
    }
    const auto blocks = static_cast<u32>(rows_ * tiles_);
    if (tiles_ > 1) {
      run(sums_, {blocks}, args);
      run(offsets_, {static_cast<u32>(rows_)}, args);
    }
    run(scan_, {blocks}, args);
  }

 private:
  int64_t columns_, rows_, tiles_;
  std::string name_;
  const api::Function* sums_;
  const api::Function* offsets_;
  const api::Function* scan_;
  const api::Function* row_ = nullptr;  // for aligned rows of whole 16-byte vectors
};

}  // namespace

std::unique_ptr<Kernel> make_cumsum(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_scan(request)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  const bool scanned = dtype == DType::f32 || dtype == DType::i32 || dtype == DType::i64;
  return scanned ? std::make_unique<Scan>(request.inputs[0], request.outputs[0], context) : nullptr;
}

}  // namespace gabbro::gpu
