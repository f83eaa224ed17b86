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
    : OptimizerWith(std::move(groups), options, {"momentum_buffer"}) {
  check(options);
}

void Sgd::check(const SgdOptions& options) const {
  require_amount("sgd", "momentum", options.momentum);
  if (!std::isfinite(options.dampening)) throw bad_input("[sgd] dampening {}", options.dampening);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw bad_input("[sgd] Nesterov's momentum needs a momentum and no dampening");
}

bool Sgd::uses(size_t /*state*/, size_t group) const { return options_[group].momentum != 0; }

Tensor Sgd::updated(const Update& u) {
  const SgdOptions& o = options_[u.group];
  Tensor g = u.gradient;
  if (u.weight_decay != 0) g = g + u.parameter * number(u.weight_decay, g);
  if (o.momentum != 0) {
    const Tensor momentum = number(o.momentum, g);
    Tensor fresh = g;
    if (o.dampening != 0 && !u.late)  // the first gradient is not dampened
      fresh = g * where(equal(u.steps, number(1)), number(1), number(1 - o.dampening));
    u.states[0] = u.states[0] * momentum + fresh;
    g = o.nesterov ? g + u.states[0] * momentum : u.states[0];
  }
  return u.parameter - g * spread(u.lr, g);
}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : OptimizerWith(std::move(groups), options, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {
  check(options);
}

void Adam::check(const AdamOptions& options) const {
  require_share("adam", "beta1", options.beta1);
  require_share("adam", "beta2", options.beta2);
  require_amount("adam", "eps", options.epsilon);
}

bool Adam::uses(size_t state, size_t group) const { return state < 2 || options_[group].amsgrad; }

Tensor Adam::moved(const Update& u, const Tensor& parameter, const Tensor& g) {
  const AdamOptions& o = options_[u.group];
  Tensor &m = u.states[0], &v = u.states[1];
  m = m + (g - m) * number(1 - o.beta1, g);
  v = v * number(o.beta2, g) + g * g * number(1 - o.beta2, g);
  Tensor second = v;
  if (o.amsgrad) second = u.states[2] = maximum(u.states[2], v);
  const Tensor& step = shared(u, "step", [&] { return u.lr / one_minus_power(o.beta1, u.steps); });
  const Tensor& scale = shared(u, "scale", [&] { return sqrt(one_minus_power(o.beta2, u.steps)); });
  const Tensor root = sqrt(second) / scale + number(o.epsilon, g);
  return parameter - m / root * step;
}

Tensor Adam::updated(const Update& u) {
  return moved(u, u.parameter,
               u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay, u.gradient) : u.gradient);
}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& o)
    : Adam(std::move(groups), {.lr = o.lr,
                               .beta1 = o.beta1,
                               .beta2 = o.beta2,
                               .epsilon = o.epsilon,
                               .weight_decay = o.weight_decay,
                               .amsgrad = o.amsgrad}) {}

Tensor AdamW::updated(const Update& u) {
  const Tensor left = decayed(u);
  return moved(u, left, u.gradient);
}

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& options)
    : OptimizerWith(std::move(groups), options, {"exp_avg"}) {
  check(options);
}

void Lion::check(const LionOptions& options) const {
  require_share("lion", "beta1", options.beta1);
  require_share("lion", "beta2", options.beta2);
}

Tensor Lion::updated(const Update& u) {
  const LionOptions& o = options_[u.group];
  Tensor& m = u.states[0];
  const Tensor left = decayed(u);
  const Tensor direction = sign(m * number(o.beta1, m) + u.gradient * number(1 - o.beta1, m));
  m = m * number(o.beta2, m) + u.gradient * number(1 - o.beta2, m);
  return left - direction * spread(u.lr, m);
}

Adagrad::Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options)
    : OptimizerWith(std::move(groups), options, {"sum"}) {
  check(options);
}

void Adagrad::check(const AdagradOptions& options) const {
  require_amount("adagrad", "lr_decay", options.lr_decay);
  require_amount("adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  require_amount("adagrad", "eps", options.epsilon);
}

Tensor Adagrad::updated(const Update& u) {
  const AdagradOptions& o = options_[u.group];
  const Tensor g = u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay, u.gradient) : u.gradient;
  const Tensor rate = o.lr_decay == 0 ? spread(u.lr, g) : shared(u, "rate", [&] {
    return u.lr / (number(1) + (u.steps - number(1)) * number(o.lr_decay));
  });
  u.states[0] = u.states[0] + g * g;
  return u.parameter - g / (sqrt(u.states[0]) + number(o.epsilon, g)) * rate;
}

RmsProp::RmsProp(std::vector<ParameterGroup> groups, const RmsPropOptions& options)
    : OptimizerWith(std::move(groups), options, {"square_avg", "grad_avg", "momentum_buffer"}) {
  check(options);
}

void RmsProp::check(const RmsPropOptions& options) const {
  require_share("rmsprop", "alpha", options.alpha);
  require_amount("rmsprop", "momentum", options.momentum);
  require_amount("rmsprop", "eps", options.epsilon);
}

bool RmsProp::uses(size_t state, size_t group) const {
  const RmsPropOptions& o = options_[group];
  return state == 0 || (state == 1 ? o.centered : o.momentum != 0);
}

Tensor RmsProp::updated(const Update& u) {
  const RmsPropOptions& o = options_[u.group];
  const Tensor g = u.weight_decay != 0 ? u.gradient + u.parameter * number(u.weight_decay, u.gradient) : u.gradient;
  const Tensor rest = number(1 - o.alpha, g), rate = spread(u.lr, g);
  u.states[0] = u.states[0] * number(o.alpha, g) + g * g * rest;
  Tensor square = u.states[0];
  if (o.centered) {
    Tensor& average = u.states[1];
    average = average + (g - average) * rest;
    square = square - average * average;
  }
  const Tensor direction = g / (sqrt(square) + number(o.epsilon, g));
  if (o.momentum == 0) return u.parameter - direction * rate;
  Tensor& buffer = u.states[2];
  buffer = buffer * number(o.momentum, g) + direction;
  return u.parameter - buffer * rate;
}

}  // namespace gabbro::train
