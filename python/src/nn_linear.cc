// Layers with weight matrices and tables: Linear, Bilinear, Embedding.
#include "gabbro/nn/embedding.h"
#include "gabbro/nn/linear.h"

#include "python/src/settings.h"

namespace gabbro::python {

void bind_linear_layers(nb::module_& m) {
  nb::class_<nn::Linear, nn::Layer> linear(m, "Linear",
                                           R"(y = x · weightᵀ + bias: [..., in_features] to [..., out_features].

A weight in a block format has no gradient: such a layer is for inference, and for training the layers
before it.

Parameters
----------
in_features, out_features : int
    Or `linear`, a Linear whose weight is rounded to `format`.
bias : bool
device : str or Device, optional
    Without it, the default.
dtype : DType
    Of the parameters: float32, float16, bfloat16 or float64.
format : DType or str, optional
    A block format, such as q4_0 or q8_0. The weight is one of zeros, which a state dict replaces.

Raises
------
ValueError
    If a row of the weight is not a whole number of blocks.

>>> gb.nn.Linear(3, 2)(gb.ones((5, 3))).shape
(5, 2)
>>> gb.nn.Linear(gb.nn.Linear(32, 2), "q8_0")(gb.ones((1, 32))).shape
(1, 2)
)");
  linear.def(
      "__init__",
      [](nn::Linear* self, int64_t in_features, int64_t out_features, bool bias, DeviceArgument device, DType dtype) {
        new (self) nn::Linear(factory(device, dtype), {in_features, out_features, bias});
      },
      nb::arg("in_features"), nb::arg("out_features"), nb::arg("bias") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  linear.def(
      "__init__", [](nn::Linear* self, const nn::Linear& layer, DType format) { new (self) nn::Linear(layer, format); },
      nb::arg("linear"), nb::arg("format"));
  linear.def(
      "__init__",
      [](nn::Linear* self, int64_t in_features, int64_t out_features, DType format, bool bias, DeviceArgument device) {
        new (self) nn::Linear(factory(device, DType::f32), {in_features, out_features, bias, format});
      },
      nb::arg("in_features"), nb::arg("out_features"), nb::arg("format"), nb::kw_only(), nb::arg("bias") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()});
  tensor_member(linear, "weight", &nn::Linear::weight);
  tensor_member(linear, "bias", &nn::Linear::bias, true);
  fixed(linear, "in_features", [](const nn::Linear& self) { return self.in_features(); });
  fixed(linear, "out_features", [](const nn::Linear& self) { return self.out_features(); });
  fixed(linear, "format",
        [](const nn::Linear& self) { return self.format() ? dtype_object(*self.format()) : nb::object(nb::none()); });

  nb::class_<nn::Bilinear, nn::Module> bilinear(m, "Bilinear", R"(y[o] = x1 · weight[o] · x2 + bias[o].

Called with [..., in1_features] and [..., in2_features], it gives [..., out_features].

>>> gb.nn.Bilinear(3, 4, 2)(gb.ones((5, 3)), gb.ones((5, 4))).shape
(5, 2)
)");
  bilinear
      .def(
          "__init__",
          [](nn::Bilinear* self, int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias,
             DeviceArgument device, DType dtype) {
            new (self) nn::Bilinear(factory(device, dtype), {in1_features, in2_features, out_features, bias});
          },
          nb::arg("in1_features"), nb::arg("in2_features"), nb::arg("out_features"), nb::arg("bias") = true,
          nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32)
      .def("forward", &nn::Bilinear::operator(), nb::arg("x1"), nb::arg("x2"));
  tensor_member(bilinear, "weight", &nn::Bilinear::weight);
  tensor_member(bilinear, "bias", &nn::Bilinear::bias, true);
  fixed(bilinear, "in1_features", [](const nn::Bilinear& self) { return self.weight.shape()[1]; });
  fixed(bilinear, "in2_features", [](const nn::Bilinear& self) { return self.weight.shape()[2]; });
  fixed(bilinear, "out_features", [](const nn::Bilinear& self) { return self.weight.shape()[0]; });

  nb::class_<nn::Identity, nn::Layer>(m, "Identity", R"(Returns x unchanged.

>>> gb.nn.Identity()(gb.tensor(2.0))
tensor(2.)
)")
      .def(nb::init<>());

  nb::class_<nn::Embedding, nn::Layer> embedding(m, "Embedding",
                                                 R"(Rows of a trained table: integers [...] to [..., embedding_dim].

Parameters
----------
num_embeddings, embedding_dim : int
padding_idx : int, optional
    A row that is zero at first, and gets no gradient.

>>> gb.nn.Embedding(10, 4)(gb.tensor([[1, 2, 3]])).shape
(1, 3, 4)
)");
  embedding.def(
      "__init__",
      [](nn::Embedding* self, int64_t num_embeddings, int64_t embedding_dim, std::optional<int64_t> padding_idx,
         DeviceArgument device, DType dtype) {
        new (self) nn::Embedding(factory(device, dtype), {num_embeddings, embedding_dim, padding_idx});
      },
      nb::arg("num_embeddings"), nb::arg("embedding_dim"), nb::arg("padding_idx") = nb::none(), nb::kw_only(),
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(embedding, "weight", &nn::Embedding::weight);
  fixed(embedding, "num_embeddings", [](const nn::Embedding& self) { return self.weight.shape()[0]; });
  fixed(embedding, "embedding_dim", [](const nn::Embedding& self) { return self.weight.shape()[1]; });
  setting(
      embedding, "padding_idx", +[](const nn::Embedding& self) { return self.padding_idx(); },
      +[](nn::Embedding& self, std::optional<int64_t> value) { self.set_padding_idx(value); });
  absent(embedding, "max_norm");
  absent(embedding, "norm_type", 2.0);
  absent(embedding, "scale_grad_by_freq", false);
  absent(embedding, "sparse", false);
}

}  // namespace gabbro::python
