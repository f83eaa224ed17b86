// Base of the optimizers: parameters in groups, a state for each, and a step that replaces both. Nothing is computed
// before it is evaluated: see evaluate().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

// Parameters with their learning rate and weight decay; those that are not given are the optimizer's. The other options
// of a group are set by the set_options of each optimizer.
struct ParameterGroup {
  std::vector<nn::Slot> parameters;
  std::optional<double> lr{}, weight_decay{};
};

struct StepOptions {
  // bool (): if true, the step leaves parameters and states unchanged (loss_scaler.h).
  Tensor skip{};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Records the new values of all parameters that have a gradient, and of their states. The parameters are new leaves
  // then. Their gradients stay until zero_grad(): the next backward() adds to them.
  // f16 and bf16 are updated in f32 and rounded; their states are f32.
  void step(const StepOptions& options = {});
  void zero_grad(bool set_to_none = true);  // forgets the gradients, or makes their elements 0

  size_t groups() const { return groups_.size(); }
  double lr(size_t group = 0) const { return groups_.at(group).lr; }
  // Tensors on the device, so that another rate makes no other plan.
  void set_lr(double lr, size_t group);
  void set_lr(double lr);  // of all groups
  bool maximizes(size_t group = 0) const { return groups_.at(group).maximize; }
  void set_maximize(bool maximize, size_t group) { groups_.at(group).maximize = maximize; }
  const std::vector<nn::Slot>& parameters(size_t group = 0) const { return groups_.at(group).parameters; }

  // The parameters, their gradients and states, which a step has to evaluate together with the loss.
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
    std::span<Tensor> states;  // in the order of `states` below; those that are not in use may be undefined
    bool late = false;         // a state began after the parameter's first step, as an option was changed
    size_t group = 0;
  };
  // `states`: the names of what may be kept for each parameter.
  Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay, std::vector<std::string> states);

  virtual Tensor updated(const Update& update) = 0;
  // Whether a group's options want this state.
  virtual bool uses(size_t /*state*/, size_t /*group*/) const { return true; }
  virtual double initial(size_t /*group*/) const { return 0; }  // the first value of states

  void set_weight_decay(double weight_decay, size_t group);
  double weight_decay(size_t group) const { return groups_.at(group).weight_decay; }

  // A number of f32 and shape () that is uploaded once.
  const Tensor& number(double value);
  // A view of that number in x's shape: no op records the broadcast.
  Tensor number(double value, const Tensor& x) { return spread(number(value), x); }
  // A view of a () tensor in x's shape; a tensor without a value is returned unchanged.
  static Tensor spread(const Tensor& scalar, const Tensor& x);
  // 1 - base^steps, which does not cancel: computed by expm1.
  Tensor one_minus_power(double base, const Tensor& steps);
  // The parameter times 1 - lr · decay.
  Tensor decayed(const Update& u);
  // A tensor that all parameters of a group with equally many steps share: recorded once a step. `name` is a literal.
  template <class Make>
  const Tensor& shared(const Update& u, const char* name, const Make& make) {
    Tensor& known = shared_place(u, name);
    if (!known.defined()) known = make();
    return known;
  }

 private:
  Tensor& shared_place(const Update& u, const char* name);

  struct Group {
    std::vector<nn::Slot> parameters;
    double lr, weight_decay;
    bool maximize = false;
    Tensor lr_tensor;                         // undefined: to be uploaded
    std::vector<std::vector<Tensor>> states;  // for each parameter; undefined where they are not in use
    std::vector<Tensor> steps;                // for each parameter, f32 (); most of them share one tensor
  };

  bool begin_states(const Tensor& parameter, size_t group, std::vector<Tensor>& states) const;
  const std::shared_ptr<Device>& device() const;

  std::vector<Group> groups_;
  std::vector<std::string> state_names_;
  Tensor no_steps_;
  std::map<double, Tensor> numbers_;
  std::map<std::pair<double, const void*>, Tensor> powers_;                     // of this step, by base and steps
  std::map<std::tuple<size_t, std::string_view, const void*>, Tensor> shared_;  // of this step
};

// Computes these tensors together with the model's and the optimizer's: a whole training step in one plan.
void evaluate(nn::Module& model, const Optimizer& optimizer, std::vector<Tensor> more = {});

}  // namespace gabbro::train
#pragma GCC visibility pop
