// elementwise: ops that use each other's results, by a kernel that is written for them and compiled on this machine.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/common/elementwise_steps.h"
#include "backends/gpu/code_cache.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/strided.h"
#include "kernels/elementwise/fused_elementwise.h"
#include "kernels/elementwise/op_list.h"

namespace gabbro::gpu {
namespace {

static_assert(kFusedInputs == abi::kMaxElementwiseInputs && kFusedOutputs == abi::kMaxElementwiseOutputs);
static_assert(kFusedConstants == abi::kMaxElementwiseConstants);
static_assert(kFusedAxes == abi::kMaxRank && kFusedInputs <= abi::kMaxStridedInputs);

constexpr int64_t kFusedPackBytes = 16;  // that a thread moves at once

// As kernels/ spells a type.
const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::f16:
      return "Half";
    case DType::bf16:
      return "BFloat";
    case DType::i8:
      return "i8";
    case DType::i16:
      return "i16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    default:
      return "u8";  // and bool
  }
}

// Functions of kernels/elementwise/elementwise.h: {"floor_divide", "FloorDivide"}.
#define GABBRO_APPLY(op, function) {#op, #function},
constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
    GABBRO_UNARY_OPS(GABBRO_APPLY) GABBRO_ARITHMETIC_OPS(GABBRO_APPLY) GABBRO_OPS_OF_FLOATS(GABBRO_APPLY)
        GABBRO_OPS_OF_INTEGERS(GABBRO_APPLY) GABBRO_COMPARISON_OPS(GABBRO_APPLY) GABBRO_LOGICAL_OPS(GABBRO_APPLY)};
#undef GABBRO_APPLY

std::string_view function_name(std::string_view op) {
  const auto* found = std::ranges::find(kFunctions, op, [](const auto& function) { return function.first; });
  return found == std::end(kFunctions) ? std::string_view() : found->second;
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The C++ expression of a step on the elements of its operands.
std::string expression(const abi::ElementwiseStep& step, const std::vector<DType>& operands) {
  const auto value = [&](size_t i) { return fmt::format("v{}", step.operands[i]); };
  if (step.op == "cast") {
    const auto converted_type = [](DType dtype) { return dtype == DType::boolean ? "Boolean" : type_name(dtype); };
    const std::string from = operands[0] == DType::boolean ? fmt::format("Boolean{{{}}}", value(0)) : value(0);
    const std::string call = fmt::format("converted<{}>({})", converted_type(step.dtype), from);
    return step.dtype == DType::boolean ? call + ".value" : call;
  }
  if (step.op == "where") return fmt::format("{} != 0 ? {} : {}", value(0), value(1), value(2));
  std::vector<std::string> values;  // f16 and bf16 are computed in f32, and rounded
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(is_half(operands[i]) ? fmt::format("to_float({})", value(i)) : value(i));
  const std::string computed =
      step.op == "clamp" ? fmt::format("Minimum::of(Maximum::of({}, {}), {})", values[0], values[1], values[2])
                         : fmt::format("{}::of({})", function_name(step.op), fmt::join(values, ", "));
  return is_half(step.dtype) ? fmt::format("converted<{}>({})", type_name(step.dtype), computed) : computed;
}

// Whether there is a kernel of the op alone, so a function in kernels/elementwise/elementwise.h for these types.
bool is_known(const abi::ElementwiseStep& step, const std::vector<DType>& operands, const MakeContext& context) {
  const abi::StepRequest request(step.op.c_str(), operands, step.dtype, 1);
  return std::ranges::any_of(kernel_table(), [&](const KernelEntry& entry) {
    return entry.has(step.op) && entry.make(request, context) != nullptr;
  });
}

// Elements of a pack.
int pack_count(const abi::KernelRequest& request) {
  int64_t widest = 1;
  for (int i = 0; i < request.input_count; ++i)
    widest = std::max(widest, static_cast<int64_t>(dtype_bytes(request.inputs[i].dtype, 1)));
  for (int i = 0; i < request.output_count; ++i)
    widest = std::max(widest, static_cast<int64_t>(dtype_bytes(request.outputs[i].dtype, 1)));
  return static_cast<int>(std::min<int64_t>(kFusedPackBytes / widest, 8));
}

// Layouts of a request's inputs for a thread that moves `count` elements.
struct Layouts {
  std::vector<FusedLayout> of;
  abi::StridedAxes axes;
};

Layouts lay_out(const abi::KernelRequest& request, int count) {
  Layouts layouts{.axes = abi::merge_axes({request.inputs, static_cast<size_t>(request.input_count)})};
  const bool whole = layouts.axes.shape[0] % count == 0;  // else a thread's elements are in two rows
  for (int i = 0; i < request.input_count; ++i) {
    const abi::TensorView& view = request.inputs[i];
    const auto& strides = layouts.axes.strides[static_cast<size_t>(i)];
    const auto is_whole = [&](int64_t stride) { return stride % count == 0; };
    FusedLayout layout = FusedLayout::kStrided;
    if (abi::is_contiguous(view)) {
      layout = FusedLayout::kAsOutput;
    } else if (abi::own_elements(view) == 1) {
      layout = FusedLayout::kNumber;
    } else if (whole && strides[0] == 0) {
      layout = FusedLayout::kRepeated;
    } else if (whole && strides[0] == 1 && std::all_of(strides.begin() + 1, strides.end(), is_whole)) {
      layout = FusedLayout::kPacks;
    }
    layouts.of.push_back(layout);
  }
  return layouts;
}

const char* layout_name(FusedLayout layout) {
  switch (layout) {
    case FusedLayout::kAsOutput:
      return "kAsOutput";
    case FusedLayout::kNumber:
      return "kNumber";
    case FusedLayout::kPacks:
      return "kPacks";
    case FusedLayout::kRepeated:
      return "kRepeated";
    case FusedLayout::kStrided:
      break;
  }
  return "kStrided";
}

// The functions of the kernels: the same for all requests of the same steps, types and layouts. Empty where an op has
// no function.
std::string steps_text(const abi::KernelRequest& request, const abi::ElementwiseSteps& read, const Layouts& layouts,
                       const MakeContext& context) {
  std::string reads, body, writes;
  for (int i = 0; i < request.input_count; ++i) {
    const char* type = type_name(request.inputs[i].dtype);
    reads += fmt::format("    const Pack<{0}, count> p{1} = fused_read<{0}, count, FusedLayout::{2}>(a, {1}, first);\n",
                         type, i, layout_name(layouts.of[static_cast<size_t>(i)]));
    body += fmt::format("      const {} v{} = p{}.element[i];\n", type, i, i);
  }
  int number = request.input_count, constants = 0;
  for (const abi::ElementwiseStep& step : read.steps) {
    if (step.dtype == DType::f64) return {};  // the CPU alone computes it
    if (step.is_constant()) {
      reads += fmt::format("    const {0} v{1} = fused_constant<{0}>(a, {2});\n", type_name(step.dtype), number++,
                           constants++);
      continue;
    }
    std::vector<DType> operands;
    for (const int operand : step.operands) operands.push_back(read.dtype_of(request, operand));
    if (!is_known(step, operands, context)) return {};
    body += fmt::format("      const {} v{} = {};\n", type_name(step.dtype), number++, expression(step, operands));
  }
  for (int i = 0; i < request.output_count; ++i) {
    const char* type = type_name(request.outputs[i].dtype);
    reads += fmt::format("    Pack<{}, count> r{};\n", type, i);
    body += fmt::format("      r{}.element[i] = v{};\n", i, read.results[static_cast<size_t>(i)]);
    writes += fmt::format("    fused_write<{}, count>(a, {}, first, r{});\n", type, i, i);
  }
  return fmt::format(R"(#include "kernels/elementwise/fused_access.h"

namespace gabbro::gpu::GABBRO_GPU {{

struct Steps {{
  template <int count>
  GPU_FUNCTION static void run(const FusedElementwiseArgs& a, i64 first) {{
{}#pragma unroll
    for (int i = 0; i < count; ++i) {{
{}    }}
{}  }}
}};

}}  // namespace gabbro::gpu::GABBRO_GPU
)",
                     reads, body, writes);
}

// A name for what the text does.
std::string name_of(std::string_view text) { return fmt::format("elementwise_{:016x}", fnv1a(text)); }

std::string kernel_text(const std::string& name, int count) {
  return fmt::format(
      "GPU_KERNEL({}, {}, gabbro::gpu::FusedElementwiseArgs, fused_elementwise<gabbro::gpu::GABBRO_GPU::Steps, {}>)\n",
      name, kElementThreads, count);
}

class FusedElementwise : public Kernel {
 public:
  FusedElementwise(const abi::KernelRequest& request, const abi::ElementwiseSteps& read, const api::Function* function,
                   const api::Function* one_by_one, const Layouts& layouts, int count)
      : function_(function), one_by_one_(one_by_one), count_(count) {
    args_.total = abi::elements(request.outputs[0]);
    args_.rank = layouts.axes.rank;
    std::ranges::copy(layouts.axes.shape, args_.shape);
    for (int i = 0; i < request.input_count; ++i) {
      const abi::TensorView& view = request.inputs[i];
      const FusedLayout layout = layouts.of[static_cast<size_t>(i)];
      const auto element = static_cast<int64_t>(dtype_bytes(view.dtype, 1));
      bytes += static_cast<double>(abi::own_elements(view) * element);
      const bool packs = layout == FusedLayout::kAsOutput || layout == FusedLayout::kPacks;
      input_aligned_.push_back(packs ? count * element : element);
      std::ranges::copy(layouts.axes.strides[static_cast<size_t>(i)], args_.strides[i]);
    }
    for (int i = 0; i < request.output_count; ++i) {
      const auto element = static_cast<int64_t>(dtype_bytes(request.outputs[i].dtype, 1));
      bytes += static_cast<double>(args_.total * element);
      aligned_.push_back(count * element);
    }
    flops = static_cast<double>(args_.total) * static_cast<double>(read.steps.size());
    implementation = "elementwise";
    int constants = 0;
    for (const abi::ElementwiseStep& step : read.steps) {
      if (step.is_constant())
        args_.constants[constants++] = step.constant_bits();
      else
        implementation += " " + step.op;
    }
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    FusedElementwiseArgs args = args_;
    bool aligned = true;
    for (int i = 0; i < launch.input_count; ++i) {
      args.in[i] = launch.inputs[i].data;
      aligned &= is_multiple(args.in[i], input_aligned_[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < launch.output_count; ++i) {
      args.out[i] = launch.outputs[i].data;
      aligned &= is_multiple(args.out[i], aligned_[static_cast<size_t>(i)]);
    }
    const int count = aligned ? count_ : 1;
    run(aligned ? function_ : one_by_one_, flat_grid(args.total, kElementThreads, static_cast<uint32_t>(count)), args);
  }

 private:
  static bool is_multiple(const void* pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  }

  const api::Function* function_;
  const api::Function* one_by_one_;
  int count_;
  FusedElementwiseArgs args_{};
  std::vector<int64_t> input_aligned_, aligned_;  // bytes that an operand's address is a multiple of
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const abi::KernelRequest& request, const MakeContext& context) {
  const auto read = abi::read_elementwise(request);
  if (!read || !context.can_compile()) return nullptr;
  const int count = pack_count(request);
  const Layouts layouts = lay_out(request, count);
  const std::string text = steps_text(request, *read, layouts, context);
  if (text.empty()) return nullptr;
  const std::string name = name_of(text), single = name + "_single";
  const std::string source = text + kernel_text(name, count) + kernel_text(single, 1);
  const api::Function* function = context.compiled(name, source);
  const api::Function* one_by_one = context.compiled(single, source);
  if (function == nullptr || one_by_one == nullptr) return nullptr;
  return std::make_unique<FusedElementwise>(request, *read, function, one_by_one, layouts, count);
}

}  // namespace gabbro::gpu
