// Layers of a transformer; stacks of them are gabbro/nn/stacks.py.
#include "gabbro/nn/transformer.h"

#include "python/src/settings.h"

namespace gabbro::python {
namespace {

// A layer that knows the name of its activation.
template <class L>
struct Repeatable : L {
  Repeatable(const nn::Factory& make, const nn::TransformerLayerOptions& options, std::string function)
      : L(make, options), activation(std::move(function)) {}

  std::string activation;
};
using EncoderLayer = Repeatable<nn::TransformerEncoderLayer>;
using DecoderLayer = Repeatable<nn::TransformerDecoderLayer>;

std::function<Tensor(const Tensor&)> activation(const std::string& name) {
  if (name == "relu") return [](const Tensor& x) { return relu(x); };
  if (name == "gelu") return [](const Tensor& x) { return gelu(x, false); };
  if (name == "silu") return [](const Tensor& x) { return silu(x); };
  throw bad_input("[transformer] activation is 'relu', 'gelu' or 'silu', not '{}'", name);
}

template <class L>
nb::dict layer_arguments(const L& layer) {
  const nn::TransformerLayerOptions& o = layer.options();
  nb::dict result;
  result["d_model"] = o.d_model;
  result["nhead"] = o.nhead;
  result["dim_feedforward"] = o.dim_feedforward;
  result["dropout"] = o.dropout;
  result["activation"] = layer.activation;
  result["layer_norm_eps"] = o.layer_norm_eps;
  result["batch_first"] = o.batch_first;
  result["norm_first"] = o.norm_first;
  result["bias"] = o.bias;
  result["device"] = device_object(layer.linear1->weight.device());
  result["dtype"] = dtype_object(layer.linear1->weight.dtype());
  return result;
}

nn::AttentionMasks masks(const OptionalTensor& keys, const OptionalTensor& attention, bool causal) {
  return {.keys = or_none(keys), .attention = or_none(attention), .causal = causal};
}

// norm_first and the activation count in the next call; the rest shaped the parameters and modules inside of it.
template <class L>
void layer_settings(nb::class_<L, nn::Module>& layer) {
  using Options = nn::TransformerLayerOptions;
  option(layer, "norm_first", &Options::norm_first);
  setting_of<std::string>(
      layer, "activation", +[](const L& self) { return self.activation; },
      +[](L& self, std::string name) {
        Options options = self.options();
        options.activation = activation(name);
        self.set_options(options);
        self.activation = std::move(name);
      });
  fixed(layer, "d_model", [](const L& self) { return self.options().d_model; });
  fixed(layer, "nhead", [](const L& self) { return self.options().nhead; });
  fixed(layer, "dim_feedforward", [](const L& self) { return self.options().dim_feedforward; });
  fixed(layer, "layer_norm_eps", [](const L& self) { return self.options().layer_norm_eps; });
  fixed(layer, "batch_first", [](const L& self) { return self.options().batch_first; });
  fixed(layer, "bias", [](const L& self) { return self.options().bias; });
}

template <class L>
nb::class_<L, nn::Module> bind_layer(nb::module_& m, const char* name, const char* doc) {
  nb::class_<L, nn::Module> layer(m, name, doc);
  layer
      .def(
          "__init__",
          [](L* self, int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
             const std::string& function, double eps, bool batch_first, bool norm_first, bool bias,
             DeviceArgument device, DType dtype) {
            new (self) L(factory(device, dtype),
                         {.d_model = d_model,
                          .nhead = nhead,
                          .dim_feedforward = dim_feedforward,
                          .dropout = dropout,
                          .activation = activation(function),
                          .layer_norm_eps = eps,
                          .batch_first = batch_first,
                          .norm_first = norm_first,
                          .bias = bias},
                         function);
          },
          nb::arg("d_model"), nb::arg("nhead"), nb::arg("dim_feedforward") = 2048, nb::arg("dropout") = 0.1,
          nb::arg("activation") = "relu", nb::arg("layer_norm_eps") = 1e-5, nb::arg("batch_first") = false,
          nb::arg("norm_first") = false, nb::arg("bias") = true, nb::arg("device").none() = DeviceArgument{nb::none()},
          nb::arg("dtype") = DType::f32)
      .def("_arguments", layer_arguments<L>, nb::sig("def _arguments(self) -> dict[str, Any]"));
  layer_settings(layer);
  return layer;
}

}  // namespace

void bind_transformers(nb::module_& m) {
  bind_layer<EncoderLayer>(m, "TransformerEncoderLayer",
                           R"(Attention within x, and a network of two layers for each token (Vaswani et al. 2017).

Parameters
----------
d_model, nhead, dim_feedforward : int
dropout : float
activation : str
    ``"relu"``, ``"gelu"`` or ``"silu"``.
layer_norm_eps : float
batch_first : bool
    Inputs and outputs are [B, L, E], else [L, B, E].
norm_first : bool
    Normalizes what goes into a part, not what comes out.
bias : bool
device, dtype
    As in `Linear`.

>>> gb.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(gb.ones((1, 3, 4))).shape
(1, 3, 4)
)")
      .def(
          "forward",
          [](EncoderLayer& self, const Tensor& src, const OptionalTensor& src_mask, const OptionalTensor& keys,
             bool is_causal) { return self(src, masks(keys, src_mask, is_causal)); },
          nb::arg("src"), nb::arg("src_mask") = nb::none(), nb::arg("src_key_padding_mask") = nb::none(),
          nb::arg("is_causal") = false, "The output, of the shape of `src`. Masks as in `MultiheadAttention`.");
  bind_layer<DecoderLayer>(m, "TransformerDecoderLayer",
                           R"(As `TransformerEncoderLayer`, with attention to what an encoder gave in between.

>>> gb.nn.TransformerDecoderLayer(4, 2, 8)(gb.ones((3, 1, 4)), gb.ones((5, 1, 4))).shape
(3, 1, 4)
)")
      .def(
          "forward",
          [](DecoderLayer& self, const Tensor& tgt, const Tensor& memory, const OptionalTensor& tgt_mask,
             const OptionalTensor& memory_mask, const OptionalTensor& tgt_keys, const OptionalTensor& memory_keys,
             bool tgt_is_causal, bool memory_is_causal) {
            return self(tgt, memory, masks(tgt_keys, tgt_mask, tgt_is_causal),
                        masks(memory_keys, memory_mask, memory_is_causal));
          },
          nb::arg("tgt"), nb::arg("memory"), nb::arg("tgt_mask") = nb::none(), nb::arg("memory_mask") = nb::none(),
          nb::arg("tgt_key_padding_mask") = nb::none(), nb::arg("memory_key_padding_mask") = nb::none(),
          nb::arg("tgt_is_causal") = false, nb::arg("memory_is_causal") = false,
          "The output, of the shape of `tgt`. Masks as in `MultiheadAttention`.");
}

}  // namespace gabbro::python
