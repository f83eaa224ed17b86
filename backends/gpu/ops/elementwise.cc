// Elementwise ops, and `concat`, which moves elements in the same way.
#include <algorithm>
#include <string_view>
#include <vector>

#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"
#include "kernels/elementwise/op_list.h"

namespace gabbro::gpu {
namespace {

// The ops of each family.
#define GABBRO_APPLY(op, function) #op,
constexpr std::string_view kUnary[] = {GABBRO_UNARY_OPS(GABBRO_APPLY)};
constexpr std::string_view kArithmetic[] = {GABBRO_ARITHMETIC_OPS(GABBRO_APPLY)};
constexpr std::string_view kOfFloats[] = {GABBRO_OPS_OF_FLOATS(GABBRO_APPLY)};
constexpr std::string_view kOfIntegers[] = {GABBRO_OPS_OF_INTEGERS(GABBRO_APPLY)};
constexpr std::string_view kComparisons[] = {GABBRO_COMPARISON_OPS(GABBRO_APPLY)};
constexpr std::string_view kLogical[] = {GABBRO_LOGICAL_OPS(GABBRO_APPLY)};
#undef GABBRO_APPLY

// Whether the request is for an op of this family, with operands as elementwise ops have them.
bool is_of_family(std::span<const std::string_view> family, const abi::KernelRequest& request, int inputs) {
  return std::ranges::find(family, request.op) != family.end() && is_elementwise(request, inputs);
}

bool is_real(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

class Elementwise : public Kernel {
 public:
  // `takes_vectors`: the kernel reads ElementwiseArgs::vectors.
  Elementwise(const abi::KernelRequest& request, const std::string& kernel, const MakeContext& context,
              bool takes_vectors = false)
      : function_(context.function(kernel)),
        axes_(axes_of({request.inputs, static_cast<size_t>(request.input_count)})),
        vector_elements_(kVectorBytes / static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1))) {
    implementation = kernel;
    flops = static_cast<double>(axes_.total);
    auto element_bytes = static_cast<double>(dtype_bytes(request.outputs[0].dtype, 1));
    for (int i = 0; i < request.input_count; ++i) {
      element_bytes += static_cast<double>(dtype_bytes(request.inputs[i].dtype, 1));
    }
    bytes = flops * element_bytes;
    in_vectors_ = takes_vectors && has_whole_vectors(request);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    ElementwiseArgs args = {.out = output<void>(launch, 0), .vectors = in_vectors_, .axes = axes_};
    bool aligned = is_16_byte_aligned(args.out);
    for (int i = 0; i < launch.input_count; ++i) {
      args.in[i] = input<void>(launch, i);
      aligned = aligned && (axes_.strides[i][0] == 0 || is_16_byte_aligned(args.in[i]));
    }
    args.vectors = args.vectors != 0 && aligned;
    const auto elements_of_thread = static_cast<uint32_t>(args.vectors != 0 ? vector_elements_ : kPerThread);
    run(function_, flat_grid(axes_.total, kElementThreads, elements_of_thread), args);
  }

 private:
  // Whether rows are whole vectors. With two axes the kernel counts them in 32 bits.
  bool has_whole_vectors(const abi::KernelRequest& request) const {
    const bool one = axes_.rank == 1, two = axes_.rank == 2 && axes_.total <= 0xffffffff;
    bool vectors = is_real(request.outputs[0].dtype) && (one || two) && axes_.shape[0] % vector_elements_ == 0;
    for (int i = 0; i < request.input_count; ++i) {
      const i64* strides = axes_.strides[i];
      vectors = vectors && request.inputs[i].dtype == request.outputs[0].dtype &&
                (strides[0] == 0 || (strides[0] == 1 && (one || strides[1] % vector_elements_ == 0)));
    }
    return vectors;
  }

  const api::Function* function_;
  Axes axes_;
  int64_t vector_elements_;  // elements of a 16-byte vector
  bool in_vectors_ = false;  // if the operands are aligned
};

// Strided to contiguous; in 16-byte vectors where the innermost axis has whole ones, as when axes before it are
// permuted or repeated.
class Copy : public Kernel {
 public:
  Copy(const abi::KernelRequest& request, const MakeContext& context)
      : function_(context.function("copy_" + word_name(request.outputs[0].dtype))),
        axes_(axes_of({request.inputs, 1})),
        vector_axes_(axes_) {
    const int64_t size = static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1)), vector = kVectorBytes / size;
    const auto is_whole = [&](int64_t count) { return count % vector == 0; };
    i64* const strides = vector_axes_.strides[0];
    if (strides[0] == 1 && is_whole(axes_.shape[0]) && std::all_of(strides + 1, strides + axes_.rank, is_whole)) {
      vectors_ = context.function("copy_vec16");
      vector_axes_.total /= vector;
      vector_axes_.shape[0] /= vector;
      for (int axis = 1; axis < axes_.rank; ++axis) strides[axis] /= vector;
    }
    implementation = "copy_" + word_name(request.outputs[0].dtype);
    flops = static_cast<double>(axes_.total);
    bytes = 2 * flops * static_cast<double>(size);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    ElementwiseArgs args = {.out = output<void>(launch, 0), .vectors = 0, .axes = axes_};
    args.in[0] = input<void>(launch, 0);
    const bool vectors = vectors_ != nullptr && is_16_byte_aligned(args.in[0]) && is_16_byte_aligned(args.out);
    if (vectors) args.axes = vector_axes_;
    run(vectors ? vectors_ : function_, flat_grid(args.axes.total, kElementThreads, kPerThread), args);
  }

 private:
  const api::Function* function_;
  const api::Function* vectors_ = nullptr;
  Axes axes_, vector_axes_;  // the latter in vectors
};

class Concat : public Kernel {
 public:
  Concat(const abi::KernelRequest& request, int axis, const MakeContext& context)
      : function_(context.function("concat_" + word_name(request.outputs[0].dtype))),
        outer_(elements_from(request.outputs[0], axis)),
        vector_elements_(kVectorBytes / static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1))) {
    int64_t before = 0;
    bool vectors = outer_ % vector_elements_ == 0;
    for (int i = 0; i < request.input_count; ++i) {
      const int64_t inner = elements_from(request.inputs[i], axis);
      parts_.push_back({axes_of({&request.inputs[i], 1}), inner, before});
      before += inner;
      vectors = vectors && inner % vector_elements_ == 0 && abi::is_contiguous(request.inputs[i]);
    }
    if (vectors) vectors_ = context.function("concat_vec16");
    implementation = "concat";
    bytes = 2.0 * static_cast<double>(elements(request.outputs[0])) *
            static_cast<double>(dtype_bytes(request.outputs[0].dtype, 1));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      ConcatArgs args = {.in = input<void>(launch, static_cast<int>(i)),
                         .out = output<void>(launch, 0),
                         .inner = part.inner,
                         .outer = outer_,
                         .before = part.before,
                         .axes = part.axes};
      const bool vectors = vectors_ != nullptr && is_16_byte_aligned(args.in) && is_16_byte_aligned(args.out);
      if (vectors) {  // which are the elements then
        for (i64* count : {&args.inner, &args.outer, &args.before, &args.axes.total, &args.axes.shape[0]})
          *count /= vector_elements_;
      }
      run(vectors ? vectors_ : function_, flat_grid(args.axes.total, kElementThreads, kPerThread), args);
    }
  }

 private:
  struct Part {
    Axes axes;
    int64_t inner;
    int64_t before;
  };
  const api::Function* function_;
  const api::Function* vectors_ = nullptr;  // for contiguous, aligned parts of whole 16-byte vectors
  int64_t outer_;
  int64_t vector_elements_;  // elements of a 16-byte vector
  std::vector<Part> parts_;
};

bool is_whole(DType dtype) { return dtype >= DType::i8 && dtype <= DType::i64; }

// The kernel of the op for inputs of one dtype that gives `result`.
std::unique_ptr<Kernel> make_typed(const abi::KernelRequest& request, DType result, const MakeContext& context) {
  const DType dtype = request.inputs[0].dtype;
  for (int i = 1; i < request.input_count; ++i) {
    if (request.inputs[i].dtype != dtype) return nullptr;
  }
  if (request.outputs[0].dtype != result) return nullptr;
  return std::make_unique<Elementwise>(request, request.op + ("_" + std::string(dtype_name(dtype))), context,
                                       request.input_count <= 2);
}

}  // namespace

std::unique_ptr<Kernel> make_unary(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kUnary, request, 1) || !is_real(request.inputs[0].dtype)) return nullptr;
  return make_typed(request, request.inputs[0].dtype, context);
}

std::unique_ptr<Kernel> make_arithmetic(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kArithmetic, request, 2)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  return is_real(dtype) || is_whole(dtype) ? make_typed(request, dtype, context) : nullptr;
}

std::unique_ptr<Kernel> make_of_floats(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kOfFloats, request, 2) || !is_real(request.inputs[0].dtype)) return nullptr;
  return make_typed(request, request.inputs[0].dtype, context);
}

std::unique_ptr<Kernel> make_of_integers(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kOfIntegers, request, 2) || !is_whole(request.inputs[0].dtype)) return nullptr;
  return make_typed(request, request.inputs[0].dtype, context);
}

std::unique_ptr<Kernel> make_comparison(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kComparisons, request, 2)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  return is_real(dtype) || is_whole(dtype) ? make_typed(request, DType::boolean, context) : nullptr;
}

std::unique_ptr<Kernel> make_clamp(const abi::KernelRequest& request, const MakeContext& context) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_elementwise(request, 3) || (!is_real(dtype) && dtype != DType::i32)) return nullptr;
  return make_typed(request, dtype, context);
}

std::unique_ptr<Kernel> make_logical(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_of_family(kLogical, request, 2)) return nullptr;
  for (const abi::TensorView* view : {&request.inputs[0], &request.inputs[1], &request.outputs[0]}) {
    if (view->dtype != DType::boolean) return nullptr;
  }
  return std::make_unique<Elementwise>(request, request.op + std::string("_bool"), context);
}

std::unique_ptr<Kernel> make_where(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_elementwise(request, 3) || request.inputs[0].dtype != DType::boolean) return nullptr;
  const DType dtype = request.outputs[0].dtype;
  if (request.inputs[1].dtype != dtype || request.inputs[2].dtype != dtype) return nullptr;
  return std::make_unique<Elementwise>(request, "where_" + word_name(dtype), context);
}

std::unique_ptr<Kernel> make_copy(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_elementwise(request, 1) || request.inputs[0].dtype != request.outputs[0].dtype) return nullptr;
  return std::make_unique<Copy>(request, context);
}

std::unique_ptr<Kernel> make_cast(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_elementwise(request, 1) || is_quantized(request.outputs[0].dtype)) return nullptr;
  const std::string from(dtype_name(request.inputs[0].dtype)), to(dtype_name(request.outputs[0].dtype));
  return std::make_unique<Elementwise>(request, "cast_" + from + "_" + to, context);
}

std::unique_ptr<Kernel> make_concat(const abi::KernelRequest& request, const MakeContext& context) {
  int axis = 0;
  return is_concat(request, axis) ? std::make_unique<Concat>(request, axis, context) : nullptr;
}

}  // namespace gabbro::gpu
