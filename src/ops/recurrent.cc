// RNN (Elman 1990), LSTM (Hochreiter & Schmidhuber 1997) and GRU (Cho et al. 2014) over all steps, with the formulas of
// torch.nn, and their gradient by backpropagation through time.
#include "gabbro/ops/recurrent.h"

#include "src/graph/history.h"
#include "src/ops/grad.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

RecurrentCell cell_of(const Attributes& attributes) { return static_cast<RecurrentCell>(attributes.integer("cell")); }

// Step s leads from state s to state s + 1, and reads row `step_row(s)` of the gates.
struct Order {
  int64_t steps;
  bool reversed;
  int64_t step_row(int64_t s) const { return reversed ? steps - 1 - s : s; }
  int64_t state_row(int64_t s) const { return reversed ? steps - s : s; }
  // The states before each step [T, ...], of states [T + 1, ...].
  Tensor before(const Tensor& states) const { return slice(states, 0, reversed ? 1 : 0, steps); }
};

Tensor row_of(const Tensor& x, int64_t row) { return squeeze(slice(x, 0, row, 1), 0); }

struct Step {
  Tensor h, c, activations;  // [B, H], [B, H], [B, 4 · H]
};

// `x` is a step's row of the gates, `y` the state's: h · weightᵀ + bias; both [B, G · H].
Step step_of(RecurrentCell cell, const Tensor& x, const Tensor& y, const Step& state) {
  switch (cell) {
    case RecurrentCell::kTanh:
      return {.h = tanh(x + y), .c = {}, .activations = {}};
    case RecurrentCell::kRelu:
      return {.h = relu(x + y), .c = {}, .activations = {}};
    case RecurrentCell::kLstm: {
      const std::vector<Tensor> sums = split(x + y, 4, -1);
      const Tensor i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
      const Tensor c = f * state.c + i * g;
      return {.h = o * tanh(c), .c = c, .activations = concat({i, f, g, o}, -1)};
    }
    case RecurrentCell::kGru: {
      const std::vector<Tensor> xs = split(x, 3, -1), ys = split(y, 3, -1);
      const Tensor r = sigmoid(xs[0] + ys[0]), z = sigmoid(xs[1] + ys[1]);
      const Tensor n = tanh(xs[2] + r * ys[2]);
      return {.h = n + z * (state.h - n), .c = {}, .activations = concat({r, z, n, ys[2]}, -1)};
    }
  }
  throw failed("internal: no such recurrent cell");
}

std::vector<Tensor> compose_forward(const Args& a) {
  const RecurrentCell cell = cell_of(a.attributes);
  const bool has_cell = cell == RecurrentCell::kLstm, has_gates = has_cell || cell == RecurrentCell::kGru;
  const Order order{a[0].shape()[0], a.attributes.integer("reversed") != 0};
  const auto rows = static_cast<size_t>(order.steps);
  std::vector<Tensor> h(rows + 1), c(rows + 1), activations(rows);
  Step state{.h = a[3], .c = has_cell ? a[4] : Tensor(), .activations = {}};
  for (int64_t s = 0;; ++s) {
    h[static_cast<size_t>(order.state_row(s))] = state.h;
    c[static_cast<size_t>(order.state_row(s))] = state.c;
    if (s == order.steps) break;
    const int64_t row = order.step_row(s);
    state = step_of(cell, row_of(a[0], row), linear(state.h, a[1], a[2]), state);
    activations[static_cast<size_t>(row)] = state.activations;
  }
  std::vector<Tensor> results{stack(h)};
  if (has_cell) results.push_back(stack(c));
  if (has_gates) results.push_back(stack(activations));
  return results;
}

// The saved values of one step and the gradients of the state that it led to, as the formulas need them.
struct Saved {
  Tensor h, h_before, c, c_before, activations;
};

struct StepGradient {
  Tensor gates;  // of the pre-activations, by what the input adds to them
  Tensor state;  // the same by what the state adds: differs for a GRU alone
  Tensor h, c;   // what goes to the state before besides; undefined: nothing
};

// dσ(x) and d tanh(x) from their values.
Tensor through_sigmoid(const Tensor& y, const Tensor& dy) { return dy * y * (number_like(y, 1) - y); }
Tensor through_tanh(const Tensor& y, const Tensor& dy) { return dy * (number_like(y, 1) - y * y); }

StepGradient step_gradient(RecurrentCell cell, const Saved& saved, const Tensor& dh, const Tensor& dc_after) {
  switch (cell) {
    case RecurrentCell::kTanh: {
      const Tensor sum = through_tanh(saved.h, dh);
      return {.gates = sum, .state = sum, .h = {}, .c = {}};
    }
    case RecurrentCell::kRelu: {
      const Tensor sum = where_or_zero(greater(saved.h, number_like(saved.h, 0)), dh);
      return {.gates = sum, .state = sum, .h = {}, .c = {}};
    }
    case RecurrentCell::kLstm: {
      const std::vector<Tensor> v = split(saved.activations, 4, -1);
      const Tensor &i = v[0], &f = v[1], &g = v[2], &o = v[3], t = tanh(saved.c);
      const Tensor dc = dc_after + through_tanh(t, dh * o);
      const Tensor sums = concat({through_sigmoid(i, dc * g), through_sigmoid(f, dc * saved.c_before),
                                  through_tanh(g, dc * i), through_sigmoid(o, dh * t)},
                                 -1);
      return {.gates = sums, .state = sums, .h = {}, .c = dc * f};
    }
    case RecurrentCell::kGru: {
      const std::vector<Tensor> v = split(saved.activations, 4, -1);
      const Tensor &r = v[0], &z = v[1], &n = v[2], &y = v[3];
      const Tensor dn = through_tanh(n, dh * (number_like(z, 1) - z));
      const Tensor dr = through_sigmoid(r, dn * y), dz = through_sigmoid(z, dh * (saved.h_before - n));
      return {.gates = concat({dr, dz, dn}, -1), .state = concat({dr, dz, dn * r}, -1), .h = dh * z, .c = {}};
    }
  }
  throw failed("internal: no such recurrent cell");
}

std::vector<Tensor> compose_gradient(const Args& a) {
  const RecurrentCell cell = cell_of(a.attributes);
  const bool has_cell = cell == RecurrentCell::kLstm, has_gates = has_cell || cell == RecurrentCell::kGru;
  const Tensor &weight = a[0], &h = a[1], &dh = a[2];
  const Order order{h.shape()[0] - 1, a.attributes.integer("reversed") != 0};
  const auto rows = static_cast<size_t>(order.steps);
  std::vector<Tensor> gates(rows), states(rows);
  Tensor h_sum = row_of(dh, order.state_row(order.steps));
  Tensor c_sum = has_cell ? row_of(a[5], order.state_row(order.steps)) : Tensor();
  for (int64_t s = order.steps; s-- > 0;) {
    const int64_t row = order.step_row(s), after = order.state_row(s + 1), before = order.state_row(s);
    const Saved saved{.h = row_of(h, after),
                      .h_before = row_of(h, before),
                      .c = has_cell ? row_of(a[4], after) : Tensor(),
                      .c_before = has_cell ? row_of(a[4], before) : Tensor(),
                      .activations = has_gates ? row_of(a[3], row) : Tensor()};
    const StepGradient step = step_gradient(cell, saved, h_sum, c_sum);
    gates[static_cast<size_t>(row)] = step.gates;
    states[static_cast<size_t>(row)] = step.state;
    h_sum = row_of(dh, before) + matmul(step.state, weight);
    if (step.h.defined()) h_sum = h_sum + step.h;
    if (step.c.defined()) c_sum = row_of(a[5], before) + step.c;
  }
  std::vector<Tensor> results{stack(gates), h_sum};
  if (cell == RecurrentCell::kGru) results.push_back(stack(states));
  if (has_cell) results.push_back(c_sum);
  return results;
}

Gradients gradient_of_recurrent(const GradientArgs& a) {
  // Gradients of higher order come from the composition: `recurrent_gradient` is not differentiated.
  if (gradients_enabled()) return gradient_of_composition(kRecurrent, a);
  const RecurrentCell cell = cell_of(a.attributes);
  const bool has_cell = cell == RecurrentCell::kLstm;
  const Tensor& h = a.outputs[0];
  const auto or_zero = [&](const Tensor& x) { return x.defined() ? x : filled_like(h, h.shape(), 0); };
  std::vector<Tensor> inputs{a[1], h, or_zero(a.gradients[0])};
  if (cell == RecurrentCell::kGru) inputs.push_back(a.outputs[1]);
  if (has_cell) inputs.insert(inputs.end(), {a.outputs[2], a.outputs[1], or_zero(a.gradients[1])});
  const std::vector<Tensor> results = record_all(kRecurrentGradient, inputs, a.attributes);
  const Tensor &gates = results[0], &sums = cell == RecurrentCell::kGru ? results[2] : gates;  // [T, B, G · H]
  const Order order{gates.shape()[0], a.attributes.integer("reversed") != 0};
  const Tensor rows = flatten(sums, 0, 1), before = flatten(order.before(h), 0, 1);
  Gradients gradients{gates, matmul(swapaxes(rows, 0, 1), before), sum(rows, 0), results[1]};
  if (has_cell) gradients.push_back(results[2]);
  return gradients;
}

}  // namespace

// Inputs: gates, weight, bias, h and, of an LSTM, c, as in RecurrentLayer. Results: the states h and, of an LSTM, c
// [T + 1, B, H]; of an LSTM and a GRU also the activations that the gradient reads [T, B, 4 · H]: i, f, g, o, or r, z,
// n and the part of n that r multiplies.
const Op kRecurrent = {
    .name = "recurrent",
    .infer =
        [](const Args& a) {
          const RecurrentCell cell = cell_of(a.attributes);
          const int64_t steps = a[0].shape()[0], batch = a[3].shape()[0], hidden = a[3].shape()[1];
          const DType dtype = a[0].dtype();
          std::vector<TensorSpec> specs = result(Shape{steps + 1, batch, hidden}, dtype);
          if (cell == RecurrentCell::kLstm) specs.push_back(specs.front());
          if (recurrent_gates(cell) > 1) specs.push_back({.shape = Shape{steps, batch, 4 * hidden}, .dtype = dtype});
          return specs;
        },
    .compose = compose_forward,
    .gradient = gradient_of_recurrent,
};

// Inputs: weight, the states h and their gradient; the activations of an LSTM and a GRU; the states c and their
// gradient of an LSTM. Results: the gradient of the gates [T, B, G · H] and of the first h [B, H]; of a GRU that of
// h · weightᵀ + bias [T, B, 3 · H], of an LSTM that of the first c.
const Op kRecurrentGradient = {
    .name = "recurrent_gradient",
    .infer =
        [](const Args& a) {
          const RecurrentCell cell = cell_of(a.attributes);
          const Shape &states = a[1].shape(), first{states[1], states[2]};
          const TensorSpec gates{.shape = Shape{states[0] - 1, states[1], a[0].shape()[0]}, .dtype = a[1].dtype()};
          std::vector<TensorSpec> specs{gates, {.shape = first, .dtype = a[1].dtype()}};
          if (cell == RecurrentCell::kGru) specs.push_back(gates);
          if (cell == RecurrentCell::kLstm) specs.push_back({.shape = first, .dtype = a[1].dtype()});
          return specs;
        },
    .compose = compose_gradient,
};

RecurrentStates recurrent(const RecurrentLayer& layer) {
  require_plain("recurrent", layer.gates);
  require_rank("recurrent", layer.gates, 3);
  const bool has_cell = layer.cell == RecurrentCell::kLstm;
  const int64_t batch = layer.gates.shape()[1], rows = layer.gates.shape()[2];
  const int64_t hidden = rows / recurrent_gates(layer.cell);
  std::vector<Tensor> inputs{layer.gates, layer.weight, layer.bias, layer.h};
  if (has_cell) inputs.push_back(layer.c);
  const Shape shapes[] = {layer.gates.shape(), Shape{rows, hidden}, Shape{rows}, Shape{batch, hidden},
                          Shape{batch, hidden}};
  if (!is_floating(layer.gates.dtype()) || rows % recurrent_gates(layer.cell) != 0 || layer.gates.shape()[0] < 1)
    throw bad_input("[recurrent] gates are {} {}", dtype_name(layer.gates.dtype()), layer.gates.shape().to_string());
  for (size_t i = 1; i < inputs.size(); ++i) {
    require_plain("recurrent", inputs[i]);
    if (inputs[i].shape() == shapes[i] && inputs[i].dtype() == layer.gates.dtype()) continue;
    throw bad_input("[recurrent] input {} is {} {}: {} {} is needed", i, dtype_name(inputs[i].dtype()),
                    inputs[i].shape().to_string(), dtype_name(layer.gates.dtype()), shapes[i].to_string());
  }
  const std::vector<Tensor> results = record_all(
      kRecurrent, inputs, {{"cell", static_cast<int64_t>(layer.cell)}, {"reversed", int64_t{layer.reversed}}});
  return {.h = results[0], .c = has_cell ? results[1] : Tensor()};
}

}  // namespace gabbro
