// `rank_sum`: the sum over the devices of a group, as one of them computes it (backends/gpu/collective/).
// `rank_sum_add`: likewise, plus a second input.
#include <memory>

#include <fmt/format.h>

#include "backends/common/request.h"
#include "backends/gpu/collective/direct_sums.h"
#include "backends/gpu/kernel_table.h"

namespace gabbro::gpu {
namespace {

class RankSum : public Kernel {
 public:
  RankSum(const DirectSums& sums, size_t rank, const abi::TensorView& x, bool adds, int64_t count)
      : sums_(sums), rank_(rank), dtype_(x.dtype), adds_(adds), count_(count) {
    implementation = fmt::format("rank_sum{} {}", adds ? "_add" : "", dtype_name(dtype_));
    const int64_t tensors = adds ? 3 : 2;
    bytes = static_cast<double>(dtype_bytes(dtype_, static_cast<size_t>(tensors * count)));
    flops = static_cast<double>((tensors - 1) * count);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    sums_.enqueue(rank_, run,
                  {.x = input<void>(launch, 0),
                   .addend = adds_ ? input<void>(launch, 1) : nullptr,
                   .y = output<void>(launch, 0),
                   .dtype = dtype_,
                   .count = count_});
  }

 private:
  const DirectSums& sums_;
  const size_t rank_;
  const DType dtype_;
  const bool adds_;
  const int64_t count_;
};

}  // namespace

// The sums outlive the kernel's launches: they are of the model that the plan belongs to.
std::unique_ptr<Kernel> make_rank_sum(const abi::KernelRequest& request, const MakeContext&) {
  const abi::TensorView& x = request.inputs[0];
  const DirectSums* const sums = DirectSums::find(abi::integer_attribute(request, "sums", 0));
  const auto rank = static_cast<size_t>(abi::integer_attribute(request, "rank", 0));
  if (sums == nullptr || !abi::is_contiguous(x) || !abi::is_contiguous(request.outputs[0])) return nullptr;
  if (x.dtype != DType::f32 && x.dtype != DType::f16 && x.dtype != DType::bf16) return nullptr;
  const bool adds = request.input_count > 1;
  if (adds && !abi::is_contiguous(request.inputs[1])) return nullptr;
  return std::make_unique<RankSum>(*sums, rank, x, adds, abi::elements(x));
}

}  // namespace gabbro::gpu
