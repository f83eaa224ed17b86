#include "gabbro/train/optimizer.h"

#include <cmath>
#include <unordered_set>

#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/rules.h"
#include "src/plan/eval.h"

namespace gabbro::train {
namespace {

Tensor upload(const std::shared_ptr<Device>& device, double value) {
  const auto number = static_cast<float>(value);
  return device->upload(DType::f32, Shape{}, &number);
}

Tensor wide(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay,
                     std::vector<std::string> states, double initial)
    : state_names_(std::move(states)), initial_(initial) {
  std::unordered_set<const Tensor*> known;
  for (ParameterGroup& group : groups) {
    Group& added = groups_.emplace_back();
    added.parameters = std::move(group.parameters);
    added.lr = group.lr.value_or(lr);
    added.weight_decay = group.weight_decay.value_or(weight_decay);
    added.states.resize(added.parameters.size());
    added.steps.resize(added.parameters.size());
    if (!(added.lr >= 0) || !(added.weight_decay >= 0) || std::isinf(added.lr) || std::isinf(added.weight_decay))
      throw bad_input("[optimizer] a learning rate of {}, weight decay of {}", added.lr, added.weight_decay);
    for (const nn::Slot& slot : added.parameters) {
      if (!known.insert(slot.tensor.get()).second) throw bad_input("[optimizer] {} is there twice", slot.name);
      if (slot.tensor->device() != device())
        throw bad_input("[optimizer] {} is on another device than the others", slot.name);
    }
  }
  if (known.empty()) throw bad_input("[optimizer] there are no parameters");
  no_steps_ = upload(device(), 0);
}

const std::shared_ptr<Device>& Optimizer::device() const {
  for (const Group& group : groups_)
    if (!group.parameters.empty()) return group.parameters.front().tensor->device();
  throw bad_input("[optimizer] there are no parameters");
}

void Optimizer::set_lr(double lr, size_t group) {
  Group& set = groups_.at(group);
  if (set.lr != lr) set.lr_tensor = Tensor();
  set.lr = lr;
}

void Optimizer::set_lr(double lr) {
  for (size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

const Tensor& Optimizer::number(double value) {
  Tensor& known = numbers_[value];
  if (!known.defined()) known = upload(device(), value);
  return known;
}

Tensor Optimizer::one_minus_power(double base, const Tensor& steps) {
  Tensor& known = powers_[{base, &steps.state()}];
  if (!known.defined()) known = neg(expm1(steps * number(std::log(base))));
  return known;
}

// A tensor for each state, although they are equal: the first step has the plan of all others then.
std::vector<Tensor> Optimizer::initial_states(const Tensor& parameter) const {
  const auto elements = static_cast<size_t>(parameter.shape().elements());
  const std::vector<float> values(elements, static_cast<float>(initial_));
  std::vector<Tensor> states;
  for (size_t i = 0; i < state_names_.size(); ++i) {
    states.push_back(parameter.device()->upload(DType::f32, parameter.shape(), values.data()));
    if (parameter.dtype() == DType::f64) states.back() = cast(states.back(), DType::f64);
  }
  if (!states.empty()) eval(states);
  return states;
}

void Optimizer::step(const StepOptions& options) {
  const NoGrad no_grad;
  const TrainingNodes training;
  const auto kept = [&](const Tensor& before, const Tensor& after) {
    return options.skip.defined() ? where(options.skip, before, after) : after;
  };
  // Parameters that have made equally many steps share their count, and what is computed from it.
  std::map<const TensorState*, Tensor> counted, results;
  for (Group& group : groups_) {
    if (!group.lr_tensor.defined()) group.lr_tensor = upload(device(), group.lr);
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      Tensor& place = *group.parameters[i].tensor;
      const Tensor before = place, gradient = gradient_of(before);
      if (!gradient.defined()) continue;
      clear_gradient(before);  // it may hold its leaf
      Tensor& steps = group.steps[i];
      if (!steps.defined()) steps = no_steps_;
      std::vector<Tensor>& states = group.states[i];
      if (states.empty()) states = initial_states(before);
      Tensor& count = counted[&steps.state()];
      if (!count.defined()) count = steps + number(1);
      Tensor& result = results[&count.state()];
      if (!result.defined()) result = kept(steps, count);
      std::vector<Tensor> after = states;
      const Tensor value = updated({.parameter = wide(before),
                                    .gradient = wide(gradient),
                                    .lr = group.lr_tensor,
                                    .weight_decay = group.weight_decay,
                                    .steps = count,
                                    .states = after});
      for (size_t k = 0; k < states.size(); ++k) states[k] = kept(states[k], after[k]);
      place = kept(before, cast(value, before.dtype()));
      require_gradient(place);
      steps = result;
    }
  }
  powers_.clear();
}

void Optimizer::zero_grad() {
  for (const Group& group : groups_)
    for (const nn::Slot& slot : group.parameters) clear_gradient(*slot.tensor);
}

std::vector<Tensor> Optimizer::tensors() const {
  std::vector<Tensor> tensors;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      tensors.push_back(*group.parameters[i].tensor);
      if (!group.steps[i].defined()) continue;
      tensors.push_back(group.steps[i]);
      tensors.insert(tensors.end(), group.states[i].begin(), group.states[i].end());
    }
  }
  return tensors;
}

nn::StateDict Optimizer::state_dict() const {
  nn::StateDict state;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      if (!group.steps[i].defined()) continue;
      state.push_back({group.parameters[i].name + ".step", group.steps[i]});
      for (size_t k = 0; k < state_names_.size(); ++k)
        state.push_back({group.parameters[i].name + "." + state_names_[k], group.states[i][k]});
    }
  }
  return state;
}

void Optimizer::load_state_dict(const nn::StateDict& state) {
  std::map<std::string, Tensor> given;
  for (const nn::NamedTensor& named : state) given[named.name] = named.tensor;
  const auto take = [&](const std::string& name, const Shape& shape) {
    const auto found = given.find(name);
    if (found == given.end()) throw bad_input("[optimizer] the state {} is missing", name);
    Tensor value = to_device(found->second, device());
    given.erase(found);
    if (!(value.shape() == shape)) {
      throw bad_input("[optimizer] the state {} is {} instead of {}", name, value.shape().to_string(),
                      shape.to_string());
    }
    return value;
  };
  std::vector<Group> loaded = groups_;
  std::map<float, Tensor> counts;  // shared again
  for (Group& group : loaded) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string prefix = group.parameters[i].name + ".";
      const Tensor& parameter = *group.parameters[i].tensor;
      group.steps[i] = Tensor();
      group.states[i].clear();
      if (!given.contains(prefix + "step")) continue;  // it had no gradient yet
      const Tensor steps = cast(take(prefix + "step", Shape{}), DType::f32);
      group.steps[i] = counts.try_emplace(to_host<float>(steps)[0], steps).first->second;
      const DType dtype = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
      for (const std::string& name : state_names_)
        group.states[i].push_back(cast(take(prefix + name, parameter.shape()), dtype));
    }
  }
  if (!given.empty()) throw bad_input("[optimizer] the state {} belongs to no parameter", given.begin()->first);
  groups_ = std::move(loaded);
  eval(tensors());
}

void evaluate(nn::Module& model, const Optimizer& optimizer, std::vector<Tensor> more) {
  for (const std::vector<Tensor>& tensors : {optimizer.tensors(), model.tensors()})
    more.insert(more.end(), tensors.begin(), tensors.end());
  eval(more);
}

}  // namespace gabbro::train
