// Activations: as layers, and as functions those that the ops do not have.
#include "gabbro/nn/activation.h"

#include "python/src/settings.h"

namespace gabbro::python {
namespace {

template <class L>
void plain(nb::module_& m, const char* name, const char* formula, bool changes_in_place = false) {
  const std::string doc =
      fmt::format("{}, for each element.\n\n>>> gb.nn.{}()(gb.zeros(3)).shape\n(3,)\n", formula, name);
  nb::class_<L, nn::Layer> layer(m, name, doc.c_str());
  layer.def(nb::init<>());
  if (!changes_in_place) return;
  absent(layer, "inplace", false);
}

// `dim` may be left out for vectors and matrices.
template <class L>
void with_axis(nb::module_& m, const char* name, const char* formula) {
  using Axis = std::optional<int64_t>;
  const std::string doc = fmt::format(
      "{}: ``dim``, or the last one of a vector or matrix.\n\n>>> gb.nn.{}(1)(gb.zeros((3, 2))).shape\n(3, 2)\n",
      formula, name);
  nb::class_<L, nn::Layer> layer(m, name, doc.c_str());
  layer.def(nb::init<Axis>(), nb::arg("dim") = nb::none());
  setting(
      layer, "dim", +[](const L& self) { return self.number(); }, +[](L& self, Axis value) { self.set_number(value); });
}

template <class L, class Number>
void with_number(nb::module_& m, const char* name, const char* argument, Number number, const char* formula) {
  const std::string doc = fmt::format("{}.\n\n>>> gb.nn.{}()(gb.zeros((3, 2))).shape[0]\n3\n", formula, name);
  nb::class_<L, nn::Layer> layer(m, name, doc.c_str());
  layer.def(nb::init<Number>(), nb::arg(argument) = number);
  setting(
      layer, argument, +[](const L& self) { return self.number(); },
      +[](L& self, Number value) { self.set_number(value); });
  if (std::is_same_v<Number, double>) absent(layer, "inplace", false);
}

bool by_tanh(const std::string& approximate) {
  if (approximate != "none" && approximate != "tanh")
    throw bad_input("[gelu] approximate is 'none' or 'tanh', not '{}'", approximate);
  return approximate == "tanh";
}

void bind_others(nb::module_& m) {
  nb::class_<nn::GELU, nn::Layer> gelu(
      m, "GELU", R"(x · Φ(x), or with ``approximate="tanh"`` its approximation (Hendrycks and Gimpel 2016).

>>> gb.nn.GELU()(gb.zeros(2))
tensor([0., 0.])
)");
  gelu.def(
      "__init__", [](nn::GELU* self, const std::string& approximate) { new (self) nn::GELU(by_tanh(approximate)); },
      nb::arg("approximate") = "none");
  setting_of<std::string>(
      gelu, "approximate", +[](const nn::GELU& self) { return self.number() ? "tanh" : "none"; },
      +[](nn::GELU& self, std::string value) { self.set_number(by_tanh(value)); });
  nb::class_<nn::Softplus, nn::Layer> softplus(m, "Softplus",
                                               R"(log(1 + e^(beta · x)) / beta; x where beta · x is above the threshold.

>>> gb.nn.Softplus()(gb.tensor([30.0]))
tensor([30.])
)");
  softplus.def(nb::init<double, double>(), nb::arg("beta") = 1.0, nb::arg("threshold") = 20.0);
  option(softplus, "beta", &nn::SoftplusOptions::beta);
  option(softplus, "threshold", &nn::SoftplusOptions::threshold);
  nb::class_<nn::Hardtanh, nn::Layer> hardtanh(m, "Hardtanh", R"(x held within [min_val, max_val].

>>> gb.nn.Hardtanh()(gb.tensor([-3.0, 0.5]))
tensor([-1. ,  0.5])
)");
  hardtanh.def(nb::init<double, double>(), nb::arg("min_val") = -1.0, nb::arg("max_val") = 1.0);
  option(hardtanh, "min_val", &nn::HardtanhOptions::low);
  option(hardtanh, "max_val", &nn::HardtanhOptions::high);
  absent(hardtanh, "inplace", false);
  nb::class_<nn::PReLU, nn::Layer> prelu(
      m, "PReLU", R"(x, or below 0 a trained slope · x: one, or one for each channel of [N, C, ...] (He et al. 2015).

>>> gb.nn.PReLU()(gb.tensor([-4.0, 2.0]))
tensor([-1.,  2.])
)");
  prelu.def(
      "__init__",
      [](nn::PReLU* self, int64_t num_parameters, double init, DeviceArgument device, DType dtype) {
        new (self) nn::PReLU(factory(device, dtype), num_parameters, init);
      },
      nb::arg("num_parameters") = 1, nb::arg("init") = 0.25, nb::arg("device").none() = DeviceArgument{nb::none()},
      nb::arg("dtype") = DType::f32);
  tensor_member(prelu, "weight", &nn::PReLU::weight);
  fixed(prelu, "num_parameters", [](const nn::PReLU& self) { return self.weight.shape()[0]; });
  fixed(prelu, "init", [](const nn::PReLU& self) { return self.first_slope(); });
  nb::class_<nn::Flatten, nn::Layer> flatten(m, "Flatten", R"(The axes from the first to the last one as one.

>>> gb.nn.Flatten()(gb.zeros((2, 3, 4))).shape
(2, 12)
)");
  flatten.def(nb::init<int64_t, int64_t>(), nb::arg("start_dim") = 1, nb::arg("end_dim") = -1);
  option(flatten, "start_dim", &nn::FlattenOptions::first);
  option(flatten, "end_dim", &nn::FlattenOptions::last);
}

void bind_functions(nb::module_& m) {
  m.def("_relu6", nn::relu6, nb::arg("x"), "min(max(x, 0), 6), elementwise.");
  m.def("_leaky_relu", nn::leaky_relu, nb::arg("x"), nb::arg("negative_slope") = 0.01,
        "x, or below 0 negative_slope · x.");
  m.def("_elu", nn::elu, nb::arg("x"), nb::arg("alpha") = 1.0,
        "x, or below 0 alpha · (e^x - 1) (Clevert et al. 2016).");
  m.def("_celu", nn::celu, nb::arg("x"), nb::arg("alpha") = 1.0,
        "x, or below 0 alpha · (e^(x / alpha) - 1) (Barron 2017).");
  m.def("_selu", nn::selu, nb::arg("x"), "The scaled ELU (Klambauer et al. 2017), elementwise.");
  m.def("_mish", nn::mish, nb::arg("x"), "x · tanh(softplus(x)) (Misra 2020), elementwise.");
  m.def("_softplus", nn::softplus, nb::arg("x"), nb::arg("beta") = 1.0, nb::arg("threshold") = 20.0,
        "log(1 + e^(beta · x)) / beta; x where beta · x is above the threshold.");
  m.def("_softsign", nn::softsign, nb::arg("x"), "x / (1 + the magnitude of x), elementwise.");
  m.def("_log_sigmoid", nn::log_sigmoid, nb::arg("x"), "log(sigmoid(x)), elementwise.");
  m.def("_hard_tanh", nn::hard_tanh, nb::arg("x"), nb::arg("min_val") = -1.0, nb::arg("max_val") = 1.0,
        "x held within [min_val, max_val].");
  m.def("_hard_sigmoid", nn::hard_sigmoid, nb::arg("x"), "relu6(x + 3) / 6, elementwise.");
  m.def("_hard_swish", nn::hard_swish, nb::arg("x"), "x · relu6(x + 3) / 6 (Howard et al. 2019), elementwise.");
  m.def("_glu", nn::glu, nb::arg("x"), nb::arg("dim") = -1,
        "The first half of an axis · sigmoid of the second (Dauphin et al. 2017).");
}

}  // namespace

void bind_activation_layers(nb::module_& m) {
  plain<nn::ReLU>(m, "ReLU", "max(x, 0)", true);
  plain<nn::ReLU6>(m, "ReLU6", "min(max(x, 0), 6)", true);
  plain<nn::SELU>(m, "SELU", "The scaled ELU (Klambauer et al. 2017)", true);
  plain<nn::SiLU>(m, "SiLU", "x · sigmoid(x)", true);
  plain<nn::Mish>(m, "Mish", "x · tanh(softplus(x)) (Misra 2020)", true);
  plain<nn::Sigmoid>(m, "Sigmoid", "1 / (1 + e^-x)");
  plain<nn::Tanh>(m, "Tanh", "The hyperbolic tangent");
  plain<nn::Softsign>(m, "Softsign", "x / (1 + the magnitude of x)");
  plain<nn::LogSigmoid>(m, "LogSigmoid", "log(sigmoid(x))");
  plain<nn::Hardsigmoid>(m, "Hardsigmoid", "relu6(x + 3) / 6", true);
  plain<nn::Hardswish>(m, "Hardswish", "x · relu6(x + 3) / 6 (Howard et al. 2019)", true);
  with_number<nn::LeakyReLU>(m, "LeakyReLU", "negative_slope", 0.01, "x, or below 0 negative_slope · x");
  with_number<nn::ELU>(m, "ELU", "alpha", 1.0, "x, or below 0 alpha · (e^x - 1) (Clevert et al. 2016)");
  with_number<nn::CELU>(m, "CELU", "alpha", 1.0, "x, or below 0 alpha · (e^(x / alpha) - 1) (Barron 2017)");
  with_axis<nn::Softmax>(m, "Softmax", "exp(x) / sum(exp(x)) along an axis");
  with_axis<nn::LogSoftmax>(m, "LogSoftmax", "x - log(sum(exp(x))) along an axis");
  with_number<nn::GLU>(m, "GLU", "dim", int64_t{-1},
                       "The first half of an axis · sigmoid of the second (Dauphin et al. 2017)");
  bind_others(m);
  bind_functions(m);
}

}  // namespace gabbro::python
