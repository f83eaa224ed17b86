// Layers of sequences: RNN, LSTM, GRU and MultiheadAttention.
#include "gabbro/nn/attention.h"
#include "gabbro/nn/recurrent.h"

#include "python/src/settings.h"

namespace gabbro::python {
namespace {

constexpr const char* kRecurrentDoc = R"(

Parameters
----------
input_size, hidden_size, num_layers : int
bias : bool
batch_first : bool
    Inputs and outputs are [B, T, ...], else [T, B, ...]; or [T, ...] without a batch.
dropout : float
    Between layers, in training.
bidirectional : bool
    The output holds both directions side by side.
device, dtype
    As in `Linear`.

)";

Tensor defined_or_none(const OptionalTensor& x) { return x.value_or(Tensor()); }

nn::RecurrentOptions recurrent_options(int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias,
                                       bool batch_first, double dropout, bool bidirectional) {
  return {.input_size = input_size,
          .hidden_size = hidden_size,
          .num_layers = num_layers,
          .bias = bias,
          .batch_first = batch_first,
          .dropout = dropout,
          .bidirectional = bidirectional};
}

// Attributes of all three.
template <class R>
void recurrent_settings(nb::class_<R, nn::Module>& layer) {
  fixed(layer, "input_size", [](const R& self) { return self.options().input_size; });
  fixed(layer, "hidden_size", [](const R& self) { return self.options().hidden_size; });
  fixed(layer, "num_layers", [](const R& self) { return self.options().num_layers; });
  fixed(layer, "bias", [](const R& self) { return self.options().bias; });
  fixed(layer, "bidirectional", [](const R& self) { return self.options().bidirectional; });
  fixed(layer, "proj_size", [](const R& self) { return self.options().proj_size; });
  option(layer, "batch_first", &nn::RecurrentOptions::batch_first);
  option(layer, "dropout", &nn::RecurrentOptions::dropout);
}

void set_nonlinearity(nn::RecurrentOptions& options, const std::string& name) {
  if (name != "tanh" && name != "relu") throw bad_input("[rnn] nonlinearity is 'tanh' or 'relu', not '{}'", name);
  options.relu = name == "relu";
}

template <class R>
nb::tuple with_state(R& self, const Tensor& x, const OptionalTensor& hx) {
  const nn::Recurrent::Result result = self(x, defined_or_none(hx));
  return nb::make_tuple(result.output, result.h);
}

nb::tuple with_cell(nn::LSTM& self, const Tensor& x, const std::optional<std::pair<Tensor, Tensor>>& hx) {
  const nn::Recurrent::Result result = hx ? self(x, hx->first, hx->second) : self(x);
  return nb::make_tuple(result.output, nb::make_tuple(result.h, result.c));
}

constexpr const char* kStateSignature =
    "def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]";

void bind_attention(nb::module_& m) {
  nb::class_<nn::MultiheadAttention, nn::Module> attention(m, "MultiheadAttention",
                                                           R"(Attention of several heads (Vaswani et al. 2017).

Parameters
----------
embed_dim, num_heads : int
dropout : float
    Of the weights, in training.
bias : bool
add_bias_kv, add_zero_attn : bool
    One more key and value that are trained, and one of zeros.
kdim, vdim : int, optional
    The lengths of keys and values, where they differ from `embed_dim`.
batch_first : bool
    Inputs and outputs are [B, L, E], else [L, B, E]; or [L, E] without a batch.
device, dtype
    As in `Linear`.

>>> x = gb.ones((1, 3, 4))
>>> output, weights = gb.nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)
>>> output.shape, weights.shape
((1, 3, 4), (1, 3, 3))
)");
  attention.def(
      "__init__",
      [](nn::MultiheadAttention* self, int64_t embed_dim, int64_t num_heads, double dropout, bool bias,
         bool add_bias_kv, bool add_zero_attn, std::optional<int64_t> kdim, std::optional<int64_t> vdim,
         bool batch_first, DeviceArgument device, DType dtype) {
        new (self) nn::MultiheadAttention(factory(device, dtype), {embed_dim, num_heads, dropout, bias, add_bias_kv,
                                                                   add_zero_attn, kdim, vdim, batch_first});
      },
      nb::arg("embed_dim"), nb::arg("num_heads"), nb::arg("dropout") = 0.0, nb::arg("bias") = true,
      nb::arg("add_bias_kv") = false, nb::arg("add_zero_attn") = false, nb::arg("kdim") = nb::none(),
      nb::arg("vdim") = nb::none(), nb::arg("batch_first") = false,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  using Attention = nn::MultiheadAttention;
  fixed(attention, "embed_dim", [](const Attention& self) { return self.options().embed_dim; });
  fixed(attention, "bias", [](const Attention& self) { return self.options().bias; });
  fixed(attention, "add_bias_kv", [](const Attention& self) { return self.options().add_bias_kv; });
  fixed(attention, "kdim",
        [](const Attention& self) { return self.options().kdim.value_or(self.options().embed_dim); });
  fixed(attention, "vdim",
        [](const Attention& self) { return self.options().vdim.value_or(self.options().embed_dim); });
  option(attention, "num_heads", &nn::MultiheadAttentionOptions::num_heads);
  option(attention, "dropout", &nn::MultiheadAttentionOptions::dropout);
  option(attention, "add_zero_attn", &nn::MultiheadAttentionOptions::add_zero_attn);
  option(attention, "batch_first", &nn::MultiheadAttentionOptions::batch_first);
  attention.def(
      "forward",
      [](nn::MultiheadAttention& self, const Tensor& query, const Tensor& key, const Tensor& value,
         const OptionalTensor& key_padding_mask, bool need_weights, const OptionalTensor& attn_mask, bool average,
         bool is_causal) {
        using Weights = nn::MultiheadAttention::Weights;
        const auto result = self(
            query, key, value,
            {.keys = defined_or_none(key_padding_mask), .attention = defined_or_none(attn_mask), .causal = is_causal},
            !need_weights ? Weights::kNone
            : average     ? Weights::kMean
                          : Weights::kHeads);
        return nb::make_tuple(result.output,
                              result.weights.defined() ? nb::cast(result.weights) : nb::object(nb::none()));
      },
      nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("key_padding_mask") = nb::none(),
      nb::arg("need_weights") = true, nb::arg("attn_mask") = nb::none(), nb::arg("average_attn_weights") = true,
      nb::arg("is_causal") = false,
      nb::sig("def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, "
              "need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True, "
              "is_causal: bool = False) -> tuple[Tensor, Tensor | None]"),
      R"(The output, and the weights [B, L, S], or [B, H, L, S] where they are not averaged; None without `need_weights`.

Masks are bool, true where a key may not be seen, or floats that are added to the scores: `key_padding_mask` [B, S],
`attn_mask` [L, S] or [B · H, L, S]. With `is_causal`, query l sees keys 0 to l.
)");
}

}  // namespace

void bind_sequence_layers(nb::module_& m) {
  const std::string rnn_doc = std::string(
                                  "h = tanh(W_ih · x + b_ih + W_hh · h + b_hh) (Elman 1990), or relu in place of "
                                  "tanh.") +
                              kRecurrentDoc +
                              ">>> output, h = gb.nn.RNN(3, 4)(gb.ones((5, 2, 3)))\n>>> output.shape, h.shape\n"
                              "((5, 2, 4), (1, 2, 4))\n";
  nb::class_<nn::RNN, nn::Module> rnn(m, "RNN", rnn_doc.c_str());
  rnn.def(
      "__init__",
      [](nn::RNN* self, int64_t input_size, int64_t hidden_size, int64_t num_layers, const std::string& nonlinearity,
         bool bias, bool batch_first, double dropout, bool bidirectional, DeviceArgument device, DType dtype) {
        nn::RecurrentOptions options =
            recurrent_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional);
        set_nonlinearity(options, nonlinearity);
        new (self) nn::RNN(factory(device, dtype), options);
      },
      nb::arg("input_size"), nb::arg("hidden_size"), nb::arg("num_layers") = 1, nb::arg("nonlinearity") = "tanh",
      nb::arg("bias") = true, nb::arg("batch_first") = false, nb::arg("dropout") = 0.0,
      nb::arg("bidirectional") = false, nb::kw_only(), nb::arg("device").none() = DeviceArgument{nb::none()},
      nb::arg("dtype") = DType::f32);
  recurrent_settings(rnn);
  fixed(rnn, "nonlinearity", [](const nn::RNN& self) { return self.options().relu ? "relu" : "tanh"; });
  rnn.def("forward", with_state<nn::RNN>, nb::arg("x"), nb::arg("hx") = nb::none(), nb::sig(kStateSignature),
          "The output [T, B, D · H], and the last states [layers · D, B, H].");

  const std::string lstm_doc = std::string(
                                   "c = f · c + i · g; h = o · tanh(c) (Hochreiter and Schmidhuber 1997). With "
                                   "`proj_size` h is projected to it (Sak et al. 2014).") +
                               kRecurrentDoc +
                               ">>> output, (h, c) = gb.nn.LSTM(3, 4)(gb.ones((5, 2, 3)))\n>>> output.shape, c.shape\n"
                               "((5, 2, 4), (1, 2, 4))\n";
  nb::class_<nn::LSTM, nn::Module> lstm(m, "LSTM", lstm_doc.c_str());
  lstm.def(
      "__init__",
      [](nn::LSTM* self, int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias, bool batch_first,
         double dropout, bool bidirectional, int64_t proj_size, DeviceArgument device, DType dtype) {
        nn::RecurrentOptions options =
            recurrent_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional);
        options.proj_size = proj_size;
        new (self) nn::LSTM(factory(device, dtype), options);
      },
      nb::arg("input_size"), nb::arg("hidden_size"), nb::arg("num_layers") = 1, nb::arg("bias") = true,
      nb::arg("batch_first") = false, nb::arg("dropout") = 0.0, nb::arg("bidirectional") = false,
      nb::arg("proj_size") = 0, nb::kw_only(), nb::arg("device").none() = DeviceArgument{nb::none()},
      nb::arg("dtype") = DType::f32);
  recurrent_settings(lstm);
  lstm.def("forward", with_cell, nb::arg("x"), nb::arg("hx") = nb::none(),
           nb::sig("def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> "
                   "tuple[Tensor, tuple[Tensor, Tensor]]"),
           "The output [T, B, D · H], and the last states h and c [layers · D, B, H].");

  const std::string gru_doc = std::string(
                                  "n = tanh(x's share + r · h's share); h = (1 - z) · n + z · h (Cho et al. "
                                  "2014).") +
                              kRecurrentDoc +
                              ">>> output, h = gb.nn.GRU(3, 4)(gb.ones((5, 2, 3)))\n>>> output.shape, h.shape\n"
                              "((5, 2, 4), (1, 2, 4))\n";
  nb::class_<nn::GRU, nn::Module> gru(m, "GRU", gru_doc.c_str());
  gru.def(
      "__init__",
      [](nn::GRU* self, int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias, bool batch_first,
         double dropout, bool bidirectional, DeviceArgument device, DType dtype) {
        new (self) nn::GRU(factory(device, dtype), recurrent_options(input_size, hidden_size, num_layers, bias,
                                                                     batch_first, dropout, bidirectional));
      },
      nb::arg("input_size"), nb::arg("hidden_size"), nb::arg("num_layers") = 1, nb::arg("bias") = true,
      nb::arg("batch_first") = false, nb::arg("dropout") = 0.0, nb::arg("bidirectional") = false, nb::kw_only(),
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  recurrent_settings(gru);
  gru.def("forward", with_state<nn::GRU>, nb::arg("x"), nb::arg("hx") = nb::none(), nb::sig(kStateSignature),
          "The output [T, B, D · H], and the last states [layers · D, B, H].");
  bind_attention(m);
}

}  // namespace gabbro::python
