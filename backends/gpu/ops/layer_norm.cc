// layer_norm, group_norm, batch_norm and moments; the first also behind a sum, batch_norm with an activation.
#include "backends/gpu/ops/layer_norm.h"

#include <algorithm>

#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"
#include "kernels/rows/layer_norm.h"
#include "src/base/round_up.h"

namespace gabbro::gpu {
namespace {

// A channel is split into slices of at least this many elements, at most enough for few channels to fill a large
// device.
constexpr int64_t kLeastSlice = 8192;
constexpr int64_t kMostNormSlices = 256;
// Columns that a block normalizes with known statistics, and bytes of a row that are worth a block.
constexpr i32 kKnownSlice = 8192;
constexpr int64_t kLeastRowBytes = 512;
// Longer rows, if there are at most kFewLongRows, are worth a separate pass for the statistics.
constexpr int64_t kLongRow = 16384;
constexpr int64_t kFewLongRows = 256;

// Two launches for the moments of [outer, channels, inner], or one where a block can do a channel.
class MomentsPart {
 public:
  MomentsPart(const abi::MomentsRequest& moments, const MakeContext& context)
      : moments_(moments),
        function_(context.function("moments_" + std::string(dtype_name(moments.dtype)))),
        join_(context.function("moments_join")),
        wave_(context.wave()) {
    const auto vector_elements = kVectorBytes / static_cast<int64_t>(dtype_bytes(moments.dtype, 1));
    in_vectors_ = moments.inner % vector_elements == 0;
    if (moments.outer == 1) row_kernel_ = row_kernel(moments.inner, moments.dtype, wave_, true);
    if (row_kernel_ != nullptr && moments.inner > 0) {
      in_registers_ = context.function("moments_" + std::string(dtype_name(moments.dtype)) + row_kernel_->suffix);
    }
    const int64_t count = moments.outer * moments.inner;
    const int64_t slices = std::clamp<int64_t>(count / kLeastSlice, 1, kMostNormSlices);
    slice_ = (count + slices - 1) / slices;
    if (in_vectors_) slice_ = round_up(slice_, vector_elements);
    slices_ = slice_ == 0 ? 1 : (count + slice_ - 1) / slice_;
  }

  size_t scratch_floats() const { return slices_ == 1 ? 0 : static_cast<size_t>(2 * moments_.channels * slices_); }

  void enqueue(const Launcher& run, const void* x, float* mean, float* variance, float* scratch) const {
    float* means = slices_ == 1 ? mean : scratch;
    float* squares = slices_ == 1 ? variance : scratch + moments_.channels * slices_;
    MomentsArgs args = {.x = x,
                        .mean = means,
                        .variance = squares,
                        .outer = static_cast<i32>(moments_.outer),
                        .channels = static_cast<i32>(moments_.channels),
                        .inner = static_cast<i32>(moments_.inner),
                        .slices = static_cast<i32>(slices_),
                        .slice = static_cast<i32>(slice_),
                        .vectors = in_vectors_ && is_16_byte_aligned(x)};
    // Few rows are better shared by many blocks.
    if (in_registers_ != nullptr && args.vectors != 0 && (slices_ == 1 || moments_.channels > kFewLongRows)) {
      args.mean = mean;
      args.variance = variance;
      return run(in_registers_, row_grid(*row_kernel_, moments_.channels, in_registers_, wave_), args);
    }
    run(function_, {static_cast<u32>(moments_.channels * slices_)}, args);
    if (slices_ == 1) return;
    run(join_, {blocks_for(moments_.channels, kElementThreads)},
        JoinMomentsArgs{.means = means,
                        .squares = squares,
                        .mean = mean,
                        .variance = variance,
                        .count = static_cast<i32>(moments_.outer * moments_.inner),
                        .channels = static_cast<i32>(moments_.channels),
                        .slices = static_cast<i32>(slices_),
                        .slice = static_cast<i32>(slice_)});
  }

 private:
  abi::MomentsRequest moments_;
  int64_t slices_ = 1;
  int64_t slice_ = 0;
  const api::Function* function_;
  const api::Function* join_;
  const api::Function* in_registers_ = nullptr;  // for aligned rows of whole 16-byte vectors
  const RowKernel* row_kernel_ = nullptr;
  uint32_t wave_;
  bool in_vectors_ = false;
};

class Moments : public Kernel {
 public:
  Moments(const abi::MomentsRequest& moments, const MakeContext& context) : part_(moments, context) {
    scratch_bytes = part_.scratch_floats() * sizeof(float);
    implementation = "moments " + std::string(dtype_name(moments.dtype));
    const auto values = static_cast<double>(moments.outer * moments.channels * moments.inner);
    bytes = values * static_cast<double>(dtype_bytes(moments.dtype, 1));
    flops = 4 * values;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    part_.enqueue(run, input<void>(launch, 0), output<float>(launch, 0), output<float>(launch, 1),
                  static_cast<float*>(launch.scratch));
  }

 private:
  MomentsPart part_;
};

class NormalizeBase : public Kernel {
 protected:
  NormalizeBase(const abi::KernelRequest& request, const abi::NormRequest& norm) : norm_(norm) {
    implementation = std::string(request.op) + " " + std::string(dtype_name(norm.dtype));
    const auto values = static_cast<double>(norm.rows * norm.columns);
    bytes = 2 * values * static_cast<double>(dtype_bytes(norm.dtype, 1));
    flops = 6 * values;
  }

  NormalizeArgs args(const abi::Launch& launch) const {
    return {.x = input<void>(launch, 0),
            .y = output<void>(launch, 0),
            .weight = norm_.weight_at < 0 ? nullptr : input<void>(launch, norm_.weight_at),
            .bias = norm_.bias_at < 0 ? nullptr : input<void>(launch, norm_.bias_at),
            .columns = static_cast<i32>(norm_.columns),
            .groups = static_cast<i32>(norm_.groups),
            .spatial = static_cast<i32>(norm_.spatial),
            .epsilon = norm_.epsilon,
            .half_parameters = norm_.half_parameters,
            .centered = norm_.centered,
            .rows = norm_.rows,
            .addend = norm_.addend_at < 0 ? nullptr : input<void>(launch, norm_.addend_at),
            .sum = norm_.addend_at < 0 ? nullptr : output<void>(launch, 1),
            .activation = static_cast<NormActivation>(norm_.activation)};
  }

  void normalize(const abi::Launch& launch, const Launcher& run, const api::Function* known, const float* mean,
                 const float* variance, int64_t statistics) const {
    const int64_t total = norm_.rows * norm_.columns;
    run(known, flat_grid(total, kElementThreads, kPerThread),
        KnownArgs{.norm = args(launch), .mean = mean, .variance = variance, .total = total, .statistics = statistics});
  }

  abi::NormRequest norm_;
};

class NormalizeRows : public NormalizeBase {
 public:
  NormalizeRows(const abi::KernelRequest& request, const abi::NormRequest& norm, const MakeContext& context)
      : NormalizeBase(request, norm), wave_(context.wave()) {
    const std::string name = "normalize_rows_" + std::string(dtype_name(norm.dtype));
    function_ = context.function(name);
    const int64_t vector_elements = kVectorBytes / static_cast<int64_t>(dtype_bytes(norm.dtype, 1));
    if (norm.spatial == 1 || norm.spatial % vector_elements == 0)
      row_kernel_ = row_kernel(norm.columns, norm.dtype, wave_, true);
    if (row_kernel_ == nullptr) return;
    const api::Function* const long_wave = context.function(name + kLongWave.suffix);
    if (fits(kLongWave, api::block_threads(long_wave) / wave_ * context.compute_units())) row_kernel_ = &kLongWave;
    in_registers_ = row_kernel_ == &kLongWave ? long_wave : context.function(name + row_kernel_->suffix);
    implementation += row_kernel_->suffix;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const NormalizeArgs own = args(launch);
    bool aligned = row_kernel_ != nullptr;
    for (const void* row :
         {own.x, own.addend, own.weight, own.bias, static_cast<const void*>(own.y), static_cast<const void*>(own.sum)})
      aligned = aligned && is_16_byte_aligned(row);
    if (aligned) return run(in_registers_, row_grid(*row_kernel_, norm_.rows, in_registers_, wave_), own);
    run(function_, flat_blocks(norm_.rows, api::block_threads(function_)), own);
  }

 private:
  // Sums of a wave need no barrier. There have to be rows for a block of waves on each multiprocessor.
  static constexpr RowKernel kLongWave = {"_long_wave", int64_t{32} * 8, true};
  bool fits(const RowKernel& wave, int64_t rows) const {
    const auto row_bytes = static_cast<int64_t>(dtype_bytes(norm_.dtype, static_cast<size_t>(norm_.columns)));
    return !row_kernel_->wave && row_bytes <= wave.vectors * kVectorBytes && norm_.rows >= rows;
  }

  const api::Function* function_;
  const api::Function* in_registers_ = nullptr;  // for aligned rows of whole 16-byte vectors
  const RowKernel* row_kernel_ = nullptr;
  uint32_t wave_;
};

// Statistics first, then all elements.
class NormalizeLongRows : public NormalizeBase {
 public:
  NormalizeLongRows(const abi::KernelRequest& request, const abi::NormRequest& norm, const MakeContext& context)
      : NormalizeBase(request, norm),
        moments_({.outer = 1, .channels = norm.rows, .inner = norm.columns, .dtype = norm.dtype}, context),
        known_(context.function("normalize_known_" + std::string(dtype_name(norm.dtype)))) {
    scratch_bytes = (2 * static_cast<size_t>(norm.rows) + moments_.scratch_floats()) * sizeof(float);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    float* mean = static_cast<float*>(launch.scratch);
    float* variance = mean + norm_.rows;
    moments_.enqueue(run, input<void>(launch, 0), mean, variance, variance + norm_.rows);
    normalize(launch, run, known_, mean, variance, norm_.rows);
  }

 private:
  MomentsPart moments_;
  const api::Function* known_;
};

class BatchNorm : public NormalizeBase {
 public:
  BatchNorm(const abi::KernelRequest& request, const abi::NormRequest& norm, const MakeContext& context)
      : NormalizeBase(request, norm),
        known_(context.function("normalize_known_" + std::string(dtype_name(norm.dtype)))),
        known_rows_(context.function("normalize_known_rows_" + std::string(dtype_name(norm.dtype)))) {}

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const auto row_bytes = static_cast<int64_t>(dtype_bytes(norm_.dtype, static_cast<size_t>(norm_.columns)));
    if (row_bytes % kVectorBytes == 0 && row_bytes >= kLeastRowBytes && is_16_byte_aligned(launch.inputs[0].data) &&
        is_16_byte_aligned(launch.outputs[0].data)) {
      Dim grid = flat_blocks(norm_.rows, api::block_threads(known_rows_));
      grid.y = blocks_for(norm_.columns, kKnownSlice);
      return run(known_rows_, grid,
                 KnownRowsArgs{.norm = args(launch),
                               .mean = input<float>(launch, 1),
                               .variance = input<float>(launch, 2),
                               .statistics = static_cast<i32>(norm_.groups),
                               .slice = kKnownSlice});
    }
    normalize(launch, run, known_, input<float>(launch, 1), input<float>(launch, 2), norm_.groups);
  }

 private:
  const api::Function* known_;
  const api::Function* known_rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_normalized_rows(const abi::KernelRequest& request, const abi::NormRequest& norm,
                                             const MakeContext& context) {
  if (norm.columns > kLongRow && norm.rows <= kFewLongRows && norm.centered && norm.addend_at < 0)
    return std::make_unique<NormalizeLongRows>(request, norm, context);
  return std::make_unique<NormalizeRows>(request, norm, context);
}

std::unique_ptr<Kernel> make_layer_norm(const abi::KernelRequest& request, const MakeContext& context) {
  abi::NormRequest norm;
  return read_layer_norm(request, norm) ? make_normalized_rows(request, norm, context) : nullptr;
}

std::unique_ptr<Kernel> make_add_norm(const abi::KernelRequest& request, const MakeContext& context) {
  abi::NormRequest norm;
  return read_add_norm(request, norm) ? make_normalized_rows(request, norm, context) : nullptr;
}

std::unique_ptr<Kernel> make_group_norm(const abi::KernelRequest& request, const MakeContext& context) {
  abi::NormRequest norm;
  return read_group_norm(request, norm) ? make_normalized_rows(request, norm, context) : nullptr;
}

std::unique_ptr<Kernel> make_batch_norm(const abi::KernelRequest& request, const MakeContext& context) {
  abi::NormRequest norm;
  return read_batch_norm(request, norm) ? std::make_unique<BatchNorm>(request, norm, context) : nullptr;
}

std::unique_ptr<Kernel> make_moments(const abi::KernelRequest& request, const MakeContext& context) {
  abi::MomentsRequest moments;
  return read_moments(request, moments) ? std::make_unique<Moments>(moments, context) : nullptr;
}

}  // namespace gabbro::gpu
