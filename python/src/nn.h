// Common declarations of the bindings of src/nn and src/train: gabbro/nn and gabbro/optim.py are their faces.
#pragma once

#include <nanobind/stl/shared_ptr.h>

#include "gabbro/nn/module.h"
#include "python/src/ops.h"

namespace gabbro::nn {
enum class PaddingMode;
}

namespace gabbro::python {

void bind_modules(nb::module_& m);
void bind_linear_layers(nb::module_& m);
void bind_window_layers(nb::module_& m);
const char* padding_mode_name(nn::PaddingMode mode);  // PyTorch's
void bind_norm_layers(nb::module_& m);
void bind_activation_layers(nb::module_& m);
void bind_sequence_layers(nb::module_& m);
void bind_transformers(nb::module_& m);
void bind_copies(nb::module_& m);
void bind_network_functions(nb::module_& m);
void bind_initial_values(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_training(nb::module_& m);
void bind_data_parallel(nb::module_& m);

// `device` of layers: None for the default.
struct DeviceArgument {
  nb::handle object;
};

// random.cc: what `seed` sets.
const std::shared_ptr<nn::Generator>& module_generator();

inline nn::Factory factory(const DeviceArgument& device, DType dtype) {
  return {.device = device_argument(device.object), .generator = module_generator(), .dtype = dtype};
}

// run.cc. Registers a pending result of a training step (a loss, the moments of a batch): the thread's next optimizer
// step computes it in the same plan, if the tensor still has other references.
void compute_with_step(const Tensor& tensor);
std::vector<Tensor> left_to_compute(const std::shared_ptr<Device>& device);  // forgets them

// nn_registration.cc.
using ModulePointer = std::shared_ptr<nn::Module>;
ModulePointer module_of(nb::handle self);  // throws AttributeError before super().__init__()
void bind_parameters(nb::module_& m);
void bind_registration(nb::class_<nn::Module>& module);
// A tensor of a module as Python's object: it is the place itself, shows each new value, and keeps the
// module alive. None where the module has no such tensor. `parameter`: whether it is one; none: to be looked up.
nb::object place_object(nb::handle module, Tensor& place, std::optional<bool> parameter = std::nullopt);
// The module that a place is a member of; null where it is not known.
std::shared_ptr<void> owner_of_member(const Tensor& place);
// Another handle of a value: a leaf without a history.
Tensor without_history(const Tensor& x);
// Gives a place another value, of its shape and dtype; it stays the leaf that it was.
void set_place(Tensor& place, const Tensor& value);
// Assigns a value, or a gabbro.nn.Parameter, which the layer then shares (nn_ties.cc).
void set_member(nb::handle module, const char* name, Tensor& place, nb::handle value);

// nn_ties.cc: members of C++ layers for which a Parameter was assigned.
void tie(nb::handle module, const std::string& name, Tensor& member, nb::handle parameter);
bool has_ties();                                        // of any module
void read_ties(nn::Module& module);                     // before the module computes
std::shared_ptr<Tensor> tied_to(const Tensor& member);  // null where it is not tied
nb::dict ties_of(nb::handle module);                    // the parameters by their names
// Values under their names, as Python has them and as src/nn does.
nb::dict dict_of(const nn::StateDict& state);
nn::StateDict state_of(const nb::dict& state);
// The places of parameters that Python holds.
std::vector<nn::Slot> slots_of(nb::handle parameters);

// layer.weight and the like.
template <class M, class Class>
void tensor_member(Class& layer, const char* name, Tensor M::*member, bool optional = false) {
  layer.def_prop_rw(
      name, [member](nb::handle self) { return place_object(self, nb::cast<M&>(self).*member); },
      [member, name](nb::handle self, nb::handle value) { set_member(self, name, nb::cast<M&>(self).*member, value); },
      nb::arg("value").none(),
      nb::for_getter(nb::sig(fmt::format("def {}(self) -> Tensor{}", name, optional ? " | None" : "").c_str())),
      nb::for_setter(
          nb::sig(fmt::format("def {}(self, value: Tensor{}, /) -> None", name, optional ? " | None" : "").c_str())));
}

}  // namespace gabbro::python

namespace nanobind::detail {

template <>
struct type_caster<gabbro::python::DeviceArgument> {
  NB_TYPE_CASTER(gabbro::python::DeviceArgument, const_name("DeviceLike"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.object = source;
    return true;
  }

  static handle from_cpp(const gabbro::python::DeviceArgument&, rv_policy, cleanup_list*) noexcept {
    return none().release();  // only ever the default
  }
};

}  // namespace nanobind::detail
