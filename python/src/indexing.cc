// x[...]: integers, slices, None, Ellipsis, tensors of integers, and masks, which may have no axes (True, False).
#include <nanobind/ndarray.h>

#include "python/src/views.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

// True, False and NumPy's: masks without axes. NumPy's have __index__, which raises.
bool is_flag(nb::handle part) {
  if (PyBool_Check(part.ptr())) return true;
  if (PyLong_CheckExact(part.ptr()) || PySlice_Check(part.ptr())) return false;
  const nb::str type = nb::inst_name(part);
  return std::string_view(type.c_str()) == "numpy.bool" || std::string_view(type.c_str()) == "numpy.bool_";
}

Tensor checked_tensor(const Tensor& index) {
  if (is_floating(index.dtype()) || is_quantized(index.dtype()))
    throw nb::type_error(
        fmt::format("[getitem] a {} tensor is not an index", dtype_public_name(index.dtype())).c_str());
  if (index.dtype() == DType::boolean) require_no_trace();  // the result's shape depends on its values
  return index;
}

int64_t number_argument(nb::handle part) {
  try {
    return integers("getitem", "an index", part)[0];
  } catch (const Error& error) {
    throw nb::index_error(error.what());  // beyond 64 bits
  }
}

Index part_argument(nb::handle part, const Tensor& x) {
  if (part.is(Py_Ellipsis)) return Ellipsis{};
  if (part.is_none()) return NewAxis{};
  if (PySlice_Check(part.ptr())) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    return Slice{start, stop, step};
  }
  if (is_flag(part)) {
    const uint8_t flag = PyObject_IsTrue(part.ptr()) == 1 ? 1 : 0;
    return x.device()->upload(DType::boolean, Shape{}, &flag);
  }
  // Arrays and tensors have __index__ too; and a sequence's methods, unlike NumPy's scalars.
  if (PyIndex_Check(part.ptr()) && !PySequence_Check(part.ptr())) return number_argument(part);
  if (nb::isinstance<Tensor>(part)) return checked_tensor(nb::cast<const Tensor&>(part));
  const bool list = nb::isinstance<nb::list>(part) || nb::isinstance<nb::tuple>(part) || PyRange_Check(part.ptr());
  if (list || nb::ndarray_check(part)) {
    const Tensor places =
        list ? tensor_of(nb::list(part), {.device = x.device()}) : tensor_of(part, {.device = x.device()});
    // An empty list has no integers that tell its dtype.
    if (list && places.shape().elements() == 0 && is_floating(places.dtype())) return cast(places, DType::i32);
    return checked_tensor(places);
  }
  throw nb::type_error(fmt::format("[getitem] {} is not an index: integers, slices, None, '...', tensors and lists are",
                                   nb::repr(part).c_str())
                           .c_str());
}

}  // namespace

std::vector<Index> index_argument(nb::handle object, const Tensor& x) {
  std::vector<Index> indices;
  if (nb::isinstance<nb::tuple>(object)) {
    for (nb::handle part : nb::borrow<nb::tuple>(object)) indices.push_back(part_argument(part, x));
  } else {
    indices.push_back(part_argument(object, x));
  }
  return indices;
}

Tensor element(const Tensor& x, const std::vector<Index>& indices) {
  try {
    return index(x, indices);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kBadInput) throw nb::index_error(error.what());
    throw;
  }
}

void bind_indexing(TensorClass& tensor) {
  tensor
      .def(
          "__getitem__", [](const Tensor& x, nb::handle object) { return element(x, index_argument(object, x)); },
          nb::arg().none(), nb::sig("def __getitem__(self, index: Index, /) -> Tensor"), nb::call_policy<ViewOfFirst>())
      .def(
          "__iter__",
          [](nb::handle self) {
            if (nb::cast<const Tensor&>(self).shape().rank() == 0)
              throw nb::type_error("a tensor of shape () has no rows to iterate over");
            return nb::steal(PySeqIter_New(self.ptr()));  // x[0], x[1] ...
          },
          nb::sig("def __iter__(self) -> Iterator[Tensor]"));
}

}  // namespace gabbro::python
