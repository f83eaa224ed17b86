// `linear` and `linear_fused` (docs/fused_ops.md): activations are brought into the form that the weights' kernels read
// (normalised, and rounded to 8 bits for block formats), which the kernels for one token do themselves; then matrices
// of one format share a launch.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/common/linear_request.h"
#include "backends/common/request.h"
#include "backends/gpu/op_table.h"
#include "backends/gpu/pack.h"
#include "kernels/linear.h"
#include "kernels/norm.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kAlignment = 256;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Linear : public Kernel {
 public:
  // The request's operands are checked (below).
  Linear(const abi::KernelRequest& request, const abi::LinearOptions& options, const MakeContext& context)
      : options_(options), columns_(request.inputs[1].shape[1]), tokens_(elements(request.inputs[0]) / columns_) {
    const bool paired = options.epilogue == abi::Epilogue::kSiluMul;
    wave_ = context.wave();
    while (width_ < 8 && width_ < tokens_) width_ *= 2;
    for (int m = 0; m < options.count; ++m) alone_ = alone_ && takes_one(request.inputs[1 + m]);
    if (!alone_) width_ = std::max(width_, 2);
    bool quantised = false, plain = false;
    for (int m = 0; m < options.count; ++m) {
      const abi::TensorView& weight = request.inputs[1 + m];
      (is_quantised(weight.dtype) ? quantised : plain) = true;
      Group* last = groups_.empty() ? nullptr : &groups_.back();
      const std::string name = kernel_name(weight);
      if (last == nullptr || last->name != name || last->count == kMaxMatrices) {
        groups_.push_back({.name = name,
                           .function = context.function(name),
                           .first = m,
                           .keeps_row = alone_ && is_quantised(weight.dtype)});
        last = &groups_.back();
      }
      ++last->count;
      if (!paired) last->waves += waves_of(weight.shape[0]);
      if (paired && m == 0) last->waves = alone_ ? static_cast<i32>(weight.shape[0]) : waves_of(weight.shape[0]);
      const auto rows = static_cast<double>(weight.shape[0]);
      bytes += rows * weight_row_bytes(weight) + static_cast<double>(tokens_) * rows * 4;
      flops += 2 * static_cast<double>(tokens_) * rows * static_cast<double>(columns_);
    }
    if (quantised && !alone_) quantise_ = context.function("quantise_rows");
    if (plain && options.norm && !alone_) normalise_ = context.function("rms_norm");
    const int64_t values = tokens_ * columns_;
    if (quantise_ != nullptr) {
      scales_at_ = aligned(values);
      sums_at_ = scales_at_ + aligned(values / 8);
      normalised_at_ = sums_at_ + aligned(values / 4);
    }
    scratch_bytes = static_cast<size_t>(normalised_at_ + (normalise_ != nullptr ? aligned(values * 4) : 0));
    implementation = std::string(request.op) + " " + groups_.front().name;
  }

  // Matrices whose epilogue joins them must be of one kernel.
  bool takes_epilogue() const { return options_.epilogue != abi::Epilogue::kSiluMul || groups_.size() == 1; }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const float* norm = options_.norm ? input<float>(launch, options_.norm_at()) : nullptr;
    LinearArgs args = {.columns = static_cast<i32>(columns_),
                       .tokens = static_cast<i32>(tokens_),
                       .epilogue = static_cast<Epilogue>(options_.epilogue),
                       .x = input<float>(launch, 0),
                       .norm = norm,
                       .epsilon = options_.epsilon};
    if (options_.epilogue == abi::Epilogue::kAdd) args.residual = input<float>(launch, options_.residual_at());
    const Dim rows = {static_cast<u32>(tokens_), slices_of(tokens_, columns_)};
    const i32 slice = slice_of(tokens_, columns_);
    if (quantise_ != nullptr) {
      const QuantiseRowsArgs quantise = {.x = input<float>(launch, 0),
                                         .norm = norm,
                                         .codes = reinterpret_cast<i8*>(scratch),
                                         .scales = reinterpret_cast<float*>(scratch + scales_at_),
                                         .sums = reinterpret_cast<i32*>(scratch + sums_at_),
                                         .columns = args.columns,
                                         .slice = slice,
                                         .epsilon = options_.epsilon};
      run(quantise_, rows, quantise);
      args.codes = quantise.codes;
      args.scales = quantise.scales;
      args.sums = quantise.sums;
    }
    if (normalise_ != nullptr) {
      auto* normalised = reinterpret_cast<float*>(scratch + normalised_at_);
      run(normalise_, rows, RowsArgs{input<float>(launch, 0), norm, normalised, args.columns, slice, options_.epsilon});
      args.x = normalised;
    }
    for (const Group& group : groups_) {
      args.count = group.count;
      args.waves = group.waves;
      for (int i = 0; i < group.count; ++i) args.matrices[i] = matrix(launch, group.first + i);
      u32 blocks = blocks_for(group.waves, api::block_threads(group.function) / wave_);
      if (group.keeps_row) blocks = std::min(blocks, api::resident_blocks(group.function));
      run(group.function, {blocks, blocks_for(tokens_, static_cast<u32>(width_))}, args);
    }
  }

 private:
  struct Group {
    std::string name;
    const api::Function* function;
    int first;
    int count = 0;
    i32 waves = 0;
    bool keeps_row = false;  // a block prepares x once for all that it does
  };

  static bool in_quads(const abi::TensorView& weight) {
    const int64_t step = weight.strides[0] * dtype_info(weight.dtype).block_bytes;
    return weight.strides[1] == 1 && step % 16 == 0 && weight.shape[1] * dtype_info(weight.dtype).block_bytes % 16 == 0;
  }

  // Whether the kernel for one token takes the matrix.
  bool takes_one(const abi::TensorView& weight) const {
    return tokens_ == 1 && (is_quantised(weight.dtype) ? columns_ <= kMaxOneColumns : in_quads(weight));
  }

  double weight_row_bytes(const abi::TensorView& weight) const {
    return static_cast<double>(columns_) * dtype_info(weight.dtype).block_bytes /
           dtype_info(weight.dtype).block_elements;
  }

  std::string kernel_name(const abi::TensorView& weight) const {
    const std::string name = "linear_" + std::string(dtype_name(weight.dtype)) + "_" + std::to_string(width_);
    return is_quantised(weight.dtype) || in_quads(weight) ? name : name + "_any";
  }

  LinearMatrix matrix(const abi::Launch& launch, int m) const {
    const abi::TensorView& weight = launch.inputs[1 + m];
    LinearMatrix result = is_quantised(weight.dtype)
                              ? packed_matrix(weight.dtype, weight.shape[0], columns_, weight.data)
                              : LinearMatrix{.low = static_cast<const u8*>(weight.data),
                                             .rows = static_cast<i32>(weight.shape[0]),
                                             .row_step = weight.strides[0] * dtype_info(weight.dtype).block_bytes};
    if (options_.bias) result.bias = input<float>(launch, options_.bias_at(m));
    if (m < launch.output_count) result.y = output<float>(launch, m);
    return result;
  }

  abi::LinearOptions options_;
  int64_t columns_;
  int64_t tokens_;
  bool alone_ = true;  // one token, whose kernels prepare it themselves
  int width_ = 1;      // tokens that a wave handles together
  u32 wave_ = 32;
  std::vector<Group> groups_;
  const api::Function* quantise_ = nullptr;
  const api::Function* normalise_ = nullptr;
  int64_t scales_at_ = 0, sums_at_ = 0, normalised_at_ = 0;
};

bool is_weight(const abi::TensorView& view, int64_t columns) {
  if (view.rank != 2 || view.shape[0] < 1 || view.shape[1] != columns) return false;
  if (is_quantised(view.dtype)) return view.layout == abi::Layout::kPacked;
  if (view.layout != abi::Layout::kStrided || view.strides[1] != 1) return false;
  return view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16;
}

}  // namespace

std::unique_ptr<Kernel> make_linear(const abi::KernelRequest& request, const MakeContext& context) {
  const auto options = abi::read_linear_request(request, is_weight);
  if (!options) return nullptr;
  auto kernel = std::make_unique<Linear>(request, *options, context);
  return kernel->takes_epilogue() ? std::move(kernel) : nullptr;
}

}  // namespace gabbro::gpu
