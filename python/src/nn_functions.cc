// Functions of gabbro/nn that are in C++: losses that the ops do not have, initial values, dropout, state files.
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/init.h"
#include "gabbro/nn/loss.h"
#include "gabbro/nn/state_file.h"

#include "python/src/checked.h"
#include "python/src/nn.h"

namespace gabbro::python {
namespace {

void bind_more_losses(nb::module_& m) {
  m.def("_smooth_l1_loss", [](const Tensor& x, const Tensor& target, const std::string& how, double beta) {
    return nn::smooth_l1_loss(x, target, reduction("loss", how), beta);
  });
  m.def("_huber_loss", [](const Tensor& x, const Tensor& target, const std::string& how, double delta) {
    return nn::huber_loss(x, target, reduction("loss", how), delta);
  });
  m.def(
      "_bce_with_logits",
      [](const Tensor& x, const Tensor& target, const OptionalTensor& weight, const std::string& how,
         const OptionalTensor& pos_weight) {
        return nn::bce_with_logits(
            x, target,
            {.reduce = reduction("loss", how), .weight = or_none(weight), .pos_weight = or_none(pos_weight)});
      },
      nb::arg("x"), nb::arg("target"), nb::arg("weight").none(), nb::arg("reduction"), nb::arg("pos_weight").none());
  m.def(
      "_cross_entropy_loss",
      [](const Tensor& x, const Tensor& target, const OptionalTensor& weight, int32_t ignore_index,
         const std::string& how, double label_smoothing) {
        return nn::cross_entropy_loss(x, target,
                                      {.reduce = reduction("loss", how),
                                       .ignore_index = ignore_index,
                                       .weight = or_none(weight),
                                       .label_smoothing = label_smoothing});
      },
      nb::arg("x"), nb::arg("target"), nb::arg("weight").none(), nb::arg("ignore_index"), nb::arg("reduction"),
      nb::arg("label_smoothing"));
  m.def("_dropout", [](const Tensor& x, double p, bool training, bool channels) {
    std::vector<int64_t> mask(x.shape().lengths().begin(), x.shape().lengths().end());
    for (size_t axis = 2; channels && axis < mask.size(); ++axis) mask[axis] = 1;
    return nn::dropout(x, p, training, *module_generator(), Shape(mask));
  });
}

nn::Factory like(const Tensor& x) {
  return {.device = x.device(), .generator = module_generator(), .dtype = x.dtype()};
}

// A function that gives a tensor another value, which is made of its shape and of numbers.
template <class... Arguments>
void bind_value(nb::module_& m, const char* name,
                Tensor (*made)(const nn::Factory&, const Shape&, const Arguments&...)) {
  const bool is_random = std::string_view(name) != "_init_constant";
  m.def(name, [made, is_random](Tensor& place, const Arguments&... arguments) {
    if (is_random && !is_floating(place.dtype()))
      throw bad_input("[init] a tensor of {} does not hold these numbers", dtype_public_name(place.dtype()));
    set_place(place, made(like(place), place.shape(), arguments...));
  });
}

nn::init::Fan fan(const std::string& mode) {
  if (mode == "fan_in") return nn::init::Fan::kIn;
  if (mode == "fan_out") return nn::init::Fan::kOut;
  throw bad_input("[init] mode is 'fan_in' or 'fan_out', not '{}'", mode);
}

using std::string;

}  // namespace

void bind_network_functions(nb::module_& m) {
  bind_more_losses(m);
  m.def(
      "_load_state",
      [](const std::string& path, DeviceArgument device) {
        return dict_of(nn::load_state(path, device_argument(device.object)));
      },
      nb::arg("path"), nb::arg("device").none(),
      nb::sig("def _load_state(path: str, device: DeviceLike | None) -> dict[str, Tensor]"));
  m.def(
      "_save_state",
      [](const std::string& path, const nb::dict& state, const nb::dict& metadata) {
        std::map<std::string, std::string> facts;
        for (auto [name, value] : metadata)
          facts[value_argument<std::string>("save_state", "a name of the metadata", name)] =
              value_argument<std::string>("save_state", "metadata", value);
        nn::save_state(path, state_of(state), facts);
      },
      nb::arg("path"), nb::arg("state"), nb::arg("metadata"),
      nb::sig("def _save_state(path: str, state: dict[str, Any], metadata: dict[str, str]) -> None"));
}

void bind_initial_values(nb::module_& m) {
  using nn::Factory;
  bind_value(
      m, "_init_constant",
      +[](const Factory& f, const Shape& shape, const double& value) { return nn::init::constant(f, shape, value); });
  bind_value(
      m, "_init_uniform", +[](const Factory& f, const Shape& shape, const double& low, const double& high) {
        return nn::init::uniform(f, shape, low, high);
      });
  bind_value(
      m, "_init_normal", +[](const Factory& f, const Shape& shape, const double& mean, const double& deviation) {
        return nn::init::normal(f, shape, mean, deviation);
      });
  bind_value(
      m, "_init_trunc_normal",
      +[](const Factory& f, const Shape& shape, const double& mean, const double& deviation, const double& low,
          const double& high) {
        return nn::init::trunc_normal(f, shape, {mean, deviation, low, high});
      });
  bind_value(
      m, "_init_orthogonal",
      +[](const Factory& f, const Shape& shape, const double& gain) { return nn::init::orthogonal(f, shape, gain); });
  bind_value(
      m, "_init_xavier_uniform", +[](const Factory& f, const Shape& shape, const double& gain) {
        return nn::init::xavier_uniform(f, shape, gain);
      });
  bind_value(
      m, "_init_xavier_normal", +[](const Factory& f, const Shape& shape, const double& gain) {
        return nn::init::xavier_normal(f, shape, gain);
      });
  bind_value(
      m, "_init_kaiming_uniform", +[](const Factory& f, const Shape& shape, const double& slope, const string& mode) {
        return nn::init::kaiming_uniform(f, shape, slope, fan(mode));
      });
  bind_value(
      m, "_init_kaiming_normal", +[](const Factory& f, const Shape& shape, const double& slope, const string& mode) {
        return nn::init::kaiming_normal(f, shape, slope, fan(mode));
      });
}

}  // namespace gabbro::python
