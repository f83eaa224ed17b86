// Registration of tensors and modules that are assigned to attributes, and their names.
#include <algorithm>
#include <unordered_map>

#include "python/src/checked.h"
#include "python/src/nn.h"
#include "python/src/pending.h"
#include "python/src/views.h"
#include "src/graph/history.h"
#include "src/ops/grad.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

// A tensor that a module takes as its own when it is assigned to an attribute.
struct Parameter : Tensor {
  explicit Parameter(const Tensor& value) : Tensor(value) {}
};

// Registration as classes of C++ do it in their constructors.
struct Open : nn::Module {
  static void parameter(nn::Module& m, std::string name, Tensor& place) {
    const bool required = needs_gradient(place);
    (m.*static_cast<void (nn::Module::*)(std::string, Tensor&, Tensor)>(&Open::add_parameter))(std::move(name), place,
                                                                                               Tensor(place));
    if (!required) place.state().history.reset();
  }
  static void buffer(nn::Module& m, std::string name, Tensor& place, bool persistent) {
    (m.*static_cast<void (nn::Module::*)(std::string, Tensor&, Tensor, bool)>(&Open::add_buffer))(
        std::move(name), place, Tensor(place), persistent);
  }
  static void child(nn::Module& m, std::string name, ModulePointer child) {
    (m.*static_cast<void (nn::Module::*)(std::string, ModulePointer)>(&Open::add_module))(std::move(name),
                                                                                          std::move(child));
  }
  static void hold(nn::Module& m, const std::string& name, nb::handle place) {
    (m.*(&Open::keep))(name, nb::cast<std::shared_ptr<Tensor>>(place));
  }
  static void forget(nn::Module& m, const std::string& name) { (m.*(&Open::remove))(name); }
};

// The layer computes with the parameter from now on, and lists it under the name of its member.
void tie_parameter(nb::handle self, const std::string& name, Tensor& member, nb::handle parameter) {
  Tensor& place = nb::cast<Tensor&>(parameter);
  if (&place == &member || tied_to(member).get() == &place) return;
  if (!(place.shape() == member.shape()) || place.dtype() != member.dtype() || place.device() != member.device()) {
    throw bad_input("[module] a {} parameter of shape {} on {} cannot be '{}', which is {} of shape {} on {}",
                    dtype_public_name(place.dtype()), place.shape().to_string(), place.device()->facts().id, name,
                    dtype_public_name(member.dtype()), member.shape().to_string(), member.device()->facts().id);
  }
  const ModulePointer module = module_of(self);
  Open::forget(*module, name);
  Open::parameter(*module, name, place);
  Open::hold(*module, name, parameter);
  tie(self, name, member, parameter);
  module->note_change();
}

void set_plainly(nb::handle self, nb::handle name, nb::handle value) {
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) nb::raise_python_error();
}

// The module's own buffer of this name, or null.
Tensor* own_buffer(nn::Module& module, const std::string& name) {
  for (const nn::Slot& slot : module.buffers())
    if (slot.name == name) return slot.tensor.get();
  return nullptr;
}

bool is_registered(nb::handle self, nb::handle name) {
  const nb::dict attributes = nb::borrow<nb::dict>(self.attr("__dict__"));
  if (!attributes.contains(name)) return false;
  const nb::object value = attributes[name];
  return nb::isinstance<Tensor>(value) || nb::isinstance<nn::Module>(value);
}

// Whether a class of C++ has registered a tensor or module of this name, with which it computes: it is not among the
// object's attributes.
bool is_of_class(nb::handle self, nb::handle name) {
  if (!nb::inst_ready(self) || nb::borrow<nb::dict>(self.attr("__dict__")).contains(name)) return false;
  const ModulePointer module = module_of(self);
  const std::string key = text_of(name);
  return module->own_tensor(key) != nullptr ||
         std::ranges::any_of(module->children(), [&](const nn::Module::Child& child) { return child.name == key; });
}

// Another one would not be computed with.
[[noreturn]] void refuse_change(nb::handle self, nb::handle name) {
  throw nb::attribute_error(
      fmt::format("[module] '{}' of a {} cannot be replaced or deleted: set its values or options", text_of(name),
                  nb::cast<std::string>(self.type().attr("__name__")))
          .c_str());
}

// A member of a C++ class, a property: it has its own setter.
bool has_setter(nb::handle type, nb::handle name) {
  const nb::object attribute = nb::getattr(type, name, nb::none());
  return nb::hasattr(attribute, "__set__");
}

void set_attribute(nb::handle self, nb::str name, nb::handle value) {
  const bool is_tensor = nb::isinstance<Tensor>(value), is_module = nb::isinstance<nn::Module>(value);
  const bool known = nb::inst_ready(self) && is_registered(self, name);
  if (has_setter(self.type(), name)) return set_plainly(self, name, value);
  if (is_of_class(self, name)) {
    Tensor* const place = module_of(self)->own_tensor(text_of(name));
    if (place == nullptr || !is_tensor) refuse_change(self, name);
    return set_member(self, text_of(name).c_str(), *place, value);
  }
  if (!is_tensor && !is_module && !known) return set_plainly(self, name, value);
  const ModulePointer module = module_of(self);
  const std::string key = text_of(name);
  if (is_tensor && !nb::isinstance<Parameter>(value)) {
    if (Tensor* buffer = own_buffer(*module, key)) {
      const Followed followed(*buffer);
      *buffer = detach(nb::cast<const Tensor&>(value));
      followed.follow();
      return compute_with_step(*buffer);
    }
    for (const nn::Slot& slot : module->parameters()) {
      if (slot.name != key) continue;
      throw nb::type_error(
          fmt::format("[module] '{}' is a parameter: assign a gabbro.nn.Parameter, or None", key).c_str());
    }
    return set_plainly(self, name, value);
  }
  Open::forget(*module, key);
  if (is_module) Open::child(*module, key, module_of(value));
  set_plainly(self, name, value);
  if (nb::isinstance<Parameter>(value)) {
    Open::parameter(*module, key, nb::cast<Tensor&>(value));
    Open::hold(*module, key, value);
  }
}

// Names that C++ has registered and Python does not know: lstm.weight_ih_l0, layer.self_attn.
nb::object get_attribute(nb::handle self, const std::string& name) {
  if (nb::inst_ready(self)) {
    const ModulePointer module = module_of(self);
    const std::vector<nn::Slot> registered[] = {module->parameters(), module->buffers()};
    for (const auto& slots : registered)
      for (const nn::Slot& slot : slots)
        if (slot.name == name) return place_object(self, *slot.tensor, &slots == &registered[0]);
    for (const nn::Module::Child& child : module->children())
      if (child.name == name) return nb::cast(child.module);
  }
  throw nb::attribute_error(
      fmt::format("'{}' has no attribute '{}'", nb::cast<std::string>(self.type().attr("__name__")), name).c_str());
}

void delete_attribute(nb::handle self, nb::str name) {
  if (is_of_class(self, name)) refuse_change(self, name);
  if (is_registered(self, name)) Open::forget(*module_of(self), text_of(name));
  set_plainly(self, name, nb::handle());
}

void register_buffer(nb::handle self, nb::str name, nb::handle tensor, bool persistent) {
  const ModulePointer module = module_of(self);
  const std::string key = text_of(name);
  if (has_setter(self.type(), name)) throw bad_input("[register_buffer] '{}' is an attribute of the class", key);
  if (is_of_class(self, name)) refuse_change(self, name);
  Open::forget(*module, key);
  if (tensor.is_none()) return set_plainly(self, name, tensor);
  const nb::object place = nb::cast(without_history(tensor_of(tensor)));
  set_plainly(self, name, place);
  Open::buffer(*module, key, nb::cast<Tensor&>(place), persistent);
  Open::hold(*module, key, place);
}

// The full name of a parameter's place; empty where the module has no such parameter.
std::string slot_name(nn::Module& module, const Tensor& place) {
  for (const nn::Slot& slot : module.parameters())
    if (slot.tensor.get() == &place) return slot.name;
  return {};
}

// The modules from which Python got places that are members of C++ classes. Guarded by the GIL.
std::unordered_map<const Tensor*, nb::object>& owners() {  // weak references of Python
  static auto& known = *new std::unordered_map<const Tensor*, nb::object>;
  return known;
}

void note_owner(const Tensor& place, nb::handle owner) {
  static size_t limit = 1024;
  if (owners().size() >= limit) {
    std::erase_if(owners(), [](const auto& entry) { return entry.second().is_none(); });
    limit = std::max<size_t>(1024, 2 * owners().size());
  }
  owners()[&place] = nb::weakref(owner);
}

// (module, name) of the place, which is a member of this module or one inside of it; None where it is not. Modules of
// Python that hold the object have it among their attributes.
nb::object member_of(const ModulePointer& module, const Tensor& place) {
  for (const nn::Module::Child& child : module->children())
    if (nb::object found = member_of(child.module, place); !found.is_none()) return found;
  const nb::object self = nb::cast(module);
  for (const nn::Slot& slot : module->parameters()) {
    if (slot.tensor.get() != &place || slot.name.find('.') != std::string::npos) continue;
    if (!nb::borrow<nb::dict>(self.attr("__dict__")).contains(slot.name.c_str()))
      return nb::make_tuple(self, slot.name);
  }
  return nb::none();
}

// The owner of any object of the class Parameter; None if it holds its own value.
nb::object owner_of(const Tensor& place) {
  const auto known = owners().find(&place);
  const nb::object module = known == owners().end() ? nb::object(nb::none()) : known->second();
  return module.is_none() ? module : member_of(module_of(module), place);
}

// A Tensor of Python as the place of a buffer, with the value that it has.
void adopt_buffer(nb::handle self, nb::str name, nb::handle tensor, bool persistent) {
  const ModulePointer module = module_of(self);
  const std::string key = text_of(name);
  if (has_setter(self.type(), name)) throw bad_input("[module] '{}' is an attribute of the class", key);
  Open::forget(*module, key);
  set_plainly(self, name, tensor);
  Open::buffer(*module, key, nb::cast<Tensor&>(tensor), persistent);
  Open::hold(*module, key, tensor);
}

void register_parameter(nb::handle self, nb::str name, nb::handle parameter) {
  if (!parameter.is_none() && !nb::isinstance<Parameter>(parameter))
    throw nb::type_error("[register_parameter] a gabbro.nn.Parameter or None is wanted");
  set_attribute(self, name, parameter);
}

void add_module(nb::handle self, nb::str name, nb::handle module) {
  if (!module.is_none() && !nb::isinstance<nn::Module>(module))
    throw nb::type_error("[add_module] a gabbro.nn.Module or None is wanted");
  set_attribute(self, name, module);
}

}  // namespace

ModulePointer module_of(nb::handle self) {
  if (!nb::inst_ready(self))
    throw nb::attribute_error("[module] a class that is derived from Module has to call super().__init__() first");
  return nb::cast<ModulePointer>(self);
}

std::shared_ptr<void> owner_of_member(const Tensor& place) {
  const auto known = owners().find(&place);
  const nb::object module = known == owners().end() ? nb::object(nb::none()) : known->second();
  return module.is_none() ? nullptr : module_of(module);
}

Tensor without_history(const Tensor& x) {
  evaluate(x);
  auto state = std::make_shared<TensorState>(x.state());
  state->history.reset();
  return Tensor(std::move(state));
}

nb::object place_object(nb::handle module, Tensor& place, std::optional<bool> parameter) {
  if (!place.defined()) return nb::none();
  if (const std::shared_ptr<Tensor> shared = tied_to(place)) return nb::cast(shared);
  if (nb::object known = nb::find(place)) return known;
  if (!parameter) parameter = !slot_name(*module_of(module), place).empty();
  note_owner(place, module);
  return nb::inst_reference(*parameter ? nb::type<Parameter>() : nb::type<Tensor>(), &place, module);
}

void set_place(Tensor& place, const Tensor& value) {
  if (!(value.shape() == place.shape()))
    throw bad_input("[module] {} does not fit a tensor of shape {}", value.shape().to_string(),
                    place.shape().to_string());
  const bool leaf = needs_gradient(place);
  std::shared_ptr<Tensor> gradient = gradient_object(place);
  const NoGrad no_grad;
  const Followed followed(place);
  place = without_history(cast(to_device(value, place.device()), place.dtype()));
  if (leaf) {
    require_gradient(place);
    take_gradient(place, std::move(gradient));
  }
  followed.follow();
}

void set_member(nb::handle module, const char* name, Tensor& place, nb::handle value) {
  if (!place.defined() || !nb::isinstance<Tensor>(value))
    throw bad_input("[module] the tensors of this layer are chosen when it is made: only their values can be assigned");
  if (nb::isinstance<Parameter>(value)) return tie_parameter(module, name, place, value);
  const std::shared_ptr<Tensor> shared = tied_to(place);
  set_place(shared != nullptr ? *shared : place, nb::cast<const Tensor&>(value));
}

std::vector<nn::Slot> slots_of(nb::handle parameters) {
  std::vector<nn::Slot> slots;
  for (nb::handle parameter : nb::iter(parameters)) {
    if (!nb::isinstance<Tensor>(parameter)) throw nb::type_error("[parameters] a tensor is wanted");
    slots.push_back({fmt::format("parameter {}", slots.size()), nb::cast<std::shared_ptr<Tensor>>(parameter)});
  }
  return slots;
}

void bind_registration(nb::class_<nn::Module>& module) {
  module.def("__setattr__", set_attribute, nb::arg(), nb::arg().none(),
             nb::sig("def __setattr__(self, name: str, value: Any, /) -> None"));
  module.def("__getattr__", get_attribute, nb::sig("def __getattr__(self, name: str, /) -> Any"));
  module.def("__delattr__", delete_attribute, nb::sig("def __delattr__(self, name: str, /) -> None"));
  module.def("register_parameter", register_parameter, nb::arg("name"), nb::arg("param").none(),
             nb::sig("def register_parameter(self, name: str, param: Parameter | None) -> None"),
             "As ``self.name = param``; None for a parameter that there is not.");
  module.def("register_buffer", register_buffer, nb::arg("name"), nb::arg("tensor").none(),
             nb::arg("persistent") = true,
             nb::sig("def register_buffer(self, name: str, tensor: ArrayLike | None, persistent: bool = True) -> None"),
             R"(A tensor that is not trained: it moves with the module, and is in its state dict where it is persistent.

What is assigned to it later is its new value.

>>> module = gb.nn.Module()
>>> module.register_buffer("mean", gb.zeros(2))
>>> list(module.state_dict())
['mean']
)");
  module.def("add_module", add_module, nb::arg("name"), nb::arg("module").none(),
             nb::sig("def add_module(self, name: str, module: Module | None) -> None"),
             "As ``self.name = module``, for names that are made up.");
  module.def("register_module", add_module, nb::arg("name"), nb::arg("module").none(),
             nb::sig("def register_module(self, name: str, module: Module | None) -> None"), "As `add_module`.");
}

void bind_parameters(nb::module_& m) {
  static_assert(sizeof(Parameter) == sizeof(Tensor));  // place_object makes the one of the other
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(parameter_dealloc())}, {0, nullptr}};
  nb::class_<Parameter, Tensor> parameter(m, "Parameter", nb::type_slots(slots),
                                          R"(A tensor that a module trains when it is assigned to an attribute.

Parameters
----------
data : Tensor or array
    Its first value, of float32, float64, float16 or bfloat16.
requires_grad : bool

>>> gb.nn.Parameter(gb.ones(2)).requires_grad
True
)");
  parameter.def(
      "__init__",
      [](Parameter* self, nb::handle data, bool requires_grad) {
        Tensor value = without_history(tensor_of(data));
        if (requires_grad) require_gradient(value);
        new (self) Parameter(value);
      },
      nb::arg("data"), nb::arg("requires_grad") = true,
      nb::sig("def __init__(self, data: ArrayLike, requires_grad: bool = True) -> None"));
  parameter.def(
      "__reduce__",
      [](nb::handle self) {
        const nb::module_ functions = nb::module_::import_("gabbro._unpickle");
        const nb::object owner = owner_of(nb::cast<const Tensor&>(self));
        if (!owner.is_none()) return nb::make_tuple(functions.attr("place"), owner);
        return nb::make_tuple(functions.attr("parameter"), nb::module_::import_("gabbro._core").attr("_pickled")(self));
      },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  m.def("_owner", owner_of, nb::sig("def _owner(place: Tensor, /) -> tuple[Module, str] | None"));
  m.def("_adopt_buffer", adopt_buffer,
        nb::sig("def _adopt_buffer(module: Module, name: str, tensor: Tensor, persistent: bool, /) -> None"));
}

}  // namespace gabbro::python
