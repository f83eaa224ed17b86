// Layers with weight matrices and tables: Linear, Bilinear, Embedding, QuantizedLinear.
#include "gabbro/nn/embedding.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/quantized.h"

#include "python/src/settings.h"

namespace gabbro::python {

void bind_linear_layers(nb::module_& m) {
  nb::class_<nn::Linear, nn::Layer> linear(m, "Linear",
                                           R"(y = x · weightᵀ + bias: [..., in_features] to [..., out_features].

Parameters
----------
in_features, out_features : int
bias : bool
device : str or Device, optional
    Without it, the default.
dtype : DType
    Of the parameters: float32, float16, bfloat16 or float64.

>>> gb.nn.Linear(3, 2)(gb.ones((5, 3))).shape
(5, 2)
)");
  linear.def(
      "__init__",
      [](nn::Linear* self, int64_t in_features, int64_t out_features, bool bias, DeviceArgument device, DType dtype) {
        new (self) nn::Linear(factory(device, dtype), {in_features, out_features, bias});
      },
      nb::arg("in_features"), nb::arg("out_features"), nb::arg("bias") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(linear, "weight", &nn::Linear::weight);
  tensor_member(linear, "bias", &nn::Linear::bias, true);
  fixed(linear, "in_features", [](const nn::Linear& self) { return self.weight.shape()[1]; });
  fixed(linear, "out_features", [](const nn::Linear& self) { return self.weight.shape()[0]; });

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

  nb::class_<nn::Identity, nn::Layer>(m, "Identity", R"(x as it is.

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

  nb::class_<nn::QuantizedLinear, nn::Layer> quantized(m, "QuantizedLinear",
                                                       R"(A linear layer with a weight in a block format, for inference.

Parameters
----------
linear : Linear
    Whose weight is rounded; or in_features and out_features, for a weight of zeros that a state dict replaces.
format : DType or str
    Of four, five or eight bits: q4_0, q4_1, q5_0, q5_1 or q8_0.

Raises
------
ValueError
    Where a row of the weight is no whole number of blocks.

>>> gb.nn.QuantizedLinear(gb.nn.Linear(32, 2), "q8_0")(gb.ones((1, 32))).shape
(1, 2)
)");
  quantized.def(
      "__init__",
      [](nn::QuantizedLinear* self, const nn::Linear& layer, DType format) {
        new (self) nn::QuantizedLinear(layer, format);
      },
      nb::arg("linear"), nb::arg("format"));
  quantized.def(
      "__init__",
      [](nn::QuantizedLinear* self, int64_t in_features, int64_t out_features, DType format, bool bias,
         DeviceArgument device) {
        new (self) nn::QuantizedLinear(factory(device, DType::f32), {in_features, out_features, bias}, format);
      },
      nb::arg("in_features"), nb::arg("out_features"), nb::arg("format"), nb::kw_only(), nb::arg("bias") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()});
  tensor_member(quantized, "weight", &nn::QuantizedLinear::weight);
  tensor_member(quantized, "bias", &nn::QuantizedLinear::bias, true);
  fixed(quantized, "in_features", [](const nn::QuantizedLinear& self) {
    const DTypeInfo format = dtype_info(self.format());
    return self.weight.shape()[1] / static_cast<int64_t>(format.block_bytes) * format.block_elements;
  });
  fixed(quantized, "out_features", [](const nn::QuantizedLinear& self) { return self.weight.shape()[0]; });
  fixed(quantized, "format", [](const nn::QuantizedLinear& self) { return dtype_object(self.format()); });
}

}  // namespace gabbro::python
