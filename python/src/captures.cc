#include "python/src/captures.h"

#include <algorithm>
#include <bit>

#include "gabbro/graph/autocast.h"
#include "python/src/checked.h"
#include "python/src/device.h"
#include "python/src/nn.h"
#include "src/graph/history.h"

namespace gabbro::python {
namespace {

// 0.0 and -0.0 are equal, and not the same; a NaN is the same as itself.
bool same_bits(double now, double before) { return std::bit_cast<uint64_t>(now) == std::bit_cast<uint64_t>(before); }

// Whether both are one object, or equal numbers or texts of one class.
bool same(PyObject* now, PyObject* before) {
  if (now == before) return true;
  if (now == nullptr || Py_TYPE(now) != Py_TYPE(before)) return false;
  if (PyFloat_CheckExact(now)) return same_bits(PyFloat_AsDouble(now), PyFloat_AsDouble(before));
  if (PyComplex_CheckExact(now)) {
    return same_bits(PyComplex_RealAsDouble(now), PyComplex_RealAsDouble(before)) &&
           same_bits(PyComplex_ImagAsDouble(now), PyComplex_ImagAsDouble(before));
  }
  if (!PyLong_CheckExact(now) && !PyUnicode_CheckExact(now) && !PyBytes_CheckExact(now)) return false;
  const int equal = PyObject_RichCompareBool(now, before, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// `expected` is a tuple: the elements that a list had.
bool same_list(PyObject* list, PyObject* expected) {
  const Py_ssize_t size = PyTuple_Size(expected);
  if (PyList_Size(list) != size) return false;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!same(PyList_GetItem(list, i), PyTuple_GetItem(expected, i))) return false;
  return true;
}

bool same_elements(const nb::tuple& now, PyObject* expected) {
  const size_t size = now.size();
  if (size != static_cast<size_t>(PyTuple_Size(expected))) return false;
  for (size_t i = 0; i < size; ++i)
    if (!same(now[i].ptr(), PyTuple_GetItem(expected, static_cast<Py_ssize_t>(i)))) return false;
  return true;
}

// `expected` is a dict with the items that a dict had.
bool same_dict(PyObject* dict, PyObject* expected) {
  if (PyDict_Size(dict) != PyDict_Size(expected)) return false;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(expected, &at, &key, &value) != 0;) {
    PyObject* const now = PyDict_GetItemWithError(dict, key);
    if (now == nullptr || !same(now, value)) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

bool equal(nb::handle now, nb::handle before) {
  const int result = PyObject_RichCompareBool(now.ptr(), before.ptr(), Py_EQ);
  if (result < 0) throw nb::python_error();
  return result == 1;
}

// `kind`: the shape and dtype that an array had.
bool is_of_kind(nb::handle array, nb::handle kind) {
  return equal(array.attr("shape"), kind[0]) && array.attr("dtype").is(kind[1]);
}

}  // namespace

Captures::Modes Captures::modes() {
  return {.gradients = gradients_enabled(), .autocast = autocast_dtype(), .device = chosen_device()};
}

Captures::Captures(const nb::list& places) : modes_(modes()) {
  for (nb::handle place : places) places_.push_back({nb::borrow(place), &nb::cast<Tensor&>(place)});
}

void Captures::keep(const std::vector<bool>& kept) {
  size_t i = 0;
  std::erase_if(places_, [&](const Place&) { return !kept[i++]; });
}

void Captures::set_guards(const nb::list& guards) {
  guards_.clear();
  constexpr std::pair<const char*, Kind> kKinds[] = {
      {"item", Kind::kItem},   {"cell", Kind::kCell},         {"attribute", Kind::kAttribute},
      {"list", Kind::kList},   {"dict", Kind::kDict},         {"equal", Kind::kEqual},
      {"bytes", Kind::kBytes}, {"training", Kind::kTraining}, {"state", Kind::kState},
      {"size", Kind::kSize},   {"options", Kind::kOptions},   {"absent", Kind::kAbsent},
      {"bound", Kind::kBound}, {"sequence", Kind::kSequence}};
  for (nb::handle guard : guards) {
    const std::string name = text_of(guard[0]);
    const auto kind = std::ranges::find(kKinds, name, [](const auto& entry) { return std::string_view(entry.first); });
    if (kind == std::end(kKinds)) throw bad_input("[compile] a guard of the kind '{}'", name);
    guards_.push_back({kind->second, nb::borrow(guard[1]), nb::borrow(guard[2]), nb::borrow(guard[3])});
    Guard& added = guards_.back();
    if (added.kind == Kind::kState) added.state = nb::cast<const Tensor&>(added.holder).shared_state();
    if (added.kind == Kind::kTraining || added.kind == Kind::kOptions)
      added.module = &nb::cast<const nn::Module&>(added.holder);
    if (added.module != nullptr || added.kind == Kind::kSize) added.number = nb::cast<uint64_t>(added.expected);
  }
}

bool Captures::holds(const Guard& guard) {
  PyObject *const holder = guard.holder.ptr(), *const expected = guard.expected.ptr();
  switch (guard.kind) {
    case Kind::kItem: {
      if (PyDict_Check(holder)) return same(PyDict_GetItemWithError(holder, guard.key.ptr()), expected);
      const nb::object now = nb::steal(PyObject_GetItem(holder, guard.key.ptr()));  // of a class
      if (!now.is_valid()) PyErr_Clear();
      return same(now.ptr(), expected);
    }
    case Kind::kAbsent:
      return PyDict_GetItemWithError(holder, guard.key.ptr()) == nullptr;
    case Kind::kCell: {
      const nb::object now = nb::getattr(guard.holder, "cell_contents", nb::handle());
      return same(now.ptr(), expected);
    }
    case Kind::kAttribute: {
      const nb::object now = nb::getattr(guard.holder, guard.key, nb::handle());
      return same(now.ptr(), expected);
    }
    case Kind::kBound: {  // a method of a class
      const nb::object now = nb::getattr(guard.holder, guard.key, nb::none());
      return same(nb::getattr(now, "__func__", nb::none()).ptr(), expected);
    }
    case Kind::kList:
      return same_list(holder, expected);
    case Kind::kDict:
      return same_dict(holder, expected);
    case Kind::kEqual:
      return equal(guard.holder, guard.expected);
    case Kind::kSequence:
      return same_elements(nb::tuple(guard.holder), expected);
    case Kind::kBytes:
      return is_of_kind(guard.holder, guard.key) && equal(guard.holder.attr("tobytes")(), guard.expected);
    case Kind::kTraining:
      return guard.module->is_training() == (guard.number != 0);
    case Kind::kOptions:
      return guard.module->changes() == guard.number;
    case Kind::kSize:
      return static_cast<uint64_t>(PyDict_Size(holder)) == guard.number;
    case Kind::kState:
      return nb::cast<const Tensor&>(guard.holder).shared_state() == guard.state;
  }
  return false;
}

bool Captures::hold() const { return modes_ == modes() && std::ranges::all_of(guards_, holds); }

}  // namespace gabbro::python
