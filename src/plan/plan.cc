#include "src/plan/plan.h"

#include <algorithm>
#include <set>

#include "src/base/error.h"
#include "src/base/pooled.h"
#include "src/plan/planned_memory.h"
#include "src/plan/planner.h"

namespace gabbro {
namespace {

int64_t byte_offset(DType dtype, int64_t elements) {
  return static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(elements)));
}

}  // namespace

abi::TensorView make_view(const TensorSpec& spec, const Layout& layout) {
  static_assert(abi::kMaxRank == Shape::kMaxRank);
  abi::TensorView view{.data = nullptr,
                       .rank = spec.shape.rank(),
                       .dtype = spec.dtype,
                       .layout = spec.packed ? abi::Layout::kPacked : abi::Layout::kStrided};
  for (int axis = 0; axis < view.rank; ++axis) {
    view.shape[axis] = layout.shape[axis];
    view.strides[axis] = layout.strides[static_cast<size_t>(axis)];
  }
  return view;
}

Plan::Plan(std::shared_ptr<Device> device, Program program) : device_(device), program_(std::move(program)) {
  Planner(*this, std::move(device)).run();
  build_launches();
}

void Plan::build_launches() {
  // A step whose outputs are all empty has nothing to do.
  const auto is_empty = [&](const PlanStep& step) {
    return std::ranges::all_of(step.outputs, [&](int v) { return program_.values[v].shape.elements() == 0; });
  };
  std::erase_if(steps_, is_empty);
  size_t count = 0;
  for (const PlanStep& step : steps_) count += step.inputs.size() + step.outputs.size();
  views_.reserve(count);  // launches point into it
  for (const PlanStep& step : steps_) {
    abi::Launch launch{.kernel = step.kernel->bound.handle,
                       .inputs = views_.data() + views_.size(),
                       .outputs = views_.data() + views_.size() + step.inputs.size(),
                       .input_count = static_cast<int32_t>(step.inputs.size()),
                       .output_count = static_cast<int32_t>(step.outputs.size()),
                       .scratch = nullptr};
    for (const std::vector<int>* values : {&step.inputs, &step.outputs}) {
      for (const int value : *values) {
        const auto v = static_cast<size_t>(value);
        patches_.push_back({views_.size(), buffers_[v], byte_offset(program_.values[v].dtype, layouts_[v].offset)});
        views_.push_back(make_view(program_.values[v], layouts_[v]));
      }
    }
    launches_.push_back(launch);
  }

  // A core does this much in its cache in ten or twenty microseconds. A kernel that does not know its work counts as
  // much.
  constexpr double kSmallBytes = 131072, kSmallFlops = 2097152;
  double bytes = 0, flops = 0;
  for (const PlanStep& step : steps_) {
    bytes += step.kernel->bound.bytes;
    flops += step.kernel->bound.flops;
  }
  small_ = device_.lock()->host_accessible() && bytes <= kSmallBytes && flops <= kSmallFlops &&
           std::ranges::none_of(steps_, [](const PlanStep& step) { return step.kernel->bound.bytes == 0; });
}

std::vector<Tensor> Plan::run(const PlanParameters& parameters, std::byte* arena, const std::atomic<bool>* cancel,
                              std::vector<std::shared_ptr<void>>* reusable) {
  const std::shared_ptr<Device> device = device_.lock();
  std::vector<std::shared_ptr<void>> of_this_run;
  std::vector<std::shared_ptr<void>>& storages = reusable != nullptr ? *reusable : of_this_run;  // by Buffer::index
  storages.resize(results_.size());
  for (const Result& result : results_) {
    if (result.buffer.kind != Buffer::Kind::kResult) continue;
    std::shared_ptr<void>& storage = storages[static_cast<size_t>(result.buffer.index)];
    if (storage.use_count() != 1) storage = device->allocate(result.bytes);
  }
  for (const Patch& patch : patches_) {
    std::byte* base = nullptr;
    switch (patch.buffer.kind) {
      case Buffer::Kind::kArena:
        base = arena + patch.buffer.offset;
        break;
      case Buffer::Kind::kResult:
        base = static_cast<std::byte*>(storages[static_cast<size_t>(patch.buffer.index)].get());
        break;
      case Buffer::Kind::kParameter: {
        const TensorState& state = parameters[patch.buffer.index];
        base = static_cast<std::byte*>(state.storage.get()) + byte_offset(state.spec.dtype, state.layout.offset);
        break;
      }
    }
    views_[patch.view].data = base + patch.byte_offset;
  }
  for (size_t i = 0; i < launches_.size(); ++i) launches_[i].scratch = arena + steps_[i].scratch_offset;
  execute(*device, launches_, cancel);
  return tensors_in(device, parameters, storages);
}

std::vector<Tensor> Plan::planned_results(const PlanParameters& parameters, PlannedMemory& memory) const {
  std::vector<std::shared_ptr<void>> storages(results_.size());  // by Buffer::index
  for (const Result& result : results_) {
    if (result.buffer.kind != Buffer::Kind::kResult) continue;
    std::shared_ptr<void>& storage = storages[static_cast<size_t>(result.buffer.index)];
    if (storage == nullptr) storage = memory.allocate(result.bytes);
  }
  return tensors_in(device_.lock(), parameters, storages);
}

std::vector<Tensor> Plan::tensors_in(const std::shared_ptr<Device>& device, const PlanParameters& parameters,
                                     std::span<const std::shared_ptr<void>> storages) const {
  std::vector<Tensor> tensors;
  tensors.reserve(results_.size());
  for (const Result& result : results_) {
    auto state = make_pooled<TensorState>();
    state->spec = result.spec;
    state->device = device;
    state->layout = result.layout;
    if (result.buffer.kind == Buffer::Kind::kParameter) {
      const TensorState& source = parameters[result.buffer.index];
      state->storage = source.storage;
      state->layout.offset += source.layout.offset;
    } else {
      state->storage = storages[static_cast<size_t>(result.buffer.index)];
    }
    tensors.emplace_back(std::move(state));
  }
  return tensors;
}

std::string Plan::explain() const {
  std::string text;
  for (const PlanStep& step : steps_) {
    text += fmt::format("{:<16} {:<28}", step.op->name, step.kernel->bound.implementation);
    for (const int input : step.inputs) {
      const TensorSpec& spec = program_.values[input];
      text += fmt::format(" {}{}", dtype_name(spec.dtype), spec.shape.to_string());
    }
    text += " ->";
    for (const int output : step.outputs) text += " " + program_.values[output].shape.to_string();
    text += '\n';
  }
  return text + fmt::format("{} launches; arena {:.1f} KiB\n", steps_.size(), static_cast<double>(arena_bytes_) / 1024);
}

}  // namespace gabbro
