// `matmul` in f32.
#include <fmt/format.h>

#include "backends/gpu/op_table.h"
#include "backends/gpu/ops/strided.h"
#include "backends/gpu/ways.h"
#include "kernels/matmul.h"

namespace gabbro::gpu {
namespace {

// Where nobody has measured: below it a thread that makes 4x4 elements would leave most of its tile, or of the device,
// idle.
constexpr int64_t kSmallSide = 64;

class Matmul : public Kernel {
 public:
  // A thread makes side x side elements.
  Matmul(const abi::KernelRequest& request, int side, const MakeContext& context)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    batches_ = axes_of(batches);
    tile_ = static_cast<uint32_t>(kMatmulSide * side);
    implementation = "matmul_" + std::to_string(side);
    function_ = context.function(implementation);
    const auto products = static_cast<double>(batches_.total);
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 4.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const uint32_t row_tiles = blocks_for(a_.rows, tile_), column_tiles = blocks_for(b_.columns, tile_);
    run(function_, {row_tiles * column_tiles * static_cast<u32>(batches_.total)},
        MatmulArgs{.a = input<float>(launch, 0),
                   .b = input<float>(launch, 1),
                   .c = output<float>(launch, 0),
                   .rows = a_.rows,
                   .columns = b_.columns,
                   .depth = a_.columns,
                   .a_row_stride = a_.row_stride,
                   .a_column_stride = a_.column_stride,
                   .b_row_stride = b_.row_stride,
                   .b_column_stride = b_.column_stride,
                   .row_tiles = row_tiles,
                   .column_tiles = column_tiles,
                   .batches = batches_});
  }

 private:
  abi::MatrixView a_;
  abi::MatrixView b_;
  Axes batches_;
  uint32_t tile_ = 0;
  const api::Function* function_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_matmul(request)) return nullptr;
  const abi::MatrixView a = last_axes(request.inputs[0]), b = last_axes(request.inputs[1]);
  const bool small = std::min(a.rows, b.columns) < kSmallSide;
  std::vector<Way> ways;
  for (const int side : {small ? 1 : 4, small ? 4 : 1}) {
    ways.push_back({.name = fmt::format("{0}x{0} a thread", side), .ours = true, .make = [&, side] {
                      return std::make_unique<Matmul>(request, side, context);
                    }});
  }
  const int64_t products = elements(request.outputs[0]) / std::max<int64_t>(a.rows * b.columns, 1);
  return choose_way(fmt::format("matmul up to {} of {} x {} x {}", length_class(products), length_class(a.rows),
                                length_class(a.columns), length_class(b.columns)),
                    ways, context);
}

}  // namespace gabbro::gpu
