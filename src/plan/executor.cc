#include "src/plan/executor.h"

#include <algorithm>

#include "src/plan/planned_memory.h"

namespace gabbro {

Executor& Executor::of(Device& device) {
  Device::State& state = device.state();
  DeviceExecutor* executor = state.executor.load(std::memory_order_acquire);
  if (executor == nullptr) {
    const std::lock_guard lock(state.executor_mutex);
    if (state.own_executor == nullptr) {
      state.own_executor = std::make_unique<Executor>(device);
      state.executor.store(state.own_executor.get(), std::memory_order_release);
    }
    executor = state.own_executor.get();
  }
  return static_cast<Executor&>(*executor);
}

std::vector<Tensor> Executor::run(Plan& plan, const PlanParameters& parameters, const std::atomic<bool>* cancel,
                                  std::vector<std::shared_ptr<void>>* reusable) {
  const std::lock_guard lock(running_);
  return run_locked(plan, parameters, cancel, reusable);
}

std::optional<std::vector<Tensor>> Executor::try_run_inline(Plan& plan, const PlanParameters& parameters,
                                                            std::vector<std::shared_ptr<void>>* reusable) {
  if (!plan.is_small()) return std::nullopt;
  const std::unique_lock lock(running_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  return run_locked(plan, parameters, nullptr, reusable);
}

std::vector<Tensor> Executor::run_locked(Plan& plan, const PlanParameters& parameters, const std::atomic<bool>* cancel,
                                         std::vector<std::shared_ptr<void>>* reusable) {
  if (planned_ != nullptr) {
    planned_->add_plan(plan.arena_bytes());
    return plan.planned_results(parameters, *planned_);
  }
  const size_t bytes = std::max<size_t>(plan.arena_bytes(), 64);  // a value without elements has an address, too
  if (bytes > workspace_bytes_) {
    free_workspace();                               // first, so that both need not fit
    workspace_ = device_.allocate_unpooled(bytes);  // a piece that was too small once is not needed again
    workspace_bytes_ = bytes;
  }
  return plan.run(parameters, static_cast<std::byte*>(workspace_.get()), cancel, reusable);
}

void Executor::free_workspace() {
  workspace_.reset();
  workspace_bytes_ = 0;
}

}  // namespace gabbro
