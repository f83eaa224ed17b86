// Activations: as layers, and as functions those that the ops do not have.
#include "gabbro/nn/activation.h"

#include "python/src/nn.h"

namespace gabbro::python {
namespace {

template <class L>
void plain(nb::module_& m, const char* name, const char* formula) {
  const std::string doc =
      fmt::format("{}, for each element.\n\n>>> gb.nn.{}()(gb.zeros(3)).shape\n(3,)\n", formula, name);
  nb::class_<L, nn::Layer>(m, name, doc.c_str()).def(nb::init<>());
}

template <class L, class Number>
void with_number(nb::module_& m, const char* name, const char* argument, Number number, const char* formula) {
  const std::string doc = fmt::format("{}.\n\n>>> gb.nn.{}()(gb.zeros((3, 2))).shape[0]\n3\n", formula, name);
  nb::class_<L, nn::Layer>(m, name, doc.c_str()).def(nb::init<Number>(), nb::arg(argument) = number);
}

void bind_others(nb::module_& m) {
  nb::class_<nn::GELU, nn::Layer>(
      m, "GELU", R"(x · Φ(x), or with ``approximate="tanh"`` its approximation (Hendrycks and Gimpel 2016).

>>> gb.nn.GELU()(gb.zeros(2))
tensor([0., 0.])
)")
      .def(
          "__init__",
          [](nn::GELU* self, const std::string& approximate) {
            if (approximate != "none" && approximate != "tanh")
              throw bad_input("[gelu] approximate is 'none' or 'tanh', not '{}'", approximate);
            new (self) nn::GELU(approximate == "tanh");
          },
          nb::arg("approximate") = "none");
  nb::class_<nn::Softplus, nn::Layer>(m, "Softplus",
                                      R"(log(1 + e^(beta · x)) / beta; x where beta · x is above the threshold.

>>> gb.nn.Softplus()(gb.tensor([30.0]))
tensor([30.])
)")
      .def(nb::init<double, double>(), nb::arg("beta") = 1.0, nb::arg("threshold") = 20.0);
  nb::class_<nn::Hardtanh, nn::Layer>(m, "Hardtanh", R"(x held within [min_val, max_val].

>>> gb.nn.Hardtanh()(gb.tensor([-3.0, 0.5]))
tensor([-1. ,  0.5])
)")
      .def(nb::init<double, double>(), nb::arg("min_val") = -1.0, nb::arg("max_val") = 1.0);
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
  nb::class_<nn::Flatten, nn::Layer>(m, "Flatten", R"(The axes from the first to the last one as one.

>>> gb.nn.Flatten()(gb.zeros((2, 3, 4))).shape
(2, 12)
)")
      .def(nb::init<int64_t, int64_t>(), nb::arg("start_dim") = 1, nb::arg("end_dim") = -1);
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
  plain<nn::ReLU>(m, "ReLU", "max(x, 0)");
  plain<nn::ReLU6>(m, "ReLU6", "min(max(x, 0), 6)");
  plain<nn::SELU>(m, "SELU", "The scaled ELU (Klambauer et al. 2017)");
  plain<nn::SiLU>(m, "SiLU", "x · sigmoid(x)");
  plain<nn::Mish>(m, "Mish", "x · tanh(softplus(x)) (Misra 2020)");
  plain<nn::Sigmoid>(m, "Sigmoid", "1 / (1 + e^-x)");
  plain<nn::Tanh>(m, "Tanh", "The hyperbolic tangent");
  plain<nn::Softsign>(m, "Softsign", "x / (1 + the magnitude of x)");
  plain<nn::LogSigmoid>(m, "LogSigmoid", "log(sigmoid(x))");
  plain<nn::Hardsigmoid>(m, "Hardsigmoid", "relu6(x + 3) / 6");
  plain<nn::Hardswish>(m, "Hardswish", "x · relu6(x + 3) / 6 (Howard et al. 2019)");
  with_number<nn::LeakyReLU>(m, "LeakyReLU", "negative_slope", 0.01, "x, or below 0 negative_slope · x");
  with_number<nn::ELU>(m, "ELU", "alpha", 1.0, "x, or below 0 alpha · (e^x - 1) (Clevert et al. 2016)");
  with_number<nn::CELU>(m, "CELU", "alpha", 1.0, "x, or below 0 alpha · (e^(x / alpha) - 1) (Barron 2017)");
  with_number<nn::Softmax>(m, "Softmax", "dim", int64_t{-1}, "exp(x) / sum(exp(x)) along an axis");
  with_number<nn::LogSoftmax>(m, "LogSoftmax", "dim", int64_t{-1}, "x - log(sum(exp(x))) along an axis");
  with_number<nn::GLU>(m, "GLU", "dim", int64_t{-1},
                       "The first half of an axis · sigmoid of the second (Dauphin et al. 2017)");
  bind_others(m);
  bind_functions(m);
}

}  // namespace gabbro::python
