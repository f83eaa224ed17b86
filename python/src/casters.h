// Conversions of the op functions' arguments from Python. A refused argument becomes a TypeError that names the
// function.
#pragma once

#include "gabbro/ops/axes.h"
#include "python/src/bind.h"

namespace gabbro::python {

// An integer, or a sequence of them: `shape`, `stride`, ...
struct Integers {
  std::vector<int64_t> values;
};

// `axis`: None for all, one, or several.
struct AxisArgument {
  Axes axes;
};

}  // namespace gabbro::python

namespace nanobind::detail {

template <>
struct type_caster<gabbro::python::AxisArgument> {
  NB_TYPE_CASTER(gabbro::python::AxisArgument, const_name("int | collections.abc.Sequence[int] | None"))

  // A bool or a tensor is another argument in PyTorch: var(x, unbiased), max(x, other).
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (source.is_none()) return true;
    if (PyBool_Check(source.ptr()) || nanobind::isinstance<gabbro::Tensor>(source)) return false;
    try {
      value.axes = gabbro::Axes(gabbro::python::integers("", "", source));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static handle from_cpp(const gabbro::python::AxisArgument&, rv_policy, cleanup_list*) noexcept {
    return none().release();  // only ever the default
  }
};

template <>
struct type_caster<gabbro::python::Integers> {
  NB_TYPE_CASTER(gabbro::python::Integers, const_name("int | collections.abc.Sequence[int]"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    try {
      value.values = gabbro::python::integers("", "", source);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static handle from_cpp(const gabbro::python::Integers& source, rv_policy policy, cleanup_list* cleanup) noexcept {
    return source.values.size() == 1 ? make_caster<int64_t>::from_cpp(source.values[0], policy, cleanup)
                                     : make_caster<std::vector<int64_t>>::from_cpp(source.values, policy, cleanup);
  }
};

template <>
struct type_caster<gabbro::DType> {
  NB_TYPE_CASTER(gabbro::DType, const_name("DTypeLike"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    try {
      value = gabbro::python::dtype_argument(source);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static handle from_cpp(gabbro::DType source, rv_policy, cleanup_list*) noexcept {
    return gabbro::python::dtype_object(source).release();
  }
};

}  // namespace nanobind::detail
