#include "gabbro/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>

#include "src/base/error.h"
#include "src/base/pooled.h"
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
                     std::vector<std::string> states)
    : state_names_(std::move(states)) {
  std::unordered_set<const Tensor*> known;
  for (ParameterGroup& group : groups) {
    Group& added = groups_.emplace_back();
    added.parameters = std::move(group.parameters);
    added.lr = group.lr.value_or(lr);
    added.weight_decay = group.weight_decay.value_or(weight_decay);
    added.states.assign(added.parameters.size(), std::vector<Tensor>(state_names_.size()));
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

void Optimizer::set_weight_decay(double weight_decay, size_t group) {
  if (!(weight_decay >= 0) || std::isinf(weight_decay))
    throw bad_input("[optimizer] a weight decay of {}", weight_decay);
  groups_.at(group).weight_decay = weight_decay;
}

void Optimizer::set_lr(double lr) {
  for (size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

const Tensor& Optimizer::number(double value) {
  Tensor& known = numbers_[value];
  if (!known.defined()) known = upload(device(), value);
  return known;
}

Tensor Optimizer::spread(const Tensor& scalar, const Tensor& x) {
  if (!scalar.has_value() || scalar.shape() == x.shape()) return scalar;
  auto state = make_pooled<TensorState>(scalar.state());
  state->spec.shape = x.shape();
  state->layout = broadcast_layout(scalar.state().layout, x.shape());
  return Tensor(std::move(state));
}

Tensor& Optimizer::shared_place(const Update& u, const char* name) {
  return shared_[{u.group, name, &u.steps.state()}];
}

Tensor Optimizer::decayed(const Update& u) {
  if (u.weight_decay == 0) return u.parameter;
  return u.parameter * shared(u, "decay", [&] { return number(1) - u.lr * number(u.weight_decay); });
}

Tensor Optimizer::one_minus_power(double base, const Tensor& steps) {
  Tensor& known = powers_[{base, &steps.state()}];
  if (!known.defined()) known = neg(expm1(steps * number(std::log(base))));
  return known;
}

// Gives the states that are in use and undefined their first values; whether there were any. A tensor for each,
// although they are equal: the first step has the plan of all others then.
bool Optimizer::begin_states(const Tensor& parameter, size_t group, std::vector<Tensor>& states) const {
  std::vector<Tensor> begun;
  for (size_t k = 0; k < states.size(); ++k) {
    if (states[k].defined() || !uses(k, group)) continue;
    const auto elements = static_cast<size_t>(parameter.shape().elements());
    const std::vector<float> values(elements, static_cast<float>(initial(group)));
    states[k] = parameter.device()->upload(DType::f32, parameter.shape(), values.data());
    if (parameter.dtype() == DType::f64) states[k] = cast(states[k], DType::f64);
    begun.push_back(states[k]);
  }
  if (!begun.empty()) eval(begun);
  return !begun.empty();
}

void Optimizer::step(const StepOptions& options) {
  const NoGrad no_grad;
  const TrainingNodes training;
  const auto kept = [&](const Tensor& before, const Tensor& after) {
    return options.skip.defined() ? where(options.skip, before, after) : after;
  };
  powers_.clear();  // of a step that has thrown
  shared_.clear();
  constexpr size_t kMostNumbers = 256;  // a schedule may give each step other ones
  if (numbers_.size() > kMostNumbers) numbers_.clear();
  // Parameters that have made equally many steps share their count, and what is computed from it.
  std::map<const TensorState*, Tensor> counted, results;
  for (size_t number_of_group = 0; number_of_group < groups_.size(); ++number_of_group) {
    Group& group = groups_[number_of_group];
    if (!group.lr_tensor.defined()) group.lr_tensor = upload(device(), group.lr);
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      Tensor& place = *group.parameters[i].tensor;
      const Tensor before = place;
      std::shared_ptr<Tensor> gradient = gradient_object(before);
      if (gradient == nullptr) continue;
      clear_gradient(before);  // it may hold its leaf
      Tensor& steps = group.steps[i];
      std::vector<Tensor>& states = group.states[i];
      const bool late = begin_states(before, number_of_group, states) && steps.defined();
      if (!steps.defined()) steps = no_steps_;
      Tensor& count = counted[&steps.state()];
      if (!count.defined()) count = steps + number(1);
      Tensor& result = results[&count.state()];
      if (!result.defined()) result = kept(steps, count);
      std::vector<Tensor> after = states;
      const Tensor value = updated({.parameter = wide(before),
                                    .gradient = group.maximize ? neg(wide(*gradient)) : wide(*gradient),
                                    .lr = group.lr_tensor,
                                    .weight_decay = group.weight_decay,
                                    .steps = count,
                                    .states = after,
                                    .late = late,
                                    .group = number_of_group});
      for (size_t k = 0; k < states.size(); ++k)
        if (after[k].defined() && &after[k].state() != &states[k].state()) states[k] = kept(states[k], after[k]);
      place = kept(before, cast(value, before.dtype()));
      require_gradient(place);
      take_gradient(place, std::move(gradient));
      steps = result;
    }
  }
  powers_.clear();
  shared_.clear();
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  for (const Group& group : groups_)
    for (const nn::Slot& slot : group.parameters)
      set_to_none ? clear_gradient(*slot.tensor) : zero_gradient(*slot.tensor);
}

std::vector<Tensor> Optimizer::tensors() const {
  std::vector<Tensor> tensors;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      tensors.push_back(*group.parameters[i].tensor);
      if (const Tensor gradient = gradient_of(tensors.back()); gradient.defined()) tensors.push_back(gradient);
      if (!group.steps[i].defined()) continue;
      tensors.push_back(group.steps[i]);
      std::ranges::copy_if(group.states[i], std::back_inserter(tensors), &Tensor::defined);
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
        if (group.states[i][k].defined())
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
  for (size_t number_of_group = 0; number_of_group < loaded.size(); ++number_of_group) {
    Group& group = loaded[number_of_group];
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string prefix = group.parameters[i].name + ".";
      const Tensor& parameter = *group.parameters[i].tensor;
      group.steps[i] = Tensor();
      group.states[i].assign(state_names_.size(), Tensor());
      if (!given.contains(prefix + "step")) continue;  // it had no gradient yet
      const Tensor steps = cast(take(prefix + "step", Shape{}), DType::f32);
      group.steps[i] = counts.try_emplace(to_host<float>(steps)[0], steps).first->second;
      const DType dtype = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
      for (size_t k = 0; k < state_names_.size(); ++k)
        if (uses(k, number_of_group) || given.contains(prefix + state_names_[k]))
          group.states[i][k] = cast(take(prefix + state_names_[k], parameter.shape()), dtype);
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
