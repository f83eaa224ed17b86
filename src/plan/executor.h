// Runs the plans of one device, one at a time, in memory that they share.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/backend/device.h"
#include "src/plan/plan.h"
#include "src/plan/plan_cache.h"

namespace gabbro {

class PlannedMemory;  // planned_memory.h

class Executor final : public DeviceExecutor {
 public:
  // Made with its first use; the device owns it.
  static Executor& of(Device& device);

  explicit Executor(Device& device) : device_(device) {}

  PlanCache& plans() { return plans_; }

  // Waits until no other plan runs. Parameters, `cancel` and `reusable` as for Plan::run.
  std::vector<Tensor> run(Plan& plan, const PlanParameters& parameters, const std::atomic<bool>* cancel = nullptr,
                          std::vector<std::shared_ptr<void>>* reusable = nullptr);
  // Runs a small plan while no other one runs, for callers that hold a lock; else returns nothing and does nothing.
  std::optional<std::vector<Tensor>> try_run_inline(Plan& plan, const PlanParameters& parameters,
                                                    std::vector<std::shared_ptr<void>>* reusable = nullptr);

  // How eval() runs a plan where its caller gives no `cancel`: a function that calls run(cancel) at least once, and
  // again if that threw kInterrupted and the plan is to go on. For a program that has to be able to stop any
  // computation of the library, such as the initial values of a layer; set before the device computes.
  using RunInterruptibly = void (*)(const std::function<void(const std::atomic<bool>* cancel)>& run);
  void set_run_interruptibly(RunInterruptibly function) { run_interruptibly_ = function; }
  RunInterruptibly run_interruptibly() const { return run_interruptibly_; }

  // With `memory` plans do not run, and their results get addresses from it; null: they run. PlanningScope sets it.
  void set_planned(PlannedMemory* memory) { planned_ = memory; }
  bool is_planning() const { return planned_ != nullptr; }

  void forget_plans() override { plans_.clear(); }
  std::unique_lock<std::mutex> pause() override { return std::unique_lock(running_); }
  void free_workspace() override;

 private:
  std::vector<Tensor> run_locked(Plan& plan, const PlanParameters& parameters, const std::atomic<bool>* cancel,
                                 std::vector<std::shared_ptr<void>>* reusable);

  Device& device_;
  std::mutex running_;  // held while a plan runs
  std::shared_ptr<void> workspace_;
  size_t workspace_bytes_ = 0;
  std::atomic<RunInterruptibly> run_interruptibly_ = nullptr;
  PlanCache plans_;
  PlannedMemory* planned_ = nullptr;
};

}  // namespace gabbro
