// Optimizers and schedules as gabbro/optim.py uses them, which has torch.optim's names and documentation.
#include "gabbro/train/optimizers.h"
#include "gabbro/train/clipping.h"
#include "gabbro/train/loss_scaler.h"
#include "src/plan/eval.h"

#include "python/src/checked.h"
#include "python/src/nn.h"
#include "python/src/views.h"

namespace gabbro::python {
namespace {

// [(parameters, lr or None, weight_decay or None), ...]
std::vector<train::ParameterGroup> groups_of(const nb::list& groups) {
  std::vector<train::ParameterGroup> result;
  size_t count = 0;  // names are numbered through all groups
  for (nb::handle group : groups) {
    result.push_back({.parameters = slots_of(group[0]),
                      .lr = value_argument<std::optional<double>>("optim", "lr", group[1]),
                      .weight_decay = value_argument<std::optional<double>>("optim", "weight_decay", group[2])});
    for (nn::Slot& slot : result.back().parameters) slot.name = fmt::format("parameter {}", count++);
  }
  return result;
}

// Computes what a step has recorded, with what the thread has left to be computed: the whole step in one plan.
void compute(std::vector<Tensor> tensors) {
  if (tensors.empty()) return;
  for (Tensor& left : left_to_compute(tensors.front().device())) tensors.push_back(std::move(left));
  evaluate(tensors);
}

// Views of an optimizer's parameters follow a step.
FollowedSlots followed_parameters(const train::Optimizer& optimizer) {
  FollowedSlots followed;
  for (size_t group = 0; group < optimizer.groups(); ++group) followed.add(optimizer.parameters(group));
  return followed;
}

template <class O, class Options>
void bind_optimizer(nb::module_& m, const char* name, Options (*options_of)(const nb::dict&)) {
  nb::class_<O, train::Optimizer>(m, name).def(
      "__init__",
      [options_of](O* self, const nb::list& groups, const nb::dict& options) {
        new (self) O(groups_of(groups), options_of(options));
      },
      nb::sig("def __init__(self, groups: list[Any], options: dict[str, Any], /) -> None"));
}

double number(const nb::dict& options, const char* name) {
  return value_argument<double>("optim", name, options[name]);
}
bool flag(const nb::dict& options, const char* name) { return value_argument<bool>("optim", name, options[name]); }
double beta(const nb::dict& options, int which) {
  return value_argument<double>("optim", "one of betas", options["betas"][which]);
}

// Options of Adam and AdamW, whose defaults differ.
template <class Options>
Options adam_options(const nb::dict& o) {
  return {.lr = number(o, "lr"),
          .beta1 = beta(o, 0),
          .beta2 = beta(o, 1),
          .epsilon = number(o, "eps"),
          .weight_decay = number(o, "weight_decay"),
          .amsgrad = flag(o, "amsgrad")};
}

void bind_kinds(nb::module_& m) {
  bind_optimizer<train::Sgd, train::SgdOptions>(m, "_SGD", [](const nb::dict& o) {
    return train::SgdOptions{.lr = number(o, "lr"),
                             .momentum = number(o, "momentum"),
                             .dampening = number(o, "dampening"),
                             .weight_decay = number(o, "weight_decay"),
                             .nesterov = flag(o, "nesterov")};
  });
  bind_optimizer<train::Adam, train::AdamOptions>(m, "_Adam", adam_options<train::AdamOptions>);
  bind_optimizer<train::AdamW, train::AdamWOptions>(m, "_AdamW", adam_options<train::AdamWOptions>);
  bind_optimizer<train::Lion, train::LionOptions>(m, "_Lion", [](const nb::dict& o) {
    return train::LionOptions{
        .lr = number(o, "lr"), .beta1 = beta(o, 0), .beta2 = beta(o, 1), .weight_decay = number(o, "weight_decay")};
  });
  bind_optimizer<train::Adagrad, train::AdagradOptions>(m, "_Adagrad", [](const nb::dict& o) {
    return train::AdagradOptions{.lr = number(o, "lr"),
                                 .lr_decay = number(o, "lr_decay"),
                                 .weight_decay = number(o, "weight_decay"),
                                 .initial_accumulator_value = number(o, "initial_accumulator_value"),
                                 .epsilon = number(o, "eps")};
  });
  bind_optimizer<train::RmsProp, train::RmsPropOptions>(m, "_RMSprop", [](const nb::dict& o) {
    return train::RmsPropOptions{.lr = number(o, "lr"),
                                 .alpha = number(o, "alpha"),
                                 .epsilon = number(o, "eps"),
                                 .weight_decay = number(o, "weight_decay"),
                                 .momentum = number(o, "momentum"),
                                 .centered = flag(o, "centered")};
  });
}

void bind_scaler(nb::module_& m) {
  nb::class_<train::LossScaler>(m, "_LossScaler")
      .def(
          "__init__",
          [](train::LossScaler* self, DeviceArgument device, double scale, double growth, double backoff,
             int64_t interval) {
            new (self) train::LossScaler(device_argument(device.object), {scale, growth, backoff, interval});
          },
          nb::arg("device").none(), nb::arg("scale"), nb::arg("growth"), nb::arg("backoff"), nb::arg("interval"))
      .def("scaled", &train::LossScaler::scaled)
      .def("unscale", &train::LossScaler::unscale)
      .def("step",
           [](train::LossScaler& self, train::Optimizer& optimizer) {
             require_no_trace();
             const FollowedSlots followed = followed_parameters(optimizer);
             self.step(optimizer);
             followed.follow();
             std::vector<Tensor> tensors = optimizer.tensors();
             for (const Tensor& tensor : self.tensors()) tensors.push_back(tensor);
             compute(std::move(tensors));
           })
      .def("update",
           [](train::LossScaler& self) {
             self.update();
             for (const Tensor& tensor : self.tensors()) compute_with_step(tensor);
           })
      .def("scale", &train::LossScaler::scale)
      .def("restore", &train::LossScaler::restore)
      .def("__tensors__", &train::LossScaler::tensors);
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<train::Optimizer>(m, "_Optimizer")
      .def("step",
           [](train::Optimizer& self) {
             require_no_trace();
             const FollowedSlots followed = followed_parameters(self);
             self.step();
             followed.follow();
             compute(self.tensors());
           })
      .def("zero_grad",
           [](train::Optimizer& self) {
             require_no_trace();
             self.zero_grad();
           })
      .def("lr", &train::Optimizer::lr, nb::arg("group"))
      .def("set_lr", nb::overload_cast<double, size_t>(&train::Optimizer::set_lr), nb::arg("lr"), nb::arg("group"))
      .def(
          "state_dict", [](const train::Optimizer& self) { return dict_of(self.state_dict()); },
          nb::sig("def state_dict(self) -> dict[str, Tensor]"))
      .def(
          "load_state_dict",
          [](train::Optimizer& self, const nb::dict& state) { self.load_state_dict(state_of(state)); },
          nb::sig("def load_state_dict(self, state: dict[str, Any], /) -> None"))
      .def("__tensors__", &train::Optimizer::tensors);
  bind_kinds(m);
  bind_scaler(m);
  m.def(
      "_clip_grad_norm",
      [](nb::handle parameters, double max_norm, double power) {
        require_no_trace();
        const Tensor norm = train::clip_gradient_norm(slots_of(parameters), max_norm, power);
        compute_with_step(norm);
        return norm;
      },
      nb::sig("def _clip_grad_norm(parameters: list[Tensor], max_norm: float, norm_type: float, /) -> Tensor"));
  m.def(
      "_clip_grad_value",
      [](nb::handle parameters, double bound) {
        require_no_trace();
        train::clip_gradient_value(slots_of(parameters), bound);
      },
      nb::sig("def _clip_grad_value(parameters: list[Tensor], bound: float, /) -> None"));
  m.def(
      "_plans_made", [](DeviceArgument device) { return plans_made(*device_argument(device.object)); },
      nb::arg("device").none() = DeviceArgument{nb::none()}, "How many plans the device has made: for tests.");
}

}  // namespace gabbro::python
