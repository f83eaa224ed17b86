// `matmul`: in f32 by kernels of ours; of f32, f16 and bf16 by a vendor's library, which also computes `matmul_fused`,
// and `linear` of many tokens with x and weights of one dtype. In f16 and bf16 a convolution of one tap computes it
// too.
#include <fmt/format.h>

#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/conv_nhwc.h"
#include "backends/gpu/ops/library_matmul.h"
#include "backends/gpu/ops/strided.h"
#include "backends/gpu/ops/weights.h"
#include "backends/gpu/tuning/autotune.h"
#include "kernels/matmul/matmul.h"

namespace gabbro::gpu {
namespace {

// The rule for shapes without a measurement: below this a thread that computes 4x4 elements would leave most of its
// tile, or of the device, idle.
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

// Few vectors and a matrix.
class MatmulVec : public Kernel {
 public:
  // Whether one factor has few vectors, and the other a contiguous axis.
  static bool takes(const abi::KernelRequest& request) {
    const Roles roles = roles_of(request);
    return roles.count <= kMatmulVectors && (roles.step == 1 || roles.depth_step == 1);
  }

  MatmulVec(const abi::KernelRequest& request, const MakeContext& context) : roles_(roles_of(request)) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[roles_.matrix], request.outputs[0]),
                                       batch_axes(request.inputs[1 - roles_.matrix], request.outputs[0])};
    batches_ = axes_of(batches);
    along_ = roles_.depth_step == 1;
    implementation = along_ ? "matmul_vec_along" : "matmul_vec_across";
    function_ = context.function(implementation);
    const int64_t columns = 4 * int64_t{context.wave()}, tiles = (roles_.length + columns - 1) / columns;
    const int64_t blocks = tiles * batches_.total;
    if (along_) {
      grid_ = {blocks_for(roles_.length * batches_.total, api::block_threads(function_) / context.wave())};
    } else {
      constexpr int64_t kLeastDepth = 64;
      const int64_t enough =
          blocks > kCounters ? 1 : int64_t{api::resident_blocks(function_)} / std::max<int64_t>(blocks, 1);
      const auto splits = std::clamp<int64_t>(std::min(enough, roles_.depth / kLeastDepth), 1, kMaxSplits);
      grid_ = {static_cast<u32>(tiles), static_cast<u32>(splits), static_cast<u32>(batches_.total)};
      if (splits > 1) {
        scratch_bytes = static_cast<size_t>(batches_.total * splits * roles_.count * roles_.length) * sizeof(float);
      }
    }
    aligned_ = true;
    for (i32 axis = 0; axis < batches_.rank; ++axis) aligned_ = aligned_ && batches_.strides[0][axis] % 4 == 0;
    aligned_ = aligned_ && (along_ ? roles_.step : roles_.depth_step) % 4 == 0;
    const auto products = static_cast<double>(batches_.total);
    flops = 2 * products * static_cast<double>(roles_.count) * static_cast<double>(roles_.length * roles_.depth);
    bytes = 4 * products * static_cast<double>(roles_.length * roles_.depth);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const float* matrix = input<float>(launch, roles_.matrix);
    run(function_, grid_,
        MatmulVecArgs{.matrix = matrix,
                      .vectors = input<float>(launch, 1 - roles_.matrix),
                      .y = output<float>(launch, 0),
                      .partials = static_cast<float*>(launch.scratch),
                      .arrived = run.counters,
                      .length = roles_.length,
                      .depth = roles_.depth,
                      .matrix_step = along_ ? roles_.step : roles_.depth_step,
                      .vector_step = roles_.vector_step,
                      .vector_depth_step = roles_.vector_depth_step,
                      .y_step = roles_.matrix == 1 ? 1 : roles_.count,
                      .y_vector_step = roles_.matrix == 1 ? roles_.length : 1,
                      .count = static_cast<i32>(roles_.count),
                      .aligned = aligned_ && reinterpret_cast<uintptr_t>(matrix) % 16 == 0,
                      .batches = batches_});
  }

 private:
  static constexpr int64_t kMaxSplits = 32;

  // Role of each factor, and the layout of both. Steps are in elements.
  struct Roles {
    int matrix;           // index of the input that is the matrix; the other one has the vectors
    int64_t count;        // vectors
    int64_t length;       // of the result, for each vector
    int64_t depth;        // elements that are summed
    int64_t step;         // of the matrix along `length`
    int64_t depth_step;   // and along `depth`
    int64_t vector_step;  // from a vector to the next one
    int64_t vector_depth_step;
  };
  // The factor with fewer rows or columns has the vectors.
  static Roles roles_of(const abi::KernelRequest& request) {
    const abi::MatrixView a = last_axes(request.inputs[0]), b = last_axes(request.inputs[1]);
    if (a.rows <= b.columns) {
      return {.matrix = 1,
              .count = a.rows,
              .length = b.columns,
              .depth = a.columns,
              .step = b.column_stride,
              .depth_step = b.row_stride,
              .vector_step = a.row_stride,
              .vector_depth_step = a.column_stride};
    }
    return {.matrix = 0,
            .count = b.columns,
            .length = a.rows,
            .depth = a.columns,
            .step = a.row_stride,
            .depth_step = a.column_stride,
            .vector_step = b.column_stride,
            .vector_depth_step = b.row_stride};
  }

  Roles roles_;
  Axes batches_;
  Dim grid_;
  bool along_ = false, aligned_ = false;
  const api::Function* function_;
};

std::string shape_of(const char* op, DType dtype, int64_t batches, const abi::MatrixView& a, const abi::MatrixView& b) {
  return fmt::format("{} {} up to {} of {} x {} x {}", op, dtype_name(dtype), length_class(batches),
                     length_class(a.rows), length_class(a.columns), length_class(b.columns));
}

}  // namespace

std::unique_ptr<Kernel> make_matmul(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_matmul(request)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  const abi::MatrixView a = last_axes(request.inputs[0]), b = last_axes(request.inputs[1]);
  std::vector<Candidate> candidates;
  const auto add_ours = [&](std::string name, auto make) {
    if (dtype == DType::f32) candidates.push_back({.name = std::move(name), .ours = true, .make = make});
  };
  // Without a measurement, a library is asked before the kernels that multiply tiles.
  if (MatmulVec::takes(request)) add_ours("vectors", [&] { return std::make_unique<MatmulVec>(request, context); });
  LibraryMatmul matmul;
  if (read_library_matmul(request, matmul)) {
    for (const std::string& library : context.libraries()) {
      candidates.push_back(
          {.name = library,
           .ours = false,
           .make = [&matmul, library, &context] { return make_library_matmul("matmul", library, matmul, context); },
           .only_measured = !context.trusts_libraries()});
    }
  }
  const bool small = std::min(a.rows, b.columns) < kSmallSide;
  for (const int side : {small ? 1 : 4, small ? 4 : 1}) {
    add_ours(fmt::format("{0}x{0} a thread", side),
             [&, side] { return std::make_unique<Matmul>(request, side, context); });
  }
  const int64_t products = elements(request.outputs[0]) / std::max<int64_t>(a.rows * b.columns, 1);
  return autotune(shape_of("matmul", dtype, products, a, b), candidates, context);
}

std::unique_ptr<Kernel> make_matmul_fused(const abi::KernelRequest& request, const MakeContext& context) {
  abi::FusedMatmul fused;
  if (!read_matmul_fused(request, fused) || fused.activation < 0 || fused.activation > 3) return nullptr;
  // Weights that few tokens meet are read faster by the kernels of `linear`.
  if (fused.a.rows <= context.chip().small_batch_tokens) return nullptr;
  constexpr api::Activation kActivations[] = {api::Activation::kNone, api::Activation::kRelu,
                                              api::Activation::kGeluTanh, api::Activation::kSilu};
  const LibraryMatmul matmul = {.dtype = request.inputs[0].dtype,
                                .a = fused.a,
                                .b = fused.b,
                                .bias = fused.bias,
                                .activation = kActivations[fused.activation]};
  std::vector<Candidate> candidates;
  for (const std::string& library : context.libraries()) {
    candidates.push_back({.name = library,
                          .ours = false,
                          .make = [&, library] { return make_library_matmul(request.op, library, matmul, context); },
                          .only_measured = !context.trusts_libraries()});
  }
  candidates.push_back(
      {.name = "pixels", .ours = true, .make = [&] { return make_pixel_product(matmul.dtype, fused, context); }});
  return autotune(shape_of("matmul_fused", matmul.dtype, 1, fused.a, fused.b) +
                      fmt::format(", {} {}", fused.bias ? "bias" : "no bias", fused.activation),
                  candidates, context);
}

}  // namespace gabbro::gpu
