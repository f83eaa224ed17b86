#include "src/plan/eval.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/base/error.h"
#include "src/base/pooled.h"
#include "src/graph/observer.h"
#include "src/plan/retained_values.h"

namespace gabbro {

std::shared_ptr<Device> common_device(const char* doing, std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) throw bad_input("[{}] one of the tensors is undefined", doing);
    if (tensor.device() != tensors.front().device()) {
      throw bad_input("[{}] the tensors are on different devices: {} and {}", doing,
                      tensors.front().device()->facts().id, tensor.device()->facts().id);
    }
  }
  return tensors.front().device();
}

Trace trace_ready(std::span<const Tensor> results) {
  Trace traced = trace(results);
  if (traced.deferred.empty()) return traced;
  for (const Tensor& tensor : traced.deferred) eval(std::span(&tensor, 1));
  return trace(results);
}

namespace {

// How many elements of its storage a layout spans, from its first one on.
int64_t span_of(const Layout& layout) {
  if (layout.shape.elements() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    last += (layout.shape[axis] - 1) * layout.strides[static_cast<size_t>(axis)];
  return last + 1;
}

// Moves the value that was computed for a pending tensor there.
void give(const Tensor& pending, const Tensor& value) {
  TensorState& state = pending.state();
  state.storage = std::move(value.state().storage);
  state.layout = value.state().layout;
  state.node.reset();
  if (const Observer* const watching = observer()) watching->stored(pending.shared_state());
}

}  // namespace

Evaluation::Evaluation(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_value()) pending_.push_back(tensor);
  }
  if (pending_.empty()) return;
  device_ = common_device("eval", pending_);
  const Observer* const watching = observer();
  std::optional<InlineTrace> inline_trace = trace_inline(pending_);
  if (inline_trace) plan_ = executor().plans().find(inline_trace->key);
  if (plan_ != nullptr) {
    if (watching != nullptr) watching->evaluated(inline_trace->nodes);
    parameters_ = std::move(inline_trace->parameters);
    pending_.insert(pending_.end(), inline_trace->held.begin(), inline_trace->held.end());
    return;
  }
  if (inline_trace) key_ = inline_trace->key;
  Trace traced = trace_ready(pending_);
  if (watching != nullptr) watching->evaluated(addresses_of(traced.nodes));
  const RetainedValues kept = inline_trace ? RetainedValues{.held = std::move(inline_trace->held), .left = {}}
                                           : retained_values(traced, pending_);
  for (const Tensor& tensor : kept.left) left_.emplace_back(tensor.state().node, tensor.state().output);
  for (const std::vector<Tensor>* more : {&kept.held, &kept.left}) {
    for (const Tensor& tensor : *more) traced.program.results.push_back(traced.value(tensor));
    pending_.insert(pending_.end(), more->begin(), more->end());
  }
  if (!inline_trace) key_ = structure_key(traced.program);
  parameters_ = std::move(traced.parameters);
  program_ = std::move(traced.program);
}

bool Evaluation::try_run_inline() {
  if (plan_ == nullptr) plan_ = executor().plans().find(key_);
  auto values = plan_ != nullptr ? executor().try_run_inline(*plan_, parameters_) : std::nullopt;
  if (!values) return false;
  values_ = std::move(*values);
  return true;
}

void Evaluation::run(const std::atomic<bool>* cancel) {
  if (plan_ == nullptr) plan_ = executor().plans().get(device_, std::move(key_), std::move(program_));
  values_ = executor().run(*plan_, parameters_, cancel);
}

void Evaluation::finish() {
  for (size_t i = 0; i < left_.size(); ++i) {
    const TensorState& value = values_[values_.size() - left_.size() + i].state();
    const Tensor kept(make_pooled<TensorState>(value));
    left_[i].first->kept.emplace_back(left_[i].second, kept);
    if (const Observer* const watching = observer()) watching->stored(kept.shared_state());
  }
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].state().node != nullptr)
      give(pending_[i], values_[i]);  // else another thread has computed it meanwhile
  }
}

void defer(const Tensor& tensor) {
  if (tensor.has_value()) return;
  tensor.state().node->deferred = true;
  if (const Observer* watching = observer())
    watching->evaluated(addresses_of(trace(std::span(&tensor, 1)).nodes));  // it waits for no one
}

void compute_deferred(const Tensor& tensor) {
  if (tensor.defined() && !tensor.has_value() && tensor.state().node->deferred) eval(std::span(&tensor, 1));
}

bool try_eval_inline(const Tensor& tensor) {
  const std::optional<InlineTrace> traced = trace_inline(std::span(&tensor, 1));
  if (!traced) return false;
  Executor& executor = Executor::of(*tensor.device());
  const std::shared_ptr<Plan> plan = executor.plans().find(traced->key);
  const auto values = plan != nullptr ? executor.try_run_inline(*plan, traced->parameters) : std::nullopt;
  if (!values) return false;
  for (size_t i = 0; i < traced->held.size(); ++i) give(traced->held[i], (*values)[i + 1]);
  give(tensor, values->front());
  return true;
}

void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel) {
  if (tensors.size() == 1 && try_eval_inline(tensors[0])) return;
  Evaluation evaluation(tensors);
  if (!evaluation.has_work()) return;
  const Executor::RunInterruptibly interruptibly = evaluation.executor().run_interruptibly();
  if (cancel == nullptr && interruptibly != nullptr) {
    interruptibly([&](const std::atomic<bool>* watched) { evaluation.run(watched); });
  } else {
    evaluation.run(cancel);
  }
  evaluation.finish();
}

template <class T>
std::vector<T> to_host(const Tensor& tensor) {
  eval(std::span(&tensor, 1));
  const TensorState& state = tensor.state();
  const bool is_float = state.spec.dtype == DType::f32 || state.spec.dtype == DType::f64;
  if (state.spec.packed || dtype_info(state.spec.dtype).block_bytes != sizeof(T) ||
      (std::is_floating_point_v<T> && !is_float)) {
    throw bad_input("[to_host] a {} tensor cannot be read as {} of {} bytes", dtype_name(state.spec.dtype),
                    std::is_floating_point_v<T> ? "floats" : "integers", sizeof(T));
  }
  const Layout& layout = state.layout;
  const int64_t elements = layout.shape.elements();
  if (elements == 0 || Executor::of(*tensor.device()).is_planning())
    return std::vector<T>(static_cast<size_t>(elements));
  // The span of storage that the layout touches comes over in one copy, and is put in order here.
  std::vector<T> raw(static_cast<size_t>(span_of(layout)));
  const auto* source =
      static_cast<const std::byte*>(state.storage.get()) + static_cast<size_t>(layout.offset) * sizeof(T);
  tensor.device()->copy_to_host(raw.data(), source, raw.size() * sizeof(T));
  if (layout.is_contiguous()) return raw;
  std::vector<T> values(static_cast<size_t>(elements));
  std::array<int64_t, Shape::kMaxRank> index{};
  for (T& value : values) {
    int64_t position = 0;
    for (int axis = 0; axis < layout.shape.rank(); ++axis)
      position += index[static_cast<size_t>(axis)] * layout.strides[static_cast<size_t>(axis)];
    value = raw[static_cast<size_t>(position)];
    for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < layout.shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
  return values;
}

template std::vector<float> to_host(const Tensor&);
template std::vector<double> to_host(const Tensor&);
template std::vector<int8_t> to_host(const Tensor&);
template std::vector<uint8_t> to_host(const Tensor&);
template std::vector<int16_t> to_host(const Tensor&);
template std::vector<uint16_t> to_host(const Tensor&);
template std::vector<int32_t> to_host(const Tensor&);
template std::vector<int64_t> to_host(const Tensor&);

Tensor to_device(const Tensor& x, const std::shared_ptr<Device>& device) {
  eval(std::span(&x, 1));
  if (x.device() == device) return x;
  const TensorState& source = x.state();
  if (source.spec.packed) {
    throw bad_input("[to_device] a packed matrix {} stays on {}", x.shape().to_string(), x.device()->facts().id);
  }
  auto target = std::make_shared<TensorState>();
  target->spec = source.spec;
  target->device = device;
  target->layout = source.layout;
  target->layout.offset = 0;
  const size_t bytes = dtype_bytes(x.dtype(), static_cast<size_t>(span_of(source.layout)));
  target->storage = device->allocate(std::max<size_t>(bytes, 1));
  const auto* from = static_cast<const std::byte*>(source.storage.get()) +
                     dtype_bytes(x.dtype(), static_cast<size_t>(source.layout.offset));
  if (bytes > 0) device->copy_from(*x.device(), target->storage.get(), from, bytes);
  return Tensor(std::move(target));
}

void overwrite(const Tensor& tensor, const void* host, size_t bytes) {
  const TensorState& state = tensor.state();
  if (!tensor.has_value() || !state.layout.is_contiguous() || state.spec.packed ||
      bytes != dtype_bytes(state.spec.dtype, static_cast<size_t>(state.spec.shape.elements()))) {
    throw bad_input("[overwrite] {} bytes do not replace a {} tensor of shape {}", bytes, dtype_name(state.spec.dtype),
                    state.spec.shape.to_string());
  }
  auto* target = static_cast<std::byte*>(state.storage.get()) +
                 dtype_bytes(state.spec.dtype, static_cast<size_t>(state.layout.offset));
  tensor.device()->copy_to_device(target, host, bytes);
}

void run_program(const std::shared_ptr<Device>& device, const Program& program, std::span<const Tensor> parameters,
                 const std::atomic<bool>* cancel) {
  Executor& executor = Executor::of(*device);
  executor.run(*executor.plans().get(device, structure_key(program), Program(program)), parameters, cancel);
}

size_t plans_made(Device& device) { return Executor::of(device).plans().made(); }

}  // namespace gabbro
