// x[...]: integers, slices, None, Ellipsis, tensors of integers and masks.
#include <nanobind/ndarray.h>

#include "python/bind.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

Index part_argument(nb::handle part, const Tensor& x) {
  if (part.is(Py_Ellipsis)) return Ellipsis{};
  if (part.is_none()) return NewAxis{};
  if (PySlice_Check(part.ptr())) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    return Slice{start, stop, step};
  }
  // Arrays and tensors have __index__ too; and a sequence's methods, unlike NumPy's scalars.
  if (PyIndex_Check(part.ptr()) && !PyBool_Check(part.ptr()) && !PySequence_Check(part.ptr()))
    return integers("getitem", "an index", part)[0];
  if (nb::isinstance<Tensor>(part)) return nb::cast<const Tensor&>(part);
  if (nb::isinstance<nb::list>(part) || nb::ndarray_check(part)) {
    const Tensor places = tensor_of(part, {.device = x.device()});
    // An empty list has no integers that could say what they are.
    return places.shape().elements() == 0 && is_floating(places.dtype()) ? cast(places, DType::i32) : places;
  }
  throw nb::type_error(fmt::format("[getitem] {} is no index: integers, slices, None, '...', tensors and lists are",
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
  for (const Index& index : indices) {
    const auto* tensor = std::get_if<Tensor>(&index);
    if (tensor == nullptr) continue;
    if (is_floating(tensor->dtype()) || is_quantised(tensor->dtype())) {
      throw nb::type_error(
          fmt::format("[getitem] a {} tensor is no index", dtype_public_name(tensor->dtype())).c_str());
    }
    if (tensor->dtype() == DType::boolean) require_no_trace();  // the result's shape depends on its values
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
          nb::arg().none(), nb::sig("def __getitem__(self, index: Index, /) -> Tensor"))
      .def(
          "__iter__",
          [](const Tensor& x) {
            if (x.shape().rank() == 0) throw nb::type_error("a tensor of shape () has no rows to iterate over");
            nb::list rows;
            for (const Tensor& row : unstack(x)) rows.append(row);
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> Iterator[Tensor]"));
}

}  // namespace gabbro::python
