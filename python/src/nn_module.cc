// The class Module: the base of Python's and C++'s layers.
#include <algorithm>

#include "python/src/checked.h"
#include "python/src/nn.h"
#include "python/src/views.h"

namespace gabbro::python {
namespace {

nb::list named_places(const std::vector<nn::Slot>& slots, bool parameters, nb::handle self, const std::string& prefix,
                      bool recurse) {
  nb::list named;
  for (const nn::Slot& slot : slots) {
    if (!recurse && slot.name.find('.') != std::string::npos) continue;
    named.append(nb::make_tuple(prefix.empty() ? slot.name : prefix + "." + slot.name,
                                place_object(self, *slot.tensor, parameters)));
  }
  return named;
}

nb::object iterator_of(nb::handle list) { return list.attr("__iter__")(); }

nb::object values(const nb::list& named) {
  nb::list all;
  for (nb::handle pair : named) all.append(pair[1]);
  return iterator_of(all);
}

// Each once, with its name; the module itself is first.
void add_named(const ModulePointer& module, const std::string& name, std::vector<const nn::Module*>& known,
               nb::list& named) {
  if (std::ranges::find(known, module.get()) != known.end()) return;
  known.push_back(module.get());
  named.append(nb::make_tuple(name, nb::cast(module)));
  for (const nn::Module::Child& child : module->children())
    add_named(child.module, name.empty() ? child.name : name + "." + child.name, known, named);
}

nb::list named_modules(const ModulePointer& module) {
  std::vector<const nn::Module*> known;
  nb::list named;
  add_named(module, "", known, named);
  return named;
}

nb::list named_children(const nn::Module& module) {
  nb::list named;
  for (const nn::Module::Child& child : module.children())
    named.append(nb::make_tuple(child.name, nb::cast(child.module)));
  return named;
}

// to("cpu"), to(gb.float16), to("cpu", gb.float16) and the same by names.
void move(const ModulePointer& module, const nb::args& args, nb::handle device, nb::handle dtype) {
  const auto set_dtype = [&](nb::handle wanted) { module->to_dtype(dtype_argument(wanted)); };
  for (nb::handle argument : args) {
    bool is_dtype = true;
    try {
      dtype_argument(argument);
    } catch (const std::exception&) {
      is_dtype = false;
    }
    if (is_dtype) {
      set_dtype(argument);
    } else {
      module->to_device(device_argument(argument));
    }
  }
  if (!device.is_none()) module->to_device(device_argument(device));
  if (!dtype.is_none()) set_dtype(dtype);
}

bool has_hooks(nb::handle module) {
  static PyObject* const name = PyUnicode_InternFromString("_call_hooks");
  const nb::object attributes = nb::steal(PyObject_GenericGetDict(module.ptr(), nullptr));
  const int found = attributes.is_valid() ? PyDict_Contains(attributes.ptr(), name) : -1;
  if (found < 0) throw nb::python_error();
  return found == 1;
}

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

// Linear(weight=(10, 3), bias=(10,)); submodules have separate lines.
std::string module_repr(nb::handle self) {
  const std::string name = nb::cast<std::string>(self.type().attr("__name__"));
  const std::string own = nb::cast<std::string>(self.attr("extra_repr")());
  const ModulePointer module = module_of(self);
  if (module->children().empty()) return name + "(" + own + ")";
  std::string lines;
  if (!own.empty()) lines += "\n  " + own;
  for (const nn::Module::Child& child : module->children())
    lines += fmt::format("\n  ({}): {}", child.name, indented(nb::repr(nb::cast(child.module)).c_str()));
  return name + "(" + lines + "\n)";
}

std::string shapes(const ModulePointer& module) {
  std::string text;
  for (const auto& slots : {module->parameters(), module->buffers()}) {
    for (const nn::Slot& slot : slots) {
      if (slot.name.find('.') != std::string::npos) continue;
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", slot.name, slot.tensor->shape().to_string());
    }
  }
  return text;
}

void bind_walks(nb::class_<nn::Module>& module) {
  const auto named = [&](const char* name, const char* all, std::vector<nn::Slot> (nn::Module::*slots)(),
                         const char* doc) {
    const bool parameters = slots == &nn::Module::parameters;
    module.def(
        name,
        [slots, parameters](nb::handle self, const std::string& prefix, bool recurse) {
          return iterator_of(named_places(((*module_of(self)).*slots)(), parameters, self, prefix, recurse));
        },
        nb::arg("prefix") = "", nb::arg("recurse") = true,
        nb::sig(
            fmt::format("def {}(self, prefix: str = '', recurse: bool = True) -> Iterator[tuple[str, Tensor]]", name)
                .c_str()),
        doc);
    module.def(
        all,
        [slots, parameters](nb::handle self, bool recurse) {
          return values(named_places(((*module_of(self)).*slots)(), parameters, self, "", recurse));
        },
        nb::arg("recurse") = true,
        nb::sig(fmt::format("def {}(self, recurse: bool = True) -> Iterator[Tensor]", all).c_str()), doc);
  };
  named("named_parameters", "parameters", &nn::Module::parameters,
        "The parameters of this module and of the modules inside of it, each once.");
  named("named_buffers", "buffers", &nn::Module::buffers,
        "The buffers of this module and of the modules inside of it, each once.");
  module.def(
      "named_modules", [](nb::handle self) { return iterator_of(named_modules(module_of(self))); },
      nb::sig("def named_modules(self) -> Iterator[tuple[str, Module]]"),
      "Itself, under the name '', and all modules inside of it.");
  module.def(
      "modules", [](nb::handle self) { return values(named_modules(module_of(self))); },
      nb::sig("def modules(self) -> Iterator[Module]"), "Itself and all modules inside of it.");
  module.def(
      "named_children", [](nb::handle self) { return iterator_of(named_children(*module_of(self))); },
      nb::sig("def named_children(self) -> Iterator[tuple[str, Module]]"), "The modules right inside of it.");
  module.def(
      "children", [](nb::handle self) { return values(named_children(*module_of(self))); },
      nb::sig("def children(self) -> Iterator[Module]"), "The modules right inside of it.");
  module.def(
      "apply",
      [](nb::object self, const nb::callable& function) {
        for (nb::handle child : named_children(*module_of(self))) child[1].attr("apply")(function);
        function(self);
        return self;
      },
      nb::arg("function"), nb::sig("def apply(self, function: Callable[[Module], Any]) -> Self"),
      "Calls the function with each module inside of it, and then with itself.");
  module.def(
      "__tensors__", [](nb::handle self) { return module_of(self)->tensors(); }, "What `gabbro.eval` computes.");
}

void bind_modes(nb::class_<nn::Module>& module) {
  module.def(
      "train",
      [](nb::object self, bool mode) {
        module_of(self)->train(mode);
        return self;
      },
      nb::arg("mode") = true, nb::sig("def train(self, mode: bool = True) -> Self"),
      "Dropout drops, and batch norm looks at the batch, in all modules inside of it.");
  module.def(
      "eval",
      [](nb::object self) {
        module_of(self)->train(false);
        return self;
      },
      nb::sig("def eval(self) -> Self"), "As ``train(False)``.");
  module.def_prop_ro("training", &nn::Module::is_training, "What `train` and `eval` set.");
  module.def(
      "zero_grad",
      [](nb::handle self, bool set_to_none) {
        require_no_trace();
        module_of(self)->zero_grad(set_to_none);
      },
      nb::arg("set_to_none") = true, "Forgets the gradients of all parameters, or makes their elements 0.");
  module.def(
      "requires_grad_",
      [](nb::object self, bool requires_grad) {
        module_of(self)->requires_grad(requires_grad);
        return self;
      },
      nb::arg("requires_grad") = true, nb::sig("def requires_grad_(self, requires_grad: bool = True) -> Self"),
      "Freezes all parameters, or trains them again.");
  module.def(
      "to",
      [](nb::object self, const nb::args& args, nb::handle device, nb::handle dtype) {
        move(module_of(self), args, device, dtype);
        return self;
      },
      nb::arg("args"), nb::arg("device") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::sig("def to(self, *args: DeviceLike | DTypeLike, device: DeviceLike | None = None, "
              "dtype: DTypeLike | None = None) -> Self"),
      R"(Brings the tensors to a device, and those that are floating to a dtype; the parameters stay the same objects.

Raises
------
ValueError
    For a dtype without gradients.

>>> gb.nn.Linear(2, 3).to(gb.float16).weight.dtype
gabbro.float16
)");
  module.def(
      "state_dict", [](const nn::Module& self) { return dict_of(self.state_dict()); },
      nb::sig("def state_dict(self) -> dict[str, Tensor]"),
      R"(The values of parameters and persistent buffers by name; the names are PyTorch's.

>>> list(gb.nn.Linear(2, 3).state_dict())
['weight', 'bias']
)");
  module.def(
      "load_state_dict",
      [](const ModulePointer& self, const nb::dict& state, bool strict) {
        FollowedSlots followed;
        followed.add(self->parameters());
        followed.add(self->buffers());
        self->load_state_dict(state_of(state), strict);
        followed.follow();
      },
      nb::arg("state_dict"), nb::arg("strict") = true,
      nb::sig("def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None"),
      R"(Replaces the values by these, brought to the dtype and device of the old ones.

Parameters
----------
state_dict : dict of str to Tensor or array
strict : bool
    Every tensor has to be there, and no other.

Raises
------
ValueError
    For other shapes, and (strict) names that are missing or not known. Nothing is replaced then.

>>> layer = gb.nn.Linear(1, 1)
>>> layer.load_state_dict({"weight": gb.tensor([[2.0]]), "bias": gb.tensor([1.0])})
>>> layer(gb.tensor([3.0]))
tensor([7.])
)");
}

}  // namespace

nb::dict dict_of(const nn::StateDict& state) {
  nb::dict result;
  for (const nn::NamedTensor& named : state) result[named.name.c_str()] = named.tensor;
  return result;
}

nn::StateDict state_of(const nb::dict& state) {
  nn::StateDict result;
  for (auto [name, value] : state)
    result.push_back({value_argument<std::string>("load_state_dict", "a name", name), tensor_of(value)});
  return result;
}

void bind_modules(nb::module_& m) {
  bind_parameters(m);
  nb::class_<nn::Module> module(
      m, "Module", nb::dynamic_attr(), nb::is_weak_referenceable(),
      R"(What has parameters, buffers and modules inside of it, and computes something with them.

A class that is derived from it calls ``super().__init__()``, assigns parameters and modules to its attributes, and
has a method ``forward``, which is what a call of the module calls.

>>> class Twice(gb.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.inner = gb.nn.Linear(2, 2)
...         self.scale = gb.nn.Parameter(gb.tensor(2.0))
...     def forward(self, x):
...         return self.inner(x) * self.scale
>>> [name for name, _ in Twice().named_parameters()]
['scale', 'inner.weight', 'inner.bias']
)");
  module.def(nb::init<>());
  module.def(
      "forward",
      [](nb::handle self, const nb::args&, const nb::kwargs&) {
        PyErr_Format(PyExc_NotImplementedError, "[module] %s has no forward",
                     nb::cast<std::string>(self.type().attr("__name__")).c_str());
        throw nb::python_error();
      },
      nb::sig("def forward(self, *args: Any, **kwargs: Any) -> Any"), "What it computes: classes have their own.");
  module.def(
      "__call__",
      [](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
        if (has_ties() || !nb::inst_ready(self)) read_ties(*module_of(self));
        if (has_hooks(self))
          return nb::object(nb::module_::import_("gabbro.nn.hooks").attr("called")(self, args, kwargs));
        return nb::object(self.attr("forward")(*args, **kwargs));
      },
      nb::sig("def __call__(self, *args: Any, **kwargs: Any) -> Any"));
  module.def("__repr__", module_repr);
  module.def(
      "extra_repr", [](nb::handle self) { return shapes(module_of(self)); },
      "What stands between the brackets when it is printed.");
  bind_registration(module);
  bind_walks(module);
  bind_modes(module);
  nb::class_<nn::Layer, nn::Module>(m, "Layer", R"(A module of one tensor that gives one tensor.

>>> isinstance(gb.nn.ReLU(), gb.nn.Layer)
True
)")
      .def("forward", &nn::Layer::forward, nb::arg("x"), nb::sig("def forward(self, x: Tensor, /) -> Tensor"),
           "The layer's output for `x`.");
}

}  // namespace gabbro::python
