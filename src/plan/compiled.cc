#include "gabbro/plan/compiled.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/plan/eval.h"

namespace gabbro {

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
  return Executor::of(*device_).run(*plan_, captured_, cancel, &storages_);
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
  return Executor::of(*device_).run(*plan_, parameters_of(inputs), cancel, &storages_);
}

std::optional<std::vector<Tensor>> Compiled::try_run_inline(std::span<const Tensor> inputs) {
  if (!plan_->is_small()) return std::nullopt;
  return Executor::of(*device_).try_run_inline(*plan_, parameters_of(inputs), &storages_);
}

}  // namespace gabbro
