// Base of the optimizers: parameters in groups, a state for each, and a step that replaces both. Nothing is computed
// before it is evaluated: see evaluate().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

// Parameters with their learning rate and weight decay; those that are not given are the optimizer's.
struct ParameterGroup {
  std::vector<nn::Slot> parameters;
  std::optional<double> lr{}, weight_decay{};
};

struct StepOptions {
  // bool (): where it is true, the step leaves parameters and states as they are (loss_scaler.h).
  Tensor skip{};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Records the new values of all parameters that have a gradient, and of their states. The parameters are new leaves
  // then, without gradients: a step uses them up, so there is nothing to be cleared before the next backward().
  // f16 and bf16 are updated in f32 and rounded; their states are f32.
  void step(const StepOptions& options = {});
  void zero_grad();  // forgets gradients without a step

  size_t groups() const { return groups_.size(); }
  double lr(size_t group = 0) const { return groups_.at(group).lr; }
  // Tensors on the device, so that another rate makes no other plan.
  void set_lr(double lr, size_t group);
  void set_lr(double lr);  // of all groups
  const std::vector<nn::Slot>& parameters(size_t group = 0) const { return groups_.at(group).parameters; }

  // The parameters and states, which a step has to evaluate together with the loss.
  std::vector<Tensor> tensors() const;

  // States under "PARAMETER.exp_avg" and so on; "PARAMETER.step" counts the steps. Loading wants all that there are;
  // it throws bad_input for names that are not known and for other shapes.
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);

 protected:
  // Operands of a parameter's update; the states are replaced. All f32, or f64 if the parameter is.
  struct Update {
    Tensor parameter, gradient;
    Tensor lr;  // ()
    double weight_decay = 0;
    Tensor steps;              // f32 (): how many there are with this one
    std::span<Tensor> states;  // in the order of `states` below
  };
  // `states`: the names of what is kept for each parameter, which begins at `initial`.
  Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay, std::vector<std::string> states,
            double initial = 0);

  virtual Tensor updated(const Update& update) = 0;

  // A number of f32 and shape () that is uploaded once.
  const Tensor& number(double value);
  // 1 - base^steps, which does not cancel: computed by expm1.
  Tensor one_minus_power(double base, const Tensor& steps);

 private:
  struct Group {
    std::vector<nn::Slot> parameters;
    double lr, weight_decay;
    Tensor lr_tensor;                         // undefined: to be uploaded
    std::vector<std::vector<Tensor>> states;  // for each parameter; empty before its first step
    std::vector<Tensor> steps;                // for each parameter, f32 (); most of them share one tensor
  };

  std::vector<Tensor> initial_states(const Tensor& parameter) const;
  const std::shared_ptr<Device>& device() const;

  std::vector<Group> groups_;
  std::vector<std::string> state_names_;
  double initial_;
  Tensor no_steps_;
  std::map<double, Tensor> numbers_;
  std::map<std::pair<double, const TensorState*>, Tensor> powers_;  // of this step
};

// Computes these tensors together with the model's and the optimizer's: a whole training step in one plan.
void evaluate(nn::Module& model, const Optimizer& optimizer, std::vector<Tensor> more = {});

}  // namespace gabbro::train
#pragma GCC visibility pop
