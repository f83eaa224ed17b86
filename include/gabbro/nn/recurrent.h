// Recurrent networks: RNN (Elman 1990), LSTM (Hochreiter & Schmidhuber 1997) and GRU (Cho et al.
// 2014), with the formulas, names and arguments of torch.nn.
#pragma once

#include "gabbro/nn/module.h"
#include "gabbro/ops/recurrent.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct RecurrentOptions {
  int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // [B, T, I], else [T, B, I]; or [T, I] without a batch
  double dropout = 0;        // between layers
  bool bidirectional = false;
  bool relu = false;      // RNN: relu in place of tanh
  int64_t proj_size = 0;  // LSTM: what the output is projected to; 0: it is not (Sak et al. 2014)
};

// Common part of the three. Layers and directions are ordered as in PyTorch: layer 0 forward, backward, layer 1
// ...
class Recurrent : public Module {
 public:
  const RecurrentOptions& options() const { return options_; }
  // batch_first and dropout count from the next call on; the rest shaped the parameters.
  void set_options(const RecurrentOptions& options);

  struct Result {
    Tensor output;  // [T, B, D · H]: of the last layer, D directions side by side
    Tensor h, c;    // [layers · D, B, H]: the last states; c of an LSTM alone
  };

 protected:
  struct State {
    Tensor h, c;  // [B, H]
  };
  // Parameters of one layer and direction; those that there are not are undefined.
  struct Weights {
    Tensor *ih = nullptr, *hh = nullptr, *bias_ih = nullptr, *bias_hh = nullptr, *hr = nullptr;
  };

  Recurrent(const Factory& make, const RecurrentOptions& options, RecurrentCell cell);
  // Initial states [layers · D, B, H] may be undefined: zeros.
  Result run(const Tensor& x, const Tensor& h, const Tensor& c, bool has_cell);

  RecurrentOptions options_;

 private:
  State run_layer(const Tensor& x, const Weights& w, State state, bool backwards, Tensor& output) const;
  State run_projected(const Tensor& gates, const Weights& w, State state, bool backwards, Tensor& output) const;
  Tensor checked_state(const char* what, const Tensor& state, const Tensor& x, bool batched, int64_t size) const;

  RecurrentCell cell_;
  std::vector<Weights> weights_;  // by layer and direction
  std::shared_ptr<Generator> generator_;
};

// h = tanh(W_ih · x + b_ih + W_hh · h + b_hh).
class RNN : public Recurrent {
 public:
  RNN(const Factory& make, const RecurrentOptions& options)
      : Recurrent(make, options, options.relu ? RecurrentCell::kRelu : RecurrentCell::kTanh) {}
  Result operator()(const Tensor& x, const Tensor& h = {}) { return run(x, h, {}, false); }
};

// Gates i, f, g, o: c = f · c + i · g; h = o · tanh(c).
class LSTM : public Recurrent {
 public:
  LSTM(const Factory& make, const RecurrentOptions& options) : Recurrent(make, options, RecurrentCell::kLstm) {}
  Result operator()(const Tensor& x, const Tensor& h = {}, const Tensor& c = {}) { return run(x, h, c, true); }
};

// Gates r, z, n: n = tanh(x's share + r · h's share); h = (1 - z) · n + z · h.
class GRU : public Recurrent {
 public:
  GRU(const Factory& make, const RecurrentOptions& options) : Recurrent(make, options, RecurrentCell::kGru) {}
  Result operator()(const Tensor& x, const Tensor& h = {}) { return run(x, h, {}, false); }
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
