// The slices and the parts of a tensor along an axis, as functions and as methods.
#include <optional>
#include <variant>

#include "python/src/checked.h"
#include "python/src/ops.h"
#include "python/src/views.h"

namespace gabbro::python {
namespace {

constexpr nb::call_policy<ViewOfFirst> kView;

nb::tuple tuple_of(const std::vector<Tensor>& tensors) { return nb::tuple(nb::cast(tensors)); }

nb::typed<nb::tuple, Tensor, nb::ellipsis> unstacked(const Tensor& x, int64_t axis) {
  return tuple_of(unstack(x, axis));
}

using Parts = std::optional<std::variant<int64_t, std::vector<int64_t>>>;

// The starts of chunks of these lengths, but for the first one.
std::vector<int64_t> starts_of(const Tensor& x, const std::variant<int64_t, std::vector<int64_t>>& sizes,
                               int64_t axis) {
  const int64_t length = x.shape()[x.shape().axis("split", axis)];
  std::vector<int64_t> starts;
  if (const auto* size = std::get_if<int64_t>(&sizes)) {
    if (*size < 1) throw bad_input("[split] a size of {}", *size);
    for (int64_t at = *size; at < length; at += *size) starts.push_back(at);
    return starts;
  }
  int64_t at = 0;
  for (const int64_t size : std::get<std::vector<int64_t>>(sizes)) {
    if (size < 0) throw bad_input("[split] a size of {}", size);
    starts.push_back(at);
    at += size;
  }
  if (starts.empty() || at != length) throw bad_input("[split] sizes of {} in all for a length of {}", at, length);
  starts.erase(starts.begin());
  return starts;
}

// NumPy and PyTorch mean different things by a number, and by a list: neither is taken by position.
nb::typed<nb::tuple, Tensor, nb::ellipsis> parts(const Tensor& x, nb::handle by_position, int64_t axis,
                                                 const Parts& sections, const Parts& sizes) {
  if (!by_position.is_none() || sections.has_value() == sizes.has_value()) {
    throw nb::type_error(
        "[split] say which is meant: indices_or_sections, as numpy.split has it, or split_size_or_sections, as "
        "torch.split");
  }
  if (sizes) return tuple_of(split_at(x, starts_of(x, *sizes, axis), axis));
  if (const auto* count = std::get_if<int64_t>(&*sections)) return tuple_of(split(x, *count, axis));
  return tuple_of(split_at(x, std::get<std::vector<int64_t>>(*sections), axis));
}

constexpr const char* kPartsSignature =
    "*, indices_or_sections: int | Sequence[int] | None = None, split_size_or_sections: int | Sequence[int] | None = "
    "None, axis: int = 0) -> tuple[Tensor, ...]";

}  // namespace

void bind_splits(nb::module_& m, TensorClass& tensor) {
  tensor.def("unstack", unstacked, nb::arg("axis") = 0, kView, "As `gabbro.unstack`.")
      .def("split", parts, nb::arg("by_position") = nb::none(), nb::arg("axis") = 0, nb::kw_only(),
           nb::arg("indices_or_sections") = nb::none(), nb::arg("split_size_or_sections") = nb::none(),
           nb::sig(fmt::format("def split(self, {}", kPartsSignature).c_str()), kView, "As `gabbro.split`.");
  m.def("unstack", unstacked, nb::arg("x"), nb::arg("axis") = 0, kView, R"(The slices along an axis, without it: views.

Raises
------
ValueError
    For an axis that `x` does not have.

>>> gb.unstack(gb.tensor([[1, 2], [3, 4]]), axis=1)
(tensor([1, 3]), tensor([2, 4]))
)");
  m.def("split", parts, nb::arg("x"), nb::arg("by_position") = nb::none(), nb::arg("axis") = 0, nb::kw_only(),
        nb::arg("indices_or_sections") = nb::none(), nb::arg("split_size_or_sections") = nb::none(),
        nb::sig(fmt::format("def split(x: Tensor, {}", kPartsSignature).c_str()), kView,
        R"(Parts along an axis, as numpy.split or as torch.split has them: views.

Parameters
----------
x : Tensor
    Of any dtype.
indices_or_sections : int or sequence of int, optional
    How many parts of equal length; or where all but the first begin.
split_size_or_sections : int or sequence of int, optional
    The length of each part (the last may be shorter), or the lengths of all.
axis : int
    From -ndim to ndim - 1.

Raises
------
TypeError
    Unless one of the two is given, by its name.
ValueError
    For an axis that `x` does not have, and where the parts would not be equal, or not of these lengths.

>>> gb.split(gb.arange(5), indices_or_sections=[2, 3])
(tensor([0, 1]), tensor([2]), tensor([3, 4]))
>>> gb.split(gb.arange(5), split_size_or_sections=3)
(tensor([0, 1, 2]), tensor([3, 4]))
)");
}

}  // namespace gabbro::python
