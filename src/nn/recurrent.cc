#include "gabbro/nn/recurrent.h"

#include <algorithm>
#include <cmath>

#include "gabbro/nn/dropout.h"
#include "gabbro/nn/init.h"
#include "src/base/error.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro::nn {

Recurrent::Recurrent(const Factory& make, const RecurrentOptions& o, RecurrentCell cell)
    : options_(o), cell_(cell), generator_(make.generator) {
  const int64_t gates = recurrent_gates(cell);
  if (o.input_size < 1 || o.hidden_size < 1 || o.num_layers < 1) {
    throw bad_input("[recurrent] {} layers of {} features to {}", o.num_layers, o.input_size, o.hidden_size);
  }
  constexpr int64_t kMostFeatures = int64_t{1} << 31;  // so that products of them do not overflow
  if (std::max(o.input_size, o.hidden_size) > kMostFeatures)
    throw bad_input("[recurrent] {} features to {}: {} are the most", o.input_size, o.hidden_size, kMostFeatures);
  constexpr int64_t kMostLayers = 4096;  // more would take minutes to make
  if (o.num_layers > kMostLayers) throw bad_input("[recurrent] {} layers: {} are the most", o.num_layers, kMostLayers);
  if (o.proj_size < 0 || (o.proj_size > 0 && (gates != 4 || o.proj_size >= o.hidden_size)))
    throw bad_input("[recurrent] a projection to {} of {}: only an LSTM's to less", o.proj_size, o.hidden_size);
  require_probability("recurrent", o.dropout);
  const double bound = 1 / std::sqrt(static_cast<double>(o.hidden_size));
  const int64_t directions = o.bidirectional ? 2 : 1;
  const int64_t state = o.proj_size > 0 ? o.proj_size : o.hidden_size, rows = gates * o.hidden_size;
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
      const auto parameter = [&](const char* name, const Shape& shape) {
        return &add_parameter(make, name + suffix, init::uniform(make, shape, -bound, bound));
      };
      Weights& w = weights_.emplace_back();
      w.ih = parameter("weight_ih", Shape{rows, layer == 0 ? o.input_size : directions * state});
      w.hh = parameter("weight_hh", Shape{rows, state});
      if (o.bias) {
        w.bias_ih = parameter("bias_ih", Shape{rows});
        w.bias_hh = parameter("bias_hh", Shape{rows});
      }
      if (o.proj_size > 0) w.hr = parameter("weight_hr", Shape{o.proj_size, o.hidden_size});
    }
  }
}

void Recurrent::set_options(const RecurrentOptions& o) {
  require_probability("recurrent", o.dropout);
  options_.batch_first = o.batch_first;
  options_.dropout = o.dropout;
}

// x [T, B, I]; `output` becomes [T, B, H].
Recurrent::State Recurrent::run_layer(const Tensor& x, const Weights& w, State state, bool backwards,
                                      Tensor& output) const {
  const auto bias = [](const Tensor* tensor) { return tensor != nullptr ? *tensor : Tensor(); };
  const Tensor gates = linear(x, *w.ih, bias(w.bias_ih));  // [T, B, gates · H], of all steps at once
  const int64_t steps = x.shape()[0];
  if (w.hr != nullptr) return run_projected(gates, w, state, backwards, output);
  const DType dtype = promote(promote(gates.dtype(), w.hh->dtype()), state.h.dtype());
  RecurrentLayer layer{.gates = cast(gates, dtype), .weight = cast(*w.hh, dtype), .h = cast(state.h, dtype)};
  layer.bias = w.bias_hh != nullptr ? cast(*w.bias_hh, dtype) : full(x.device(), Shape{gates.shape()[2]}, 0, dtype);
  layer.c = state.c.defined() ? cast(state.c, dtype) : Tensor();
  layer.cell = cell_;
  layer.reversed = backwards;
  const RecurrentStates states = recurrent(layer);
  output = slice(states.h, 0, backwards ? 0 : 1, steps);
  const auto last = [&](const Tensor& all) { return squeeze(slice(all, 0, backwards ? 0 : steps, 1), 0); };
  return {.h = last(states.h), .c = state.c.defined() ? last(states.c) : Tensor()};
}

// An LSTM whose states are projected, unrolled: weight_hr comes between a step's result and the next step.
Recurrent::State Recurrent::run_projected(const Tensor& gates, const Weights& w, State state, bool backwards,
                                          Tensor& output) const {
  const int64_t steps = gates.shape()[0];
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = backwards ? steps - 1 - step : step;
    const Tensor from_state = linear(state.h, *w.hh, w.bias_hh != nullptr ? *w.bias_hh : Tensor());
    const std::vector<Tensor> sums = split(squeeze(slice(gates, 0, t, 1), 0) + from_state, 4, -1);  // i, f, g, o
    state.c = sigmoid(sums[1]) * state.c + sigmoid(sums[0]) * tanh(sums[2]);
    state.h = linear(sigmoid(sums[3]) * tanh(state.c), *w.hr);
    outputs[static_cast<size_t>(t)] = state.h;
  }
  output = stack(outputs);
  return state;
}

Tensor Recurrent::checked_state(const char* what, const Tensor& state, const Tensor& x, bool batched,
                                int64_t size) const {
  const int64_t count = std::ssize(weights_), batch = x.shape()[1];
  if (!state.defined()) return full(x.device(), Shape{count, batch, size}, 0, x.dtype());
  const Shape wanted = batched ? Shape{count, batch, size} : Shape{count, size};
  if (!(state.shape() == wanted)) {
    throw bad_input("[recurrent] {} is {} instead of {}", what, state.shape().to_string(), wanted.to_string());
  }
  return batched ? state : expand_dims(state, 1);
}

Recurrent::Result Recurrent::run(const Tensor& input, const Tensor& h, const Tensor& c, bool has_cell) {
  require_plain("recurrent", input);
  const int rank = input.shape().rank();
  if ((rank != 2 && rank != 3) || input.shape()[rank - 1] != options_.input_size)
    throw bad_input("[recurrent] x {} does not have {} features", input.shape().to_string(), options_.input_size);
  const bool batched = rank == 3;
  Tensor x = !batched ? expand_dims(input, 1) : options_.batch_first ? swapaxes(input, 0, 1) : input;  // [T, B, I]
  if (x.shape()[0] == 0) throw bad_input("[recurrent] x {} has no steps", input.shape().to_string());
  const int64_t size = options_.proj_size > 0 ? options_.proj_size : options_.hidden_size;
  const Tensor h0 = checked_state("h", h, x, batched, size);
  const Tensor c0 = has_cell ? checked_state("c", c, x, batched, options_.hidden_size) : Tensor();
  const size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> last_h, last_c;
  for (size_t layer = 0; layer * directions < weights_.size(); ++layer) {
    std::vector<Tensor> outputs(directions);
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t place = layer * directions + direction;
      const auto at = [&](const Tensor& all) { return squeeze(slice(all, 0, static_cast<int64_t>(place), 1), 0); };
      const State first{.h = at(h0), .c = has_cell ? at(c0) : Tensor()};
      const State last = run_layer(x, weights_[place], first, direction == 1, outputs[direction]);
      last_h.push_back(last.h);
      last_c.push_back(last.c);
    }
    x = directions == 1 ? outputs[0] : concat(outputs, -1);
    const bool is_last = (layer + 1) * directions == weights_.size();
    if (!is_last) x = dropout(x, options_.dropout, is_training(), *generator_, x.shape());
  }
  const auto all = [&](const std::vector<Tensor>& states) {
    return batched ? stack(states) : squeeze(stack(states), 1);
  };
  return {.output = !batched               ? squeeze(x, 1)
                    : options_.batch_first ? swapaxes(x, 0, 1)
                                           : x,
          .h = all(last_h),
          .c = has_cell ? all(last_c) : Tensor()};
}

}  // namespace gabbro::nn
