#include "backends/gpu/ops/expert_batch.h"

#include <string>

#include "backends/common/dequantized.h"
#include "backends/common/request.h"
#include "backends/gpu/ops/linear_batch.h"
#include "backends/gpu/ops/weights.h"
#include "kernels/linear/expert_linear.h"
#include "src/base/round_up.h"

namespace gabbro::gpu {
namespace {

class ExpertBatch : public Kernel {
 public:
  ExpertBatch(const abi::KernelRequest& request, const abi::ExpertRequest& sizes, const abi::ExpertForm& form, int tile,
              const api::Function* product, const MakeContext& context)
      : sizes_(sizes),
        form_(form),
        epsilon_(static_cast<float>(real_attribute(request, "epsilon", 0))),
        tile_(tile),
        tiles_(tiles_of(sizes, tile)),
        depth_(round_up(sizes.columns, kBatchDepth)),
        blocks_(is_quantized(request.inputs[1].dtype)),
        wave_(context.wave()),
        check_(context.index_check(abi::read_index_rule(request, sizes.experts))),
        route_(context.function("expert_route")),
        convert_(context.function("convert_expert_f16")),
        product_(product) {
    ScratchLayout layout;
    f16_at_ = layout.place(sizes_.x_rows() * depth_ * 2);
    scales_at_ = layout.place(sizes_.x_rows() * 4);
    order_at_ = layout.place(sizes.slots() * static_cast<int64_t>(sizeof(i32)));
    tiles_at_ = layout.place(tiles_ * static_cast<int64_t>(sizeof(ExpertTile)));
    scratch_bytes = layout.bytes();
    implementation = std::string(request.op) + " " + kernel_name(request.inputs[1], tile);
    const DTypeInfo info = dtype_info(request.inputs[1].dtype);
    const double rows = static_cast<double>(sizes.rows * form.matrices), depth = static_cast<double>(sizes.columns);
    bytes = static_cast<double>(sizes.most_read()) * rows * depth * info.block_bytes / info.block_elements +
            static_cast<double>(sizes.slots() * sizes.rows) * 4 + static_cast<double>(sizes_.x_rows()) * depth * 4;
    flops = 2 * static_cast<double>(sizes.slots()) * rows * depth;
  }

  static std::string kernel_name(const abi::TensorView& weight, int tile) {
    return "expert_" + std::string(kernel_format(weight.dtype)) + "_batch_" + std::to_string(tile);
  }
  static int64_t tiles_of(const abi::ExpertRequest& sizes, int tile) {
    return sizes.slots() / tile + sizes.most_read();
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const ExpertRouteArgs route = {.ids = input<i32>(launch, form_.ids_at()),
                                   .order = reinterpret_cast<i32*>(scratch + order_at_),
                                   .tiles = reinterpret_cast<ExpertTile*>(scratch + tiles_at_),
                                   .y = output<float>(launch, 0),
                                   .slots = static_cast<i32>(sizes_.slots()),
                                   .experts = static_cast<i32>(sizes_.experts),
                                   .tile = tile_,
                                   .most_tiles = static_cast<i32>(tiles_),
                                   .rows = static_cast<i32>(sizes_.rows),
                                   .check = check_};
    run(route_, {1}, route);
    const ConvertExpertArgs convert = {
        .rows = {.x = input<float>(launch, 0),
                 .norm = form_.more == 1 ? input<float>(launch, form_.ids_at() + 1) : nullptr,
                 .f16 = reinterpret_cast<Half*>(scratch + f16_at_),
                 .scales = reinterpret_cast<float*>(scratch + scales_at_),
                 .columns = static_cast<i32>(sizes_.columns),
                 .depth = static_cast<i32>(depth_),
                 .epsilon = epsilon_},
        .tile = tile_,
        .blocks = blocks_};
    run(convert_, {static_cast<u32>(sizes_.x_rows())}, convert);
    const Epilogue epilogue = form_.matrices == 2 ? Epilogue::kSiluMul : Epilogue::kNone;
    ExpertBatchArgs args = {.rows = route.rows,
                            .row_tiles = batch_tiles(sizes_.rows, kBatchRows, epilogue),
                            .columns = convert.rows.columns,
                            .depth = convert.rows.depth,
                            .slots_per_row = static_cast<i32>(sizes_.own_rows ? 1 : sizes_.used),
                            .epilogue = epilogue,
                            .order = route.order,
                            .tiles = route.tiles,
                            .f16 = convert.rows.f16,
                            .scales = convert.rows.scales,
                            .y = route.y};
    for (int m = 0; m < form_.matrices; ++m)
      args.matrices[m] = linear_matrix(abi::stored_view(launch.inputs[1 + m], has_kernels));
    run(product_, {blocks_for(args.row_tiles, api::block_threads(product_) / wave_), static_cast<u32>(tiles_)}, args);
  }

 private:
  abi::ExpertRequest sizes_;
  abi::ExpertForm form_;
  float epsilon_;
  i32 tile_;
  int64_t tiles_, depth_;
  bool blocks_;
  u32 wave_;
  IndexCheck check_;
  const api::Function *route_, *convert_, *product_;
  int64_t f16_at_ = 0, scales_at_ = 0, order_at_ = 0, tiles_at_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_batch(const abi::KernelRequest& request, const abi::ExpertRequest& sizes,
                                          const abi::ExpertForm& form, const MakeContext& context) {
  if (!sizes.grouped() || sizes.experts > kMaxGroupedExperts) return nullptr;
  for (int m = 0; m < form.matrices; ++m) {
    const abi::TensorView& weight = request.inputs[1 + m];
    if (!takes_f16(weight) || weight.dtype != request.inputs[1].dtype) return nullptr;
  }
  const int tile = sizes.slots() < context.chip().large_tile_slots * sizes.experts ? 16 : kMaxBatchTile;
  if (ExpertBatch::tiles_of(sizes, tile) > kMostGridRows) return nullptr;
  const api::Function* product = context.function_if_any(ExpertBatch::kernel_name(request.inputs[1], tile));
  if (product == nullptr) return nullptr;
  return std::make_unique<ExpertBatch>(request, sizes, form, tile, product, context);
}

}  // namespace gabbro::gpu
