// Each update has PyTorch's order of operations, so that the results agree to some units in the last place.
#include "gabbro/train/optimizers.h"

#include <cmath>

#include "src/base/error.h"

namespace gabbro::train {
namespace {

void require_share(const char* optimizer, const char* what, double value) {
  if (!(value >= 0 && value < 1)) throw bad_input("[{}] {} {} is not in [0, 1)", optimizer, what, value);
}

// A number that scales or damps: not negative, and finite.
void require_amount(const char* optimizer, const char* what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw bad_input("[{}] {} {} is not a finite number of at least 0", optimizer, what, value);
}

}  // namespace

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay,
                options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{}),
      options_(options) {
  require_amount("sgd", "momentum", options.momentum);
  if (!std::isfinite(options.dampening)) throw bad_input("[sgd] dampening {}", options.dampening);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw bad_input("[sgd] Nesterov's momentum needs a momentum and no dampening");
}

Tensor Sgd::updated(const Update& u) {
  Tensor g = u.gradient;
  if (u.weight_decay != 0) g = g + u.parameter * number(u.weight_decay);
  if (options_.momentum != 0) {
    const Tensor momentum = number(options_.momentum);
    Tensor fresh = g;
    if (options_.dampening != 0)  // the first gradient is taken as it is
      fresh = g * where(equal(u.steps, number(1)), number(1), number(1 - options_.dampening));
    u.states[0] = u.states[0] * momentum + fresh;
    g = options_.nesterov ? g + u.states[0] * momentum : u.states[0];
  }
  return u.parameter - g * u.lr;
}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay,
                options.amsgrad ? std::vector<std::string>{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
                                : std::vector<std::string>{"exp_avg", "exp_avg_sq"}),
      options_(options) {
  require_share("adam", "beta1", options.beta1);
  require_share("adam", "beta2", options.beta2);
  require_amount("adam", "eps", options.epsilon);
}

Tensor Adam::moved(const Update& u, const Tensor& parameter, const Tensor& g) {
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  Tensor &m = u.states[0], &v = u.states[1];
  m = m + (g - m) * number(1 - beta1);
  v = v * number(beta2) + g * g * number(1 - beta2);
  Tensor second = v;
  if (options_.amsgrad) second = u.states[2] = maximum(u.states[2], v);
  const Tensor step = u.lr / one_minus_power(beta1, u.steps);
  const Tensor root = sqrt(second) / sqrt(one_minus_power(beta2, u.steps)) + number(options_.epsilon);
  return parameter - m / root * step;
}

Tensor Adam::updated(const Update& u) {
  return moved(u, u.parameter, u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay) : u.gradient);
}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& o)
    : Adam(std::move(groups), {.lr = o.lr,
                               .beta1 = o.beta1,
                               .beta2 = o.beta2,
                               .epsilon = o.epsilon,
                               .weight_decay = o.weight_decay,
                               .amsgrad = o.amsgrad}) {}

Tensor AdamW::updated(const Update& u) {
  const Tensor left = u.weight_decay != 0 ? u.parameter * (number(1) - u.lr * number(u.weight_decay)) : u.parameter;
  return moved(u, left, u.gradient);
}

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay, {"exp_avg"}), options_(options) {
  require_share("lion", "beta1", options.beta1);
  require_share("lion", "beta2", options.beta2);
}

Tensor Lion::updated(const Update& u) {
  Tensor& m = u.states[0];
  const Tensor left = u.weight_decay != 0 ? u.parameter * (number(1) - u.lr * number(u.weight_decay)) : u.parameter;
  const Tensor direction = sign(m * number(options_.beta1) + u.gradient * number(1 - options_.beta1));
  m = m * number(options_.beta2) + u.gradient * number(1 - options_.beta2);
  return left - direction * u.lr;
}

Adagrad::Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay, {"sum"}, options.initial_accumulator_value),
      options_(options) {
  require_amount("adagrad", "lr_decay", options.lr_decay);
  require_amount("adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  require_amount("adagrad", "eps", options.epsilon);
}

Tensor Adagrad::updated(const Update& u) {
  const Tensor g = u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay) : u.gradient;
  const Tensor rate =
      options_.lr_decay == 0 ? u.lr : u.lr / (number(1) + (u.steps - number(1)) * number(options_.lr_decay));
  u.states[0] = u.states[0] + g * g;
  return u.parameter - g / (sqrt(u.states[0]) + number(options_.epsilon)) * rate;
}

RmsProp::RmsProp(std::vector<ParameterGroup> groups, const RmsPropOptions& options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay,
                [&] {
                  std::vector<std::string> states{"square_avg"};
                  if (options.centered) states.emplace_back("grad_avg");
                  if (options.momentum != 0) states.emplace_back("momentum_buffer");
                  return states;
                }()),
      options_(options) {
  require_share("rmsprop", "alpha", options.alpha);
  require_amount("rmsprop", "momentum", options.momentum);
  require_amount("rmsprop", "eps", options.epsilon);
}

Tensor RmsProp::updated(const Update& u) {
  const Tensor g = u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay) : u.gradient;
  const Tensor rest = number(1 - options_.alpha);
  u.states[0] = u.states[0] * number(options_.alpha) + g * g * rest;
  Tensor square = u.states[0];
  if (options_.centered) {
    Tensor& average = u.states[1];
    average = average + (g - average) * rest;
    square = square - average * average;
  }
  const Tensor direction = g / (sqrt(square) + number(options_.epsilon));
  if (options_.momentum == 0) return u.parameter - direction * u.lr;
  Tensor& buffer = u.states.back();
  buffer = buffer * number(options_.momentum) + direction;
  return u.parameter - buffer * u.lr;
}

}  // namespace gabbro::train
