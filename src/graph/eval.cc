#include "src/graph/eval.h"

#include <cstring>
#include <list>
#include <unordered_map>

#include "src/base/error.h"

namespace gabbro {
namespace {

// The plans of one device, the least recently used ones forgotten.
class PlanCache {
 public:
  static constexpr size_t kCapacity = 256;  // a decoder uses a few; a plan of 30 layers takes about 300 KiB

  std::shared_ptr<Plan> get(const std::shared_ptr<Device>& device, Program program) {
    std::string key = structure_key(program);
    {
      const std::lock_guard lock(mutex_);
      if (auto known = find(key)) return known;
    }
    auto plan = std::make_shared<Plan>(device, std::move(program));
    const std::lock_guard lock(mutex_);
    if (auto known = find(key)) return known;  // another thread was faster
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

PlanCache& cache_of(Device& device) {
  const std::lock_guard lock(device.execution_mutex());
  std::shared_ptr<void>& context = device.graph_context();
  if (context == nullptr) context = std::make_shared<PlanCache>();
  return *static_cast<PlanCache*>(context.get());
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

}  // namespace

void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel) {
  std::vector<Tensor> pending;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_value()) pending.push_back(tensor);
  }
  if (pending.empty()) return;
  const std::shared_ptr<Device> device = common_device("eval", pending);
  Trace traced = trace(pending);
  const std::shared_ptr<Plan> plan = cache_of(*device).get(device, std::move(traced.program));
  const std::vector<Tensor> values = plan->run(traced.parameters, cancel);
  for (size_t i = 0; i < pending.size(); ++i) {
    TensorState& state = pending[i].state();
    state.storage = values[i].state().storage;
    state.layout = values[i].state().layout;
    state.node.reset();
  }
}

template <class T>
std::vector<T> to_host(const Tensor& tensor) {
  eval(std::span(&tensor, 1));
  const TensorState& state = tensor.state();
  if (state.spec.packed || dtype_info(state.spec.dtype).block_bytes != sizeof(T)) {
    throw bad_input("[to_host] a {} tensor cannot be read as elements of {} bytes", dtype_name(state.spec.dtype),
                    sizeof(T));
  }
  const Layout& layout = state.layout;
  const int64_t elements = layout.shape.elements();
  std::vector<T> values(static_cast<size_t>(elements));
  if (elements == 0) return values;
  // The span of storage that the layout touches comes over in one copy, and is put in order here.
  int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    last += (layout.shape[axis] - 1) * layout.strides[static_cast<size_t>(axis)];
  std::vector<T> raw(static_cast<size_t>(last) + 1);
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

Compiled::Compiled(const std::function<std::vector<Tensor>()>& function) {
  const std::vector<Tensor> results = function();
  if (results.empty()) throw bad_input("[compile] the function has no results");
  device_ = common_device("compile", results);
  Trace traced = trace(results);
  captured_ = std::move(traced.parameters);
  plan_ = std::make_unique<Plan>(device_, std::move(traced.program));
}

std::vector<Tensor> Compiled::operator()(const std::atomic<bool>* cancel) {
  return plan_->run(captured_, cancel, &storages_);
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

size_t plans_made(Device& device) { return cache_of(device).made(); }

}  // namespace gabbro
