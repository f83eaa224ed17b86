// elementwise: several elementwise ops that use each other's results, a piece of the elements at a time. Results that a
// step hands on stay in a buffer of the worker's that its caches hold.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/common/elementwise_steps.h"
#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kPiece =
    256;  // elements, 1 KB of f32: all buffers, inputs and outputs of a piece fit in the L1 cache
constexpr int kMaxBuffers = 12;

// The kernel of one op on contiguous pieces; null: no kernel that goes row by row.
std::unique_ptr<Elementwise> make_step(const char* op, const std::vector<DType>& inputs, DType output,
                                       const MakeContext& context) {
  std::unique_ptr<Kernel> kernel = make_kernel(abi::StepRequest(op, inputs, output, kPiece), context);
  auto* elementwise = dynamic_cast<Elementwise*>(kernel.get());
  if (elementwise == nullptr) return nullptr;
  kernel.release();  // NOLINT(bugprone-unused-return-value): it is the same object
  return std::unique_ptr<Elementwise>(elementwise);
}

// Location of a value (an input or a step) while a piece is computed.
struct Place {
  enum class Kind { kBuffer, kInput, kOutput, kConstant } kind = Kind::kBuffer;
  int index = 0;
  bool one = false;  // for all elements, and computed once a piece
};

struct Step {
  std::unique_ptr<Elementwise> kernel;
  std::vector<int> operands;
  int result;
};

// Source of a piece of an input: read in place, with a stride, or from a buffer into which it is gathered.
struct Source {
  StridedWalk walk;
  std::unique_ptr<Elementwise> gather;  // null: read in place
  int64_t bytes = 0;                    // of an element
};

class FusedElementwise : public Kernel {
 public:
  // False where a step has no kernel, or the pieces need too many buffers.
  bool make(const abi::KernelRequest& request, const abi::ElementwiseSteps& steps, const MakeContext& context) {
    for (int i = 0; i < request.input_count; ++i) add_source(request.inputs[i], context);
    total_ = sources_[0].walk.total();
    places_.resize(sources_.size() + steps.steps.size());
    for (size_t i = 0; i < sources_.size(); ++i)
      places_[i].one = sources_[i].gather == nullptr && sources_[i].walk.row_stride(0) == 0 && total_ > 1;
    for (int number = request.input_count; const abi::ElementwiseStep& step : steps.steps) {
      if (step.is_constant()) {
        places_[static_cast<size_t>(number++)] = {Place::Kind::kConstant, static_cast<int>(constants_.size()), true};
        constants_.push_back(step.constant_bits());
        continue;
      }
      std::vector<DType> inputs;
      for (const int operand : step.operands) inputs.push_back(steps.dtype_of(request, operand));
      Step made{make_step(step.op.c_str(), inputs, step.dtype, context), step.operands, number++};
      if (made.kernel == nullptr) return false;
      places_[static_cast<size_t>(made.result)].one =
          std::ranges::all_of(made.operands, [&](int operand) { return places_[static_cast<size_t>(operand)].one; });
      steps_.push_back(std::move(made));
    }
    for (int i = 0; i < request.output_count; ++i) {
      output_bytes_.push_back(static_cast<int64_t>(dtype_bytes(request.outputs[i].dtype, 1)));
      bytes += static_cast<double>(total_ * output_bytes_.back());
    }
    flops = static_cast<double>(total_) * static_cast<double>(steps_.size());
    implementation = "elementwise";
    for (const abi::ElementwiseStep& step : steps.steps) {
      if (!step.is_constant()) implementation += " " + step.op;
    }
    return place(request, steps);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    worker.parallel_for(total_, kElementGrain, [&](int64_t begin, int64_t end) {
      alignas(64) std::byte buffers[kMaxBuffers][kPiece * 8];
      for (; begin < end; begin += kPiece) compute(launch, begin, std::min(kPiece, end - begin), buffers);
    });
  }

 private:
  using Buffers = std::byte (*)[kPiece * 8];

  void add_source(const abi::TensorView& view, const MakeContext& context) {
    Source source{.walk = StridedWalk({&view, 1}), .gather = nullptr, .bytes = 0};
    source.bytes = static_cast<int64_t>(dtype_bytes(view.dtype, 1));
    if (!source.walk.is_row()) source.gather = make_step("copy", {view.dtype}, view.dtype, context);
    bytes += static_cast<double>(own_elements(view) * source.bytes);
    sources_.push_back(std::move(source));
  }

  // Outputs are computed where they go, all else in buffers that are free again after the last step that reads them.
  bool place(const abi::KernelRequest& request, const abi::ElementwiseSteps& steps) {
    std::vector<int> last(places_.size(), -1);
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const int operand : steps_[i].operands) last[static_cast<size_t>(operand)] = static_cast<int>(i);
    }
    for (size_t i = 0; i < steps.results.size(); ++i) {
      // An input, or what is an output already, would have to be copied: the graph has no such instruction.
      Place& place = places_[static_cast<size_t>(steps.results[i])];
      if (steps.results[i] < request.input_count || place.kind != Place::Kind::kBuffer) return false;
      place = {Place::Kind::kOutput, static_cast<int>(i), false};
    }
    std::array<int, kMaxBuffers> busy_until{};  // by buffer: the last step that reads it
    busy_until.fill(-1);
    const auto take = [&](int number, int from) {
      for (int buffer = 0; buffer < kMaxBuffers; ++buffer) {
        if (busy_until[static_cast<size_t>(buffer)] >= from) continue;
        busy_until[static_cast<size_t>(buffer)] = std::max(from, last[static_cast<size_t>(number)]);
        places_[static_cast<size_t>(number)].index = buffer;
        return true;
      }
      return false;
    };
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].gather == nullptr) {
        places_[i] = {Place::Kind::kInput, static_cast<int>(i), places_[i].one};
      } else if (!take(static_cast<int>(i), 0)) {
        return false;
      }
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
      const int number = steps_[i].result;
      if (places_[static_cast<size_t>(number)].kind != Place::Kind::kOutput && !take(number, static_cast<int>(i)))
        return false;
    }
    return true;
  }

  void compute(const abi::Launch& launch, int64_t begin, int64_t count, Buffers buffers) const {
    for (size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      if (source.gather == nullptr) continue;
      std::byte* to = buffers[places_[i].index];
      source.walk.rows(begin, begin + count, [&](const auto& offsets, int64_t position, int64_t length) {
        Row row{.out = to + (position - begin) * source.bytes, .count = length};
        row.in[0] = static_cast<const std::byte*>(launch.inputs[i].data) + offsets[0] * source.bytes;
        row.stride[0] = source.walk.row_stride(0);
        source.gather->compute(row);
      });
    }
    for (const Step& step : steps_) {
      const Place& to = places_[static_cast<size_t>(step.result)];
      Row row{.out = buffers[to.index], .count = to.one ? 1 : count};
      if (to.kind == Place::Kind::kOutput)
        row.out = static_cast<std::byte*>(launch.outputs[to.index].data) +
                  begin * output_bytes_[static_cast<size_t>(to.index)];
      for (size_t i = 0; i < step.operands.size(); ++i) read(launch, begin, step.operands[i], buffers, row, i);
      step.kernel->compute(row);
    }
  }

  void read(const abi::Launch& launch, int64_t begin, int number, Buffers buffers, Row& row, size_t operand) const {
    const Place& from = places_[static_cast<size_t>(number)];
    row.stride[operand] = 1;
    if (from.kind == Place::Kind::kConstant) {
      row.in[operand] = &constants_[static_cast<size_t>(from.index)];
      row.stride[operand] = 0;
    } else if (from.kind == Place::Kind::kBuffer) {
      row.in[operand] = buffers[from.index];
      if (from.one) row.stride[operand] = 0;
    } else if (from.kind == Place::Kind::kInput) {
      const Source& source = sources_[static_cast<size_t>(from.index)];
      row.stride[operand] = source.walk.row_stride(0);
      row.in[operand] =
          static_cast<const std::byte*>(launch.inputs[from.index].data) + begin * row.stride[operand] * source.bytes;
    } else {
      row.in[operand] = static_cast<const std::byte*>(launch.outputs[from.index].data) +
                        begin * output_bytes_[static_cast<size_t>(from.index)];
    }
  }

  std::vector<Source> sources_;  // by input
  std::vector<Step> steps_;
  std::vector<Place> places_;  // by number
  std::vector<uint64_t> constants_;
  std::vector<int64_t> output_bytes_;
  int64_t total_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const abi::KernelRequest& request, const MakeContext& context) {
  const auto steps = abi::read_elementwise(request);
  if (!steps || has_transposed_input(request)) return nullptr;
  auto kernel = std::make_unique<FusedElementwise>();
  if (!kernel->make(request, *steps, context)) return nullptr;
  return kernel;
}

}  // namespace gabbro::cpu::GABBRO_ISA
