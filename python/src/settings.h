// Arguments of layers' constructors as attributes, which can be read, and set where they count in the next call.
#pragma once

#include "python/src/nn.h"

namespace gabbro::python {

// A tuple or number of an option as Python's object. One number is an int where the layer has several axes: it was set
// as one, since constructors make one for each axis.
inline nb::object numbers_object(std::span<const int64_t> values, bool one_is_int = true) {
  if (values.size() == 1 && one_is_int) return nb::int_(values[0]);
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return nb::tuple(list);
}

// An attribute by two functions of the layer, get(const L&) and set(L&, value).
template <class Class, class Value>
void setting(Class& layer, const char* name, Value (*get)(const typename Class::Type&),
             void (*set)(typename Class::Type&, Value)) {
  using L = typename Class::Type;
  layer.def_prop_rw(name, get, [set](L& self, Value value) {
    set(self, std::move(value));
    self.note_change();
  });
}

// As above, for a member that Python reads with another type than it writes.
template <class Written, class Class, class Read>
void setting_of(Class& layer, const char* name, Read (*get)(const typename Class::Type&),
                void (*set)(typename Class::Type&, Written)) {
  using L = typename Class::Type;
  layer.def_prop_rw(name, get, [set](L& self, Written value) {
    set(self, std::move(value));
    self.note_change();
  });
}

// A member of the layer's options.
template <class Class, class Options, class Value>
void option(Class& layer, const char* name, Value Options::*member) {
  using L = typename Class::Type;
  layer.def_prop_rw(
      name, [member](const L& self) { return self.options().*member; },
      [member](L& self, Value value) {
        Options options = self.options();
        options.*member = std::move(value);
        self.set_options(options);
        self.note_change();
      });
}

// As above, for a member that is a list of numbers: one for all axes, or one for each.
template <class Class, class Options>
void numbers_option(Class& layer, const char* name, std::vector<int64_t> Options::*member, bool one_is_int = true) {
  using L = typename Class::Type;
  layer.def_prop_rw(
      name, [member, one_is_int](const L& self) { return numbers_object(self.options().*member, one_is_int); },
      [member](L& self, const Integers& value) {
        Options options = self.options();
        options.*member = value.values;
        self.set_options(options);
        self.note_change();
      });
}

// An argument that has shaped the layer when it was made: another value is an AttributeError, which names it.
template <class Class, class Get>
void fixed(Class& layer, const char* name, Get get) {
  using L = typename Class::Type;
  layer.def_prop_rw(
      name, get,
      [name, get](const L& self, nb::handle value) {
        if (nb::cast(get(self)).equal(value)) return;
        const std::string layer_name = nb::cast<std::string>(nb::find(self).type().attr("__name__"));
        throw nb::attribute_error(fmt::format("[{}] {} of a layer is chosen when it is made: {}, not {}", layer_name,
                                              name, nb::repr(nb::cast(get(self))).c_str(), nb::repr(value).c_str())
                                      .c_str());
      },
      nb::arg("value").none());
}

// An argument of PyTorch's layer that this one does not have: it can be read, and nothing but this value be set.
template <class Class, class Value>
void absent(Class& layer, const char* name, Value value) {
  using L = typename Class::Type;
  fixed(layer, name, [value](const L&) { return value; });
}
template <class Class>
void absent(Class& layer, const char* name) {
  using L = typename Class::Type;
  fixed(layer, name, [](const L&) { return nb::none(); });
}

}  // namespace gabbro::python
