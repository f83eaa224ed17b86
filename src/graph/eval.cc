#include "src/graph/eval.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <type_traits>
#include <unordered_map>

#include "src/base/error.h"
#include "src/graph/observer.h"
#include "src/graph/retained_values.h"

namespace gabbro {
namespace {

// The plans of one device, the least recently used ones forgotten.
class PlanCache {
 public:
  static constexpr size_t kCapacity = 256;  // a decoder uses a few; a plan of 30 layers takes about 300 KiB

  std::shared_ptr<Plan> known(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return find(key);
  }

  std::shared_ptr<Plan> get(const std::shared_ptr<Device>& device, std::string key, Program program) {
    if (auto plan = known(key)) return plan;
    auto plan = std::make_shared<Plan>(device, std::move(program));
    const std::lock_guard lock(mutex_);
    if (auto other = find(key)) return other;  // another thread was faster
    ++made_;
    recent_.emplace_front(std::move(key), plan);
    index_[recent_.front().first] = recent_.begin();
    if (recent_.size() > kCapacity) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return plan;
  }

  size_t made() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<Plan>>;

  std::shared_ptr<Plan> find(const std::string& key) {  // with the mutex held
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return recent_.front().second;
  }

  mutable std::mutex mutex_;
  std::list<Entry> recent_;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;
  size_t made_ = 0;
};

// Shared, since Device::set_tuning() may forget the device's own.
std::shared_ptr<PlanCache> cache_of(Device& device) {
  const std::lock_guard lock(device.state().execution_mutex);
  std::shared_ptr<void>& context = device.state().graph_context;
  if (context == nullptr) context = std::make_shared<PlanCache>();
  return std::static_pointer_cast<PlanCache>(context);
}

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

// The trace in which tensors that were deferred are parameters.
Trace trace_ready(std::span<const Tensor> results) {
  Trace traced = trace(results);
  if (traced.deferred.empty()) return traced;
  for (const Tensor& tensor : traced.deferred) eval(std::span(&tensor, 1));
  return trace(results);
}

// Guarded by the execution mutex. Null: nothing was planned yet.
PlanCache* cache_under_lock(Device& device) { return static_cast<PlanCache*>(device.state().graph_context.get()); }

// How many elements of its storage a layout spans, from its first one on.
int64_t span_of(const Layout& layout) {
  if (layout.shape.elements() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    last += (layout.shape[axis] - 1) * layout.strides[static_cast<size_t>(axis)];
  return last + 1;
}

}  // namespace

Evaluation::Evaluation(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_value()) pending_.push_back(tensor);
  }
  if (pending_.empty()) return;
  device_ = common_device("eval", pending_);
  traced_ = trace_ready(pending_);
  if (const Observer* watching = observer()) watching->evaluated(traced_);
  const RetainedValues kept = retained_values(traced_, pending_);
  for (const Tensor& tensor : kept.left) left_.emplace_back(tensor.state().node, tensor.state().output);
  for (const std::vector<Tensor>* more : {&kept.held, &kept.left}) {
    for (const Tensor& tensor : *more) traced_.program.results.push_back(traced_.value(tensor));
    pending_.insert(pending_.end(), more->begin(), more->end());
  }
  const std::optional<InlineTrace> inline_trace = pending_.size() == 1 ? trace_inline(pending_[0]) : std::nullopt;
  key_ = inline_trace ? inline_trace->key : structure_key(traced_.program);
}

bool Evaluation::try_run_inline() {
  const std::unique_lock lock(device_->state().execution_mutex, std::try_to_lock);
  PlanCache* const cache = lock.owns_lock() ? cache_under_lock(*device_) : nullptr;
  if (cache == nullptr) return false;
  plan_ = cache->known(key_);
  if (plan_ == nullptr || !plan_->is_small()) return false;
  values_ = plan_->run_locked(traced_.parameters);
  return true;
}

void Evaluation::run(const std::atomic<bool>* cancel) {
  if (plan_ == nullptr) plan_ = cache_of(*device_)->get(device_, std::move(key_), std::move(traced_.program));
  values_ = plan_->run(traced_.parameters, cancel);
}

void Evaluation::finish() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    TensorState& state = pending_[i].state();
    if (state.node == nullptr) continue;  // another thread has computed it meanwhile
    state.storage = values_[i].state().storage;
    state.layout = values_[i].state().layout;
    state.node.reset();
  }
  for (size_t i = 0; i < left_.size(); ++i)
    left_[i].first->kept.emplace_back(left_[i].second, values_[values_.size() - left_.size() + i]);
}

void defer(const Tensor& tensor) {
  if (tensor.has_value()) return;
  tensor.state().node->deferred = true;
  if (const Observer* watching = observer()) watching->evaluated(trace(std::span(&tensor, 1)));  // it waits for no one
}

void compute_deferred(const Tensor& tensor) {
  if (tensor.defined() && !tensor.has_value() && tensor.state().node->deferred) eval(std::span(&tensor, 1));
}

bool try_eval_inline(const Tensor& tensor) {
  const std::optional<InlineTrace> traced = trace_inline(tensor);
  if (!traced) return false;
  TensorState& state = tensor.state();
  std::vector<Tensor> values;
  {
    const std::unique_lock lock(state.device->state().execution_mutex, std::try_to_lock);
    PlanCache* const cache = lock.owns_lock() ? cache_under_lock(*state.device) : nullptr;
    if (cache == nullptr) return false;
    const std::shared_ptr<Plan> plan = cache->known(traced->key);
    if (plan == nullptr || !plan->is_small()) return false;
    values = plan->run_locked(traced->parameters);
  }
  state.storage = values[0].state().storage;
  state.layout = values[0].state().layout;
  state.node.reset();
  return true;
}

namespace {
EvalHook eval_hook = nullptr;
}
void set_eval_hook(EvalHook hook) { eval_hook = hook; }

void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel) {
  if (tensors.size() == 1 && try_eval_inline(tensors[0])) return;
  Evaluation evaluation(tensors);
  if (!evaluation.has_work()) return;
  if (cancel == nullptr && eval_hook != nullptr) {
    eval_hook([&](const std::atomic<bool>* watched) { evaluation.run(watched); });
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
  std::vector<T> values(static_cast<size_t>(elements));
  if (elements == 0) return values;
  // The span of storage that the layout touches comes over in one copy, and is put in order here.
  std::vector<T> raw(static_cast<size_t>(span_of(layout)));
  const auto* source =
      static_cast<const std::byte*>(state.storage.get()) + static_cast<size_t>(layout.offset) * sizeof(T);
  tensor.device()->copy_to_host(raw.data(), source, raw.size() * sizeof(T));
  if (layout.is_contiguous()) return raw;
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

Compiled::Compiled(const std::function<std::vector<Tensor>()>& function, std::span<const Tensor> inputs)
    : inputs_(inputs.begin(), inputs.end()) {
  const std::vector<Tensor> results = function();
  if (results.empty()) throw bad_input("[compile] the function has no results");
  device_ = common_device("compile", results);
  Trace traced = trace_ready(results);
  captured_ = std::move(traced.parameters);
  for (const Tensor& parameter : captured_) {
    const auto input = std::ranges::find(inputs_, &parameter.state(), [](const Tensor& x) { return &x.state(); });
    input_of_.push_back(input == inputs_.end() ? -1 : static_cast<int>(input - inputs_.begin()));
  }
  plan_ = std::make_unique<Plan>(device_, std::move(traced.program));
}

Compiled::~Compiled() = default;
Compiled::Compiled(Compiled&&) noexcept = default;
Compiled& Compiled::operator=(Compiled&&) noexcept = default;

void Compiled::forget_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto state = std::make_shared<TensorState>(inputs_[i].state());
    state->storage.reset();
    state->history.reset();
    inputs_[i] = Tensor(std::move(state));
  }
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (input_of_[i] >= 0) captured_[i] = inputs_[static_cast<size_t>(input_of_[i])];
  }
}

std::vector<Tensor> Compiled::operator()(const std::atomic<bool>* cancel) {
  return plan_->run(captured_, cancel, &storages_);
}

bool Compiled::takes(size_t number, const Tensor& input) const {
  const Tensor& like = inputs_[number];
  return input.has_value() && input.device() == like.device() && input.spec() == like.spec() &&
         input.state().layout.strides == like.state().layout.strides;
}

PlanParameters Compiled::parameters_of(std::span<const Tensor> inputs) const {
  if (inputs.size() != inputs_.size())
    throw bad_input("[compile] {} inputs instead of {}", inputs.size(), inputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!takes(i, inputs[i])) {
      throw bad_input("[compile] input {} has other strides than when traced, {} {}", i, dtype_name(inputs_[i].dtype()),
                      inputs_[i].shape().to_string());
    }
  }
  return {captured_, input_of_, inputs};
}

std::vector<Tensor> Compiled::operator()(std::span<const Tensor> inputs, const std::atomic<bool>* cancel) {
  return plan_->run(parameters_of(inputs), cancel, &storages_);
}

std::optional<std::vector<Tensor>> Compiled::try_run_inline(std::span<const Tensor> inputs) {
  if (!plan_->is_small()) return std::nullopt;
  const std::unique_lock lock(device_->state().execution_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  return plan_->run_locked(parameters_of(inputs), nullptr, &storages_);
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
  cache_of(*device)->get(device, structure_key(program), Program(program))->run(parameters, cancel);
}

size_t plans_made(Device& device) { return cache_of(device)->made(); }

}  // namespace gabbro
