// Normalization and dropout as layers.
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/norm.h"
#include "gabbro/nn/similarity.h"

#include "python/src/settings.h"

namespace gabbro::python {
namespace {

template <class N>
void bind_batch_norm(nb::module_& m, const char* name, const char* input) {
  const std::string doc =
      fmt::format(R"(Each channel of [N, C, ...] with mean 0 and variance 1 (Ioffe and Szegedy 2015).

In training, uses the batch's mean and variance and updates the running ones; else uses the running ones.

Parameters
----------
num_features : int
    C
eps : float
momentum : float or None
    Weight of the batch in the running mean and variance; None: they are averages of all batches.
affine : bool
    A trained weight and bias for each channel.
track_running_stats : bool
device, dtype
    As in `Linear`.

>>> gb.nn.{}(3)(gb.ones({})).shape
{}
)",
                  name, input, input);
  nb::class_<N, nn::BatchNorm>(m, name, doc.c_str())
      .def(
          "__init__",
          [](N* self, int64_t num_features, double eps, std::optional<double> momentum, bool affine, bool track,
             DeviceArgument device, DType dtype) {
            new (self) N(factory(device, dtype), {num_features, eps, momentum, affine, track});
          },
          nb::arg("num_features"), nb::arg("eps") = 1e-5, nb::arg("momentum") = 0.1, nb::arg("affine") = true,
          nb::arg("track_running_stats") = true, nb::arg("device").none() = DeviceArgument{nb::none()},
          nb::arg("dtype") = DType::f32);
}

void bind_batch_norms(nb::module_& m) {
  nb::class_<nn::BatchNorm, nn::Layer> norm(m, "_BatchNorm");
  norm.def(
      "forward",
      [](nn::BatchNorm& self, const Tensor& x) {
        const Tensor y = self.forward(x);
        if (self.is_training() && self.running_mean.defined()) {
          for (const Tensor& moved : {self.running_mean, self.running_var, self.num_batches_tracked})
            compute_with_step(moved);
        }
        return y;
      },
      nb::arg("x"), nb::sig("def forward(self, x: Tensor, /) -> Tensor"), "The layer's output for `x`.");
  tensor_member(norm, "weight", &nn::BatchNorm::weight, true);
  tensor_member(norm, "bias", &nn::BatchNorm::bias, true);
  tensor_member(norm, "running_mean", &nn::BatchNorm::running_mean, true);
  tensor_member(norm, "running_var", &nn::BatchNorm::running_var, true);
  tensor_member(norm, "num_batches_tracked", &nn::BatchNorm::num_batches_tracked, true);
  fixed(norm, "num_features", [](const nn::BatchNorm& self) { return self.options().num_features; });
  fixed(norm, "affine", [](const nn::BatchNorm& self) { return self.options().affine; });
  option(norm, "eps", &nn::BatchNormOptions::eps);
  option(norm, "momentum", &nn::BatchNormOptions::momentum);
  option(norm, "track_running_stats", &nn::BatchNormOptions::track_running_stats);
  bind_batch_norm<nn::BatchNorm1d>(m, "BatchNorm1d", "(2, 3, 4)");
  bind_batch_norm<nn::BatchNorm2d>(m, "BatchNorm2d", "(2, 3, 4, 4)");
  bind_batch_norm<nn::BatchNorm3d>(m, "BatchNorm3d", "(2, 3, 2, 2, 2)");
}

constexpr const char* kInPlace = "_inplace";  // an attribute of layers whose input gets the result

nb::dict attributes_of(nb::handle module) { return nb::borrow<nb::dict>(module.attr("__dict__")); }

void bind_dropout(nb::module_& m) {
  const auto bind = [&]<class D>(D*, const char* name, const char* doc) {
    nb::class_<D, nn::Layer> layer(m, name, doc);
    layer.def(
        "__init__",
        [](nb::pointer_and_handle<D> self, double p, bool inplace) {
          new (self.p) D(factory({nb::none()}, DType::f32), p);
          if (inplace) attributes_of(self.h)[kInPlace] = true;
        },
        nb::arg("p") = 0.5, nb::arg("inplace") = false);
    layer.def(
        "forward",
        [](nb::handle self, nb::object input) {
          const Tensor result = nb::cast<D&>(self).forward(nb::cast<const Tensor&>(input));
          if (!attributes_of(self).contains(kInPlace)) return nb::cast(result);
          input.attr("__setitem__")(nb::ellipsis(), result);
          return input;
        },
        nb::arg("input"), nb::sig("def forward(self, input: Tensor) -> Tensor"), "The layer's output.");
    layer.def_prop_rw(
        "inplace", [](nb::handle self) { return attributes_of(self).contains(kInPlace); },
        [](nb::handle self, bool inplace) {
          if (inplace) {
            attributes_of(self)[kInPlace] = true;
          } else if (attributes_of(self).contains(kInPlace)) {
            nb::del(attributes_of(self)[kInPlace]);
          }
          module_of(self)->note_change();
        });
    setting(
        layer, "p", +[](const D& self) { return self.p(); }, +[](D& self, double p) { self.set_p(p); });
  };
  bind(static_cast<nn::Dropout*>(nullptr), "Dropout",
       R"(In training, elements become 0 with probability p, and the others x / (1 - p) (Srivastava et al. 2014).

>>> gb.nn.Dropout(0.5).eval()(gb.ones(3))
tensor([1., 1., 1.])
)");
  bind(static_cast<nn::Dropout2d*>(nullptr), "Dropout2d", R"(As `Dropout`, with whole channels of [N, C, ...].

>>> gb.nn.Dropout2d(0.5).eval()(gb.ones((1, 2, 1, 1))).shape
(1, 2, 1, 1)
)");
}

}  // namespace

void bind_norm_layers(nb::module_& m) {
  bind_batch_norms(m);
  nb::class_<nn::LayerNorm, nn::Layer> layer_norm(m, "LayerNorm",
                                                  R"(The last axes with mean 0 and variance 1 (Ba et al. 2016).

Parameters
----------
normalized_shape : int or tuple of int
    The lengths of these axes.
eps : float
elementwise_affine, bias : bool
    A trained weight for each element, and with it a bias.

>>> gb.round(gb.nn.LayerNorm(2)(gb.tensor([[1.0, 3.0]])))
tensor([[-1.,  1.]])
)");
  layer_norm.def(
      "__init__",
      [](nn::LayerNorm* self, const Integers& shape, double eps, bool affine, bool bias, DeviceArgument device,
         DType dtype) {
        new (self) nn::LayerNorm(factory(device, dtype), {shape.values, eps, affine, bias});
      },
      nb::arg("normalized_shape"), nb::arg("eps") = 1e-5, nb::arg("elementwise_affine") = true, nb::arg("bias") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(layer_norm, "weight", &nn::LayerNorm::weight, true);
  tensor_member(layer_norm, "bias", &nn::LayerNorm::bias, true);
  numbers_option(layer_norm, "normalized_shape", &nn::LayerNormOptions::normalized_shape, false);
  option(layer_norm, "eps", &nn::LayerNormOptions::eps);
  fixed(layer_norm, "elementwise_affine", [](const nn::LayerNorm& self) { return self.options().elementwise_affine; });

  nb::class_<nn::RMSNorm, nn::Layer> rms_norm(
      m, "RMSNorm", R"(The last axes divided by the root of their mean square (Zhang and Sennrich 2019).

Parameters
----------
normalized_shape : int or tuple of int
    The lengths of these axes.
eps : float, optional
    Without it, the distance from 1 to the next number of the input's dtype.
elementwise_affine : bool
    A trained weight for each element.

>>> gb.round(gb.nn.RMSNorm(2)(gb.tensor([[2.0, 2.0]])))
tensor([[1., 1.]])
)");
  rms_norm.def(
      "__init__",
      [](nn::RMSNorm* self, const Integers& shape, std::optional<double> eps, bool affine, DeviceArgument device,
         DType dtype) {
        new (self) nn::RMSNorm(factory(device, dtype), {shape.values, eps, affine});
      },
      nb::arg("normalized_shape"), nb::arg("eps") = nb::none(), nb::arg("elementwise_affine") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(rms_norm, "weight", &nn::RMSNorm::weight, true);
  numbers_option(rms_norm, "normalized_shape", &nn::RMSNormOptions::normalized_shape, false);
  option(rms_norm, "eps", &nn::RMSNormOptions::eps);
  fixed(rms_norm, "elementwise_affine", [](const nn::RMSNorm& self) { return self.options().elementwise_affine; });

  nb::class_<nn::GroupNorm, nn::Layer> group_norm(
      m, "GroupNorm", R"(Groups of channels of [N, C, ...] with mean 0 and variance 1 (Wu and He 2018).

>>> gb.nn.GroupNorm(2, 4)(gb.ones((1, 4, 3))).shape
(1, 4, 3)
)");
  group_norm.def(
      "__init__",
      [](nn::GroupNorm* self, int64_t num_groups, int64_t num_channels, double eps, bool affine, DeviceArgument device,
         DType dtype) {
        new (self) nn::GroupNorm(factory(device, dtype), {num_groups, num_channels, eps, affine});
      },
      nb::arg("num_groups"), nb::arg("num_channels"), nb::arg("eps") = 1e-5, nb::arg("affine") = true,
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(group_norm, "weight", &nn::GroupNorm::weight, true);
  tensor_member(group_norm, "bias", &nn::GroupNorm::bias, true);
  option(group_norm, "num_groups", &nn::GroupNormOptions::num_groups);
  option(group_norm, "eps", &nn::GroupNormOptions::eps);
  fixed(group_norm, "num_channels", [](const nn::GroupNorm& self) { return self.options().num_channels; });
  fixed(group_norm, "affine", [](const nn::GroupNorm& self) { return self.options().affine; });
  m.def("_normalize", nn::normalize, nb::arg("x"), nb::arg("axis"), nb::arg("eps"), "As `nn.functional.normalize`.");
  m.def("_cosine_similarity", nn::cosine_similarity, nb::arg("x1"), nb::arg("x2"), nb::arg("axis"), nb::arg("eps"),
        "As `nn.functional.cosine_similarity`.");
  bind_dropout(m);
}

}  // namespace gabbro::python
