// `expert_linear`: activations are rounded to 8 bits for block formats. With several tokens, the slots (pairs of a
// token and an expert) are grouped by expert; each tile of slots reads the weights of one expert.
#include <string>

#include "backends/common/dequantized.h"
#include "backends/common/expert_request.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/expert_batch.h"
#include "backends/gpu/ops/weights.h"
#include "kernels/linear/expert_linear.h"
#include "kernels/rows/rms_norm.h"

namespace gabbro::gpu {
namespace {

class ExpertLinear : public Kernel {
 public:
  ExpertLinear(const abi::KernelRequest& request, const abi::ExpertRequest& sizes, const MakeContext& context)
      : sizes_(sizes),
        grouped_(sizes.grouped() && sizes.experts <= kMaxGroupedExperts),
        tiles_(grouped_ ? sizes.slots() / kExpertTile + sizes.most_read() : sizes.slots()),
        wave_(context.wave()),
        check_(context.index_check(abi::read_index_rule(request, sizes.experts))) {
    const abi::TensorView& weight = request.inputs[1];
    std::string name = "expert_" + std::string(kernel_format(weight.dtype)) + (grouped_ ? "_8" : "_1");
    if (!is_quantized(weight.dtype) && !is_16_byte_aligned(weight)) name += "_any";
    product_ = context.function(name);
    if (grouped_) route_ = context.function("expert_route");
    if (is_quantized(weight.dtype)) quantize_ = context.function("quantize_rows");
    ScratchLayout layout;
    const int64_t values = sizes_.x_rows() * sizes.columns;
    if (quantize_ != nullptr) {
      codes_at_ = layout.place(values);
      scales_at_ = layout.place(values / 8);
      sums_at_ = layout.place(values / 4);
    }
    if (grouped_) {
      order_at_ = layout.place(sizes.slots() * static_cast<int64_t>(sizeof(i32)));
      tiles_at_ = layout.place(tiles_ * static_cast<int64_t>(sizeof(ExpertTile)));
    }
    scratch_bytes = layout.bytes();
    implementation = "expert_linear " + name;
    const auto rows = static_cast<double>(sizes.rows), depth = static_cast<double>(sizes.columns);
    const DTypeInfo info = dtype_info(weight.dtype);
    bytes = static_cast<double>(sizes.most_read()) * rows * depth * info.block_bytes / info.block_elements +
            static_cast<double>(sizes.slots()) * rows * 4 + static_cast<double>(values) * 4;
    flops = 2 * static_cast<double>(sizes.slots()) * rows * depth;
  }

  bool fits_grid() const { return tiles_ <= kMostGridRows; }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    ExpertLinearArgs args = {.matrix = linear_matrix(abi::stored_view(launch.inputs[1], has_kernels)),
                             .rows = static_cast<i32>(sizes_.rows),
                             .columns = static_cast<i32>(sizes_.columns),
                             .slots_per_row = static_cast<i32>(sizes_.own_rows ? 1 : sizes_.used),
                             .ids = input<i32>(launch, 2),
                             .x = input<float>(launch, 0),
                             .y = output<float>(launch, 0),
                             .check = check_};
    if (quantize_ != nullptr) {
      const QuantizeRowsArgs quantize = {.x = args.x,
                                         .codes = reinterpret_cast<i8*>(scratch + codes_at_),
                                         .scales = reinterpret_cast<float*>(scratch + scales_at_),
                                         .sums = reinterpret_cast<i32*>(scratch + sums_at_),
                                         .columns = args.columns,
                                         .slice = slice_of(sizes_.x_rows(), sizes_.columns)};
      run(quantize_, {static_cast<u32>(sizes_.x_rows()), slices_of(sizes_.x_rows(), sizes_.columns)}, quantize);
      args.codes = quantize.codes;
      args.scales = quantize.scales;
      args.sums = quantize.sums;
    }
    if (grouped_) {
      const ExpertRouteArgs route = {.ids = args.ids,
                                     .order = reinterpret_cast<i32*>(scratch + order_at_),
                                     .tiles = reinterpret_cast<ExpertTile*>(scratch + tiles_at_),
                                     .y = args.y,
                                     .slots = static_cast<i32>(sizes_.slots()),
                                     .experts = static_cast<i32>(sizes_.experts),
                                     .tile = kExpertTile,
                                     .most_tiles = static_cast<i32>(tiles_),
                                     .rows = args.rows,
                                     .check = check_};
      run(route_, {1}, route);
      args.order = route.order;
      args.tiles = route.tiles;
    }
    const u32 waves = api::block_threads(product_) / wave_;
    run(product_, {blocks_for(waves_of(sizes_.rows), waves), static_cast<u32>(tiles_)}, args);
  }

 private:
  abi::ExpertRequest sizes_;
  bool grouped_;
  int64_t tiles_;
  u32 wave_;
  IndexCheck check_;
  const api::Function* product_;
  const api::Function* route_ = nullptr;
  const api::Function* quantize_ = nullptr;
  int64_t codes_at_ = 0, scales_at_ = 0, sums_at_ = 0, order_at_ = 0, tiles_at_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_linear(const abi::KernelRequest& request, const MakeContext& context) {
  const auto sizes = abi::read_expert_request(request, is_weight);
  if (!sizes) return nullptr;
  if (auto kernel = make_expert_batch(request, *sizes, {}, context)) return kernel;
  auto kernel = std::make_unique<ExpertLinear>(request, *sizes, context);
  return kernel->fits_grid() ? std::move(kernel) : nullptr;
}

}  // namespace gabbro::gpu
