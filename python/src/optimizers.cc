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

// A value of a group, which is a dict of Python.
nb::handle value_of(const nb::dict& group, const char* name) {
  PyObject* const value = PyDict_GetItemString(group.ptr(), name);
  if (value == nullptr) throw nb::key_error(fmt::format("[optim] a group of parameters has no {}", name).c_str());
  return value;
}
double number(const nb::dict& group, const char* name) {
  return value_argument<double>("optim", name, value_of(group, name));
}
bool flag(const nb::dict& group, const char* name) {
  return value_argument<bool>("optim", name, value_of(group, name));
}
double beta(const nb::dict& group, int which) {
  const nb::handle betas = value_of(group, "betas");
  if (!nb::isinstance<nb::sequence>(betas) || nb::len(betas) != 2) {
    const std::string text = fmt::format("[optim] betas is a pair of numbers, not {}", nb::repr(betas).c_str());
    throw nb::type_error(text.c_str());
  }
  return value_argument<double>("optim", "one of betas", betas[which]);
}

std::vector<train::ParameterGroup> groups_of(const nb::list& groups) {
  std::vector<train::ParameterGroup> result;
  size_t count = 0;  // names are numbered through all groups
  for (nb::handle item : groups) {
    const nb::dict group = nb::cast<nb::dict>(item);
    result.push_back({.parameters = slots_of(value_of(group, "params")),
                      .lr = number(group, "lr"),
                      .weight_decay = number(group, "weight_decay")});
    for (nn::Slot& slot : result.back().parameters) slot.name = fmt::format("parameter {}", count++);
  }
  return result;
}

// Whether the groups have the optimizer's parameters, in their order.
bool has_parameters(const train::Optimizer& optimizer, const nb::list& groups) {
  if (nb::len(groups) != optimizer.groups()) return false;
  for (size_t i = 0; i < optimizer.groups(); ++i) {
    const nb::dict group = nb::cast<nb::dict>(groups[i]);
    const std::vector<nn::Slot>& known = optimizer.parameters(i);
    size_t count = 0;
    for (nb::handle parameter : nb::iter(value_of(group, "params"))) {
      if (count >= known.size() || !nb::isinstance<Tensor>(parameter) ||
          known[count++].tensor.get() != &nb::cast<const Tensor&>(parameter))
        return false;
    }
    if (count != known.size()) return false;
  }
  return true;
}

// The keys and values of groups when their options were set: the same objects need no second look, as numbers and
// tuples do not change. Steps of small models would notice it.
class ReadGroups {
 public:
  bool same(const nb::list& groups) const {
    if (nb::len(groups) != groups_.size()) return false;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const nb::handle group = groups[i];
      if (!nb::isinstance<nb::dict>(group) || !same(group.ptr(), groups_[i])) return false;
    }
    return true;
  }

  // Whether the groups have the parameters that they had when they were read, in lists.
  bool same_parameters(const nb::list& groups) const {
    if (nb::len(groups) != parameters_.size()) return false;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      PyObject* const found = PyDict_GetItem(groups[i].ptr(), name_of_parameters());
      if (found == nullptr || !PyList_CheckExact(found) ||
          static_cast<size_t>(PyList_Size(found)) != parameters_[i].size())
        return false;
      for (size_t k = 0; k < parameters_[i].size(); ++k)
        if (PyList_GetItem(found, static_cast<Py_ssize_t>(k)) != parameters_[i][k].ptr()) return false;
    }
    return true;
  }

  void read(const nb::list& groups) {
    parameters_.clear();
    for (nb::handle group : groups) {
      std::vector<nb::object>& objects = parameters_.emplace_back();
      for (nb::handle parameter : nb::iter(value_of(nb::borrow<nb::dict>(group), "params")))
        objects.push_back(nb::borrow(parameter));
    }
    groups_.clear();
    for (nb::handle group : groups) {
      std::vector<nb::object>& objects = groups_.emplace_back();
      for (auto [key, value] : nb::borrow<nb::dict>(group)) {
        objects.push_back(nb::borrow(key));
        objects.push_back(nb::borrow(value));
      }
    }
  }

 private:
  static bool same(PyObject* group, const std::vector<nb::object>& objects) {
    if (2 * static_cast<size_t>(PyDict_Size(group)) != objects.size()) return false;
    PyObject *key = nullptr, *value = nullptr;
    size_t i = 0;
    for (Py_ssize_t at = 0; PyDict_Next(group, &at, &key, &value) != 0; i += 2) {
      if (objects[i].ptr() != key || objects[i + 1].ptr() != value) return false;
      const bool is_parameters = PyList_Check(value) && PyUnicode_CompareWithASCIIString(key, "params") == 0;
      if (!is_parameters && !PyFloat_CheckExact(value) && !PyLong_Check(value) && !PyTuple_CheckExact(value) &&
          !PyUnicode_CheckExact(value) && value != Py_None)
        return false;
    }
    return true;
  }

  static PyObject* name_of_parameters() {
    static PyObject* const name = PyUnicode_InternFromString("params");
    return name;
  }

  std::vector<std::vector<nb::object>> groups_, parameters_;
};

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

// `options_of` reads the options of a group from its dict.
template <class O>
struct Bound : O {
  using O::O;
  ReadGroups groups_read;

  bool has_parameters(const nb::list& groups) const {
    return groups_read.same_parameters(groups) || python::has_parameters(*this, groups);
  }
};

template <class O, class Options>
void bind_optimizer(nb::module_& m, const char* name, Options (*options_of)(const nb::dict&)) {
  using B = Bound<O>;
  const auto set = [options_of](B& self, const nb::list& groups) {
    self.groups_read = {};
    for (size_t i = 0; i < self.groups(); ++i) {
      const nb::dict group = nb::cast<nb::dict>(groups[i]);
      self.set_options(options_of(group), i);
      self.set_maximize(group.contains("maximize") && flag(group, "maximize"), i);
    }
    self.groups_read.read(groups);
  };
  nb::class_<B, train::Optimizer>(m, name)
      .def(
          "__init__",
          [set, options_of](B* self, const nb::list& groups) {
            if (nb::len(groups) == 0) throw bad_input("[optimizer] there are no parameters");
            const Options first = options_of(nb::cast<nb::dict>(groups[0]));
            if constexpr (std::is_same_v<O, train::AdamW>) {
              new (self) B(groups_of(groups), {.lr = first.lr});
            } else {
              new (self) B(groups_of(groups), first);
            }
            set(*self, groups);
          },
          nb::sig("def __init__(self, groups: list[dict[str, Any]], /) -> None"))
      .def("set_options", set, nb::sig("def set_options(self, groups: list[dict[str, Any]], /) -> None"))
      .def(
          "has_read",
          [](const B& self, const nb::list& groups) {
            return self.groups_read.same(groups) && self.has_parameters(groups);
          },
          nb::sig("def has_read(self, groups: list[dict[str, Any]], /) -> bool"))
      .def("has_parameters", &B::has_parameters,
           nb::sig("def has_parameters(self, groups: list[dict[str, Any]], /) -> bool"));
}

void bind_kinds(nb::module_& m) {
  bind_optimizer<train::Sgd, train::SgdOptions>(m, "_SGD", [](const nb::dict& o) {
    return train::SgdOptions{.lr = number(o, "lr"),
                             .momentum = number(o, "momentum"),
                             .dampening = number(o, "dampening"),
                             .weight_decay = number(o, "weight_decay"),
                             .nesterov = flag(o, "nesterov")};
  });
  const auto adam_options = [](const nb::dict& o) {
    return train::AdamOptions{.lr = number(o, "lr"),
                              .beta1 = beta(o, 0),
                              .beta2 = beta(o, 1),
                              .epsilon = number(o, "eps"),
                              .weight_decay = number(o, "weight_decay"),
                              .amsgrad = flag(o, "amsgrad")};
  };
  bind_optimizer<train::Adam, train::AdamOptions>(m, "_Adam", adam_options);
  bind_optimizer<train::AdamW, train::AdamOptions>(m, "_AdamW", adam_options);
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
           [](train::Optimizer& self, bool set_to_none) {
             require_no_trace();
             self.zero_grad(set_to_none);
           })
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
