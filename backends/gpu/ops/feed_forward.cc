// `feed_forward` of many tokens (docs/design/fused_ops.md), by a vendor's library: SiLU·mul writes the f16 values that
// the last product reads, instead of f32 and a separate conversion.
#include <algorithm>
#include <optional>
#include <string>

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/library_matrix.h"
#include "backends/gpu/ops/linear_batch.h"
#include "backends/gpu/ops/weights.h"
#include "backends/gpu/tuning/tuning.h"

namespace gabbro::gpu {
namespace {

struct FeedForwardOptions {
  bool norm = false, residual = false;
  float epsilon = 0;

  static constexpr int kX = 0, kGate = 1, kUp = 2, kDown = 3;
  int norm_at() const { return 4; }
  int residual_at() const { return 4 + (norm ? 1 : 0); }
  int inputs() const { return residual_at() + (residual ? 1 : 0); }
};

struct Matrices {
  LibraryMatrix gate, up, down;
};

class FeedForward : public Kernel {
 public:
  FeedForward(const abi::KernelRequest& request, const FeedForwardOptions& options, Matrices matrices,
              const std::string& library, const MakeContext& context)
      : options_(options),
        matrices_(std::move(matrices)),
        columns_(request.inputs[FeedForwardOptions::kGate].shape[1]),
        hidden_(request.inputs[FeedForwardOptions::kGate].shape[0]),
        tokens_(elements(request.inputs[0]) / columns_),
        convert_(context.function(convert_rows_name(columns_))),
        convert_gated_(context.function("convert_gated_f16")),
        finish_(context.function("linear_finish")) {
    ScratchLayout layout;
    x_at_ = layout.place(tokens_ * f16_depth(columns_) * 2);
    x_scales_at_ = layout.place(tokens_ * 4);
    gate_at_ = layout.place(tokens_ * hidden_ * 4);
    up_at_ = layout.place(tokens_ * hidden_ * 4);
    gated_at_ = layout.place(tokens_ * f16_depth(hidden_) * 2);
    gated_scales_at_ = layout.place(tokens_ * 4);
    weights_at_ = layout.place(
        std::max({matrices_.gate.scratch_bytes(), matrices_.up.scratch_bytes(), matrices_.down.scratch_bytes()}));
    scratch_bytes = layout.bytes();
    implementation = "feed_forward " + library;
    flops = 6 * static_cast<double>(tokens_) * static_cast<double>(columns_) * static_cast<double>(hidden_);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const auto f16_at = [&](int64_t at) { return reinterpret_cast<Half*>(scratch + at); };
    const auto floats_at = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
    const auto product = [&](const LibraryMatrix& library, int input_index, const Half* x, const float* addend,
                             float* y) {
      LinearMatrix matrix = linear_matrix(launch.inputs[input_index]);
      matrix.y = y;
      library.enqueue(run, matrix, x, addend, scratch + weights_at_);
      return matrix;
    };
    const u32 tokens = static_cast<u32>(tokens_);
    run(convert_, {tokens},
        ConvertRowsArgs{.x = input<float>(launch, FeedForwardOptions::kX),
                        .norm = options_.norm ? input<float>(launch, options_.norm_at()) : nullptr,
                        .f16 = f16_at(x_at_),
                        .scales = floats_at(x_scales_at_),
                        .columns = static_cast<i32>(columns_),
                        .depth = static_cast<i32>(f16_depth(columns_)),
                        .epsilon = options_.epsilon});
    product(matrices_.gate, FeedForwardOptions::kGate, f16_at(x_at_), nullptr, floats_at(gate_at_));
    product(matrices_.up, FeedForwardOptions::kUp, f16_at(x_at_), nullptr, floats_at(up_at_));
    run(convert_gated_, {tokens},
        ConvertGatedArgs{.first = floats_at(gate_at_),
                         .second = floats_at(up_at_),
                         .scales_before = floats_at(x_scales_at_),
                         .f16 = f16_at(gated_at_),
                         .scales = floats_at(gated_scales_at_),
                         .columns = static_cast<i32>(hidden_),
                         .depth = static_cast<i32>(f16_depth(hidden_))});
    const float* residual = options_.residual ? input<float>(launch, options_.residual_at()) : nullptr;
    LinearFinishArgs finish = {.epilogue = options_.residual ? Epilogue::kAdd : Epilogue::kNone,
                               .residual = residual,
                               .scales = floats_at(gated_scales_at_)};
    finish.matrices[0] =
        product(matrices_.down, FeedForwardOptions::kDown, f16_at(gated_at_), residual, output<float>(launch, 0));
    run(finish_, {tokens, blocks_for(finish.matrices[0].rows, kFinishRows)}, finish);
  }

 private:
  FeedForwardOptions options_;
  Matrices matrices_;
  int64_t columns_, hidden_, tokens_;
  const api::Function *convert_, *convert_gated_, *finish_;
  int64_t x_at_, x_scales_at_, gate_at_, up_at_, gated_at_, gated_scales_at_, weights_at_;
};

std::optional<Matrices> matrices_of(const abi::KernelRequest& request, const std::string& library, int64_t tokens,
                                    const MakeContext& context) {
  const auto make = [&](int at) {
    const abi::TensorView& weight = request.inputs[at];
    return LibraryMatrix::make(library, weight, tokens, f16_depth(weight.shape[1]), context);
  };
  auto gate = make(FeedForwardOptions::kGate), up = make(FeedForwardOptions::kUp),
       down = make(FeedForwardOptions::kDown);
  if (!gate || !up || !down) return std::nullopt;
  return Matrices{std::move(*gate), std::move(*up), std::move(*down)};
}

}  // namespace

std::unique_ptr<Kernel> make_feed_forward(const abi::KernelRequest& request, const MakeContext& context) {
  FeedForwardOptions options;
  options.norm = integer_attribute(request, "norm", 0) != 0;
  options.residual = integer_attribute(request, "residual", 0) != 0;
  options.epsilon = static_cast<float>(real_attribute(request, "epsilon", 0));
  if (!has_operands(request, options.inputs(), 1)) return nullptr;
  const abi::TensorView *in = request.inputs, &x = in[0], &y = request.outputs[0];
  const abi::TensorView &gate = in[FeedForwardOptions::kGate], &up = in[FeedForwardOptions::kUp],
                        &down = in[FeedForwardOptions::kDown];
  if (!is_plain(x, DType::f32) || !is_contiguous(x) || x.rank < 1 || !is_plain(y, DType::f32) || !is_contiguous(y))
    return nullptr;
  const int64_t columns = x.shape[x.rank - 1], hidden = gate.rank == 2 ? gate.shape[0] : 0;
  if (columns < 1 || columns % 4 != 0 || hidden % 4 != 0) return nullptr;
  if (!is_weight(gate, columns) || !is_weight(up, columns) || up.shape[0] != hidden || !is_weight(down, hidden))
    return nullptr;
  const int64_t tokens = elements(x) / columns;
  if (elements(y) != tokens * down.shape[0]) return nullptr;
  if (options.norm && !has_shape(in[options.norm_at()], DType::f32, {columns})) return nullptr;
  if (options.residual) {
    const abi::TensorView& residual = in[options.residual_at()];
    if (!is_plain(residual, DType::f32) || !is_contiguous(residual) || elements(residual) != elements(y))
      return nullptr;
  }
  // While candidates of each product are measured, each product is a separate launch.
  if (context.tuning().active() || !context.trusts_libraries()) return nullptr;
  for (const abi::TensorView* weight : {&gate, &up, &down}) {
    if (!asks_library(*weight, tokens, context.chip()) || asks_batch(*weight, tokens, context)) return nullptr;
  }
  for (const std::string& library : context.libraries()) {
    if (auto matrices = matrices_of(request, library, tokens, context))
      return std::make_unique<FeedForward>(request, options, std::move(*matrices), library, context);
  }
  return nullptr;
}

}  // namespace gabbro::gpu
