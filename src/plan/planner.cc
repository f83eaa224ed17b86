#include "src/plan/planner.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/plan/fusion.h"
#include "src/plan/memory_plan.h"

namespace gabbro {
namespace {

// The copy that makes a strided value contiguous.
const Op kCopy = {
    .name = "copy",
    .infer = [](const Args& a) { return std::vector{a[0].spec()}; },
};

// For each output of an op that writes states in place: which input it is; -1 for the others.
int in_place_input(const Op& op, size_t output) {
  const size_t first = static_cast<size_t>(op.first_in_place);
  if (output < first || output - first >= op.in_place.size()) return -1;
  return op.in_place[output - first];
}

bool writes(const Op& op, size_t input) {
  return std::ranges::find(op.in_place, static_cast<int>(input)) != op.in_place.end();
}

std::vector<abi::Attribute> abi_attributes(const Attributes& attributes) {
  std::vector<abi::Attribute> result;
  for (const auto& [name, value] : attributes.entries()) {
    abi::Attribute attribute{.name = name};
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      attribute.kind = abi::AttributeKind::kInteger;
      attribute.integer = *integer;
    } else if (const auto* real = std::get_if<double>(&value)) {
      attribute.kind = abi::AttributeKind::kReal;
      attribute.real = *real;
    } else {
      attribute.kind = abi::AttributeKind::kText;
      attribute.text = std::get<std::string>(value).c_str();
    }
    result.push_back(attribute);
  }
  return result;
}

}  // namespace

Planner::Planner(Plan& plan, std::shared_ptr<Device> device)
    : plan_(plan), program_(plan.program_), device_(std::move(device)) {}

void Planner::grow() {
  for (size_t value = storage_of_.size(); value < program_.values.size(); ++value) {
    storage_of_.push_back(static_cast<int>(value));
    alias_of_.push_back(static_cast<int>(value));
    plan_.layouts_.push_back(Layout::contiguous(program_.values[value].shape));
  }
}

Planner::Layouts Planner::layouts_of(std::span<const int> values) const {
  Layouts layouts;
  for (const int value : values) layouts.push_back(plan_.layouts_[value]);
  return layouts;
}

std::shared_ptr<KernelHandle> Planner::find_kernel(const Instruction& instruction, const Layouts& inputs,
                                                   const Layouts& outputs) const {
  std::vector<abi::TensorView> views;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    views.push_back(make_view(program_.values[instruction.inputs[i]], inputs[i]));
  }
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    views.push_back(make_view(program_.values[instruction.outputs[i]], outputs[i]));
  }
  const std::vector<abi::Attribute> attributes = abi_attributes(instruction.attributes);
  const bool in_place = !instruction.op->in_place.empty();
  std::vector<int32_t> aliases;
  for (size_t i = 0; in_place && i < instruction.outputs.size(); ++i) {
    aliases.push_back(in_place_input(*instruction.op, i));
  }
  const abi::KernelRequest request = {
      .op = instruction.op->name,
      .inputs = views.data(),
      .input_count = static_cast<int32_t>(instruction.inputs.size()),
      .outputs = views.data() + instruction.inputs.size(),
      .output_count = static_cast<int32_t>(instruction.outputs.size()),
      .attributes = attributes.data(),
      .attribute_count = static_cast<int32_t>(attributes.size()),
      .aliases = in_place ? aliases.data() : nullptr,
  };
  return gabbro::find_kernel(*device_, request);
}

void Planner::define_outputs(const Instruction& instruction) {
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const int input = in_place_input(*instruction.op, i);
    if (input < 0) continue;
    const int source = instruction.inputs[static_cast<size_t>(input)];
    root(instruction.outputs[i]) = root(source);
    plan_.layouts_[instruction.outputs[i]] = plan_.layouts_[source];
  }
}

bool Planner::is_empty(const Instruction& instruction) const {
  return std::ranges::all_of(instruction.outputs, [&](int output) { return bytes_of(output) == 0; });
}

bool Planner::eliminate_common_subexpression(const Instruction& instruction) {
  if (!instruction.op->in_place.empty()) return false;
  const auto [entry, added] = known_.try_emplace(instruction_key(instruction), instruction.outputs);
  if (added) return false;
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const auto value = static_cast<size_t>(instruction.outputs[i]), before = static_cast<size_t>(entry->second[i]);
    alias_of_[value] = alias_of_[before];
    storage_of_[value] = storage_of_[before];
    plan_.layouts_[value] = plan_.layouts_[before];
  }
  return true;
}

void Planner::emit(const Instruction& original) {
  grow();
  Instruction instruction = original;
  for (int& input : instruction.inputs) input = alias_of_[input];
  if (eliminate_common_subexpression(instruction)) return;
  if (instruction.op->view != nullptr) return emit_view(instruction);
  define_outputs(instruction);
  if (is_empty(instruction)) return;
  const Layouts inputs = layouts_of(instruction.inputs);
  const Layouts outputs = layouts_of(instruction.outputs);
  if (auto kernel = find_kernel(instruction, inputs, outputs)) return emit_step(instruction, std::move(kernel));

  // Perhaps there is one that wants the elements of a row together, or all inputs contiguous.
  for (const bool all : {false, true}) {
    const auto is_to_be_copied = [&](size_t i) {
      const Layout& layout = inputs[i];
      if (layout.is_contiguous() || writes(*instruction.op, i)) return false;
      const auto last = static_cast<size_t>(std::max(layout.shape.rank() - 1, 0));
      return all || (layout.strides[last] != 0 && layout.strides[last] != 1);
    };
    Layouts copies = inputs;
    Instruction copied = instruction;
    bool changed = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_to_be_copied(i)) continue;
      copies[i] = Layout::contiguous(inputs[i].shape);
      changed = true;
    }
    if (!changed) continue;
    if (auto kernel = find_kernel(instruction, copies, outputs)) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (is_to_be_copied(i)) copied.inputs[i] = emit_copy(instruction.inputs[i]);
      }
      return emit_step(copied, std::move(kernel));
    }
  }
  std::vector<Instruction> parts;
  if (!expand(program_, instruction, device_, parts)) {
    std::string what;
    bool is_double = false;
    for (const std::vector<int>& values : {instruction.inputs, instruction.outputs}) {
      for (const int value : values) {
        const TensorSpec& spec = program_.values[value];
        is_double |= spec.dtype == DType::f64;
        what += fmt::format("{}{}{}", what.empty() ? "" : ", ", dtype_name(spec.dtype), spec.shape.to_string());
      }
      if (!what.empty()) break;  // the outputs speak for an op without inputs
    }
    throw failed("[{}] device {} has no kernel for it on {}{}", instruction.op->name, device_->facts().id, what,
                 is_double ? ": f64 is computed by the CPU alone" : "");
  }
  for (const Instruction& part : parts) emit(part);
}

void Planner::emit_view(const Instruction& instruction) {
  int source = instruction.inputs[0];
  const int result = instruction.outputs[0];
  const Shape shape = program_.values[result].shape;  // a copy: emit_copy() moves the values
  std::optional<Layout> layout = instruction.op->view(plan_.layouts_[source], shape, instruction.attributes);
  if (!layout) {
    source = emit_copy(source);
    layout = instruction.op->view(plan_.layouts_[source], shape, instruction.attributes);
  }
  root(result) = root(source);
  const bool changed = layout->shape != plan_.layouts_[source].shape ||
                       layout->strides != plan_.layouts_[source].strides ||
                       layout->offset != plan_.layouts_[source].offset;
  plan_.layouts_[result] = *layout;
  if (!changed && instruction.inputs.size() == 1) alias_of_[result] = source;
}

int Planner::emit_copy(int value) {
  const int copy = program_.add_value(program_.values[value]);
  grow();
  const Instruction instruction{.op = &kCopy, .inputs = {value}, .outputs = {copy}};
  auto kernel = find_kernel(instruction, layouts_of(instruction.inputs), layouts_of(instruction.outputs));
  if (kernel == nullptr) throw failed("[copy] device {} has no kernel for it", device_->facts().id);
  emit_step(instruction, std::move(kernel));
  return copy;
}

void Planner::emit_step(const Instruction& instruction, std::shared_ptr<KernelHandle> kernel) {
  plan_.steps_.push_back({.op = instruction.op,
                          .kernel = std::move(kernel),
                          .inputs = instruction.inputs,
                          .outputs = instruction.outputs});
}

size_t Planner::bytes_of(int value) const {
  const TensorSpec& spec = program_.values[value];
  return dtype_bytes(spec.dtype, static_cast<size_t>(spec.shape.elements()));
}

void Planner::describe_results() {
  std::vector<int> owners;  // storages that are results; their index is Buffer::index
  for (const int value : program_.results) {
    const int owner = root(value);
    Buffer& buffer = plan_.buffers_[owner];
    if (buffer.kind == Buffer::Kind::kArena) {
      buffer = {.kind = Buffer::Kind::kResult, .index = static_cast<int>(owners.size())};
      owners.push_back(owner);
    }
    plan_.results_.push_back(
        {.spec = program_.values[value], .layout = plan_.layouts_[value], .buffer = buffer, .bytes = bytes_of(owner)});
  }
}

void Planner::assign_memory() {
  const size_t count = program_.values.size();
  Indexed<Lifetime> lifetimes(count);
  for (size_t step = 0; step < plan_.steps_.size(); ++step) {
    const int now = static_cast<int>(step);
    for (const int output : plan_.steps_[step].outputs) {
      Lifetime& life = lifetimes[root(output)];
      if (life.bytes == 0) life = {.bytes = bytes_of(root(output)), .first = now, .last = now};
      life.last = now;
    }
    for (const int input : plan_.steps_[step].inputs) lifetimes[root(input)].last = now;
  }
  for (size_t value = 0; value < count; ++value) {
    if (plan_.buffers_[value].kind != Buffer::Kind::kArena) lifetimes[value].bytes = 0;
  }
  for (size_t step = 0; step < plan_.steps_.size(); ++step) {
    const int now = static_cast<int>(step);
    lifetimes.push_back({.bytes = plan_.steps_[step].kernel->bound.scratch_bytes, .first = now, .last = now});
  }
  const MemoryPlan memory = plan_memory(lifetimes);
  for (size_t value = 0; value < count; ++value) plan_.buffers_[value].offset = memory.offsets[value];
  for (size_t step = 0; step < plan_.steps_.size(); ++step)
    plan_.steps_[step].scratch_offset = memory.offsets[count + step];
  plan_.arena_bytes_ = memory.bytes;
}

void Planner::run() {
  fuse(program_, [this](const Program& program, const Instruction& instruction) {
    Layouts inputs;
    Layouts outputs;
    for (const int input : instruction.inputs) inputs.push_back(Layout::contiguous(program.values[input].shape));
    for (const int output : instruction.outputs) outputs.push_back(Layout::contiguous(program.values[output].shape));
    return find_kernel(instruction, inputs, outputs) != nullptr;
  });
  grow();
  for (size_t i = 0; i < program_.parameters.size(); ++i) {
    Layout& layout = plan_.layouts_[program_.parameters[i]];
    layout = program_.parameter_layouts[i];
    layout.offset = 0;  // each run adds its own
  }
  const std::vector<Instruction> instructions = std::move(program_.instructions);
  program_.instructions.clear();
  for (const Instruction& instruction : instructions) emit(instruction);

  plan_.buffers_.resize(program_.values.size());
  for (size_t i = 0; i < program_.parameters.size(); ++i) {
    plan_.buffers_[program_.parameters[i]] = {.kind = Buffer::Kind::kParameter, .index = static_cast<int>(i)};
  }
  describe_results();
  assign_memory();
  for (size_t value = 0; value < program_.values.size(); ++value)
    plan_.buffers_[value] = plan_.buffers_[storage_of_[value]];
}

}  // namespace gabbro
