// Reductions over axes.
#include "python/src/ops.h"

namespace gabbro::python {
namespace {

using Reduction = Tensor (*)(const Tensor&, const Axes&, bool);
using Spread = Tensor (*)(const Tensor&, const Axes&, double, bool);
using Place = Tensor (*)(const Tensor&, std::optional<int64_t>, bool);

struct Scope {
  nb::module_& m;
  TensorClass& tensor;
};

struct Words {
  const char* what;
  const char* shown;  // of the example, on [[1.0, 2.0], [3.0, 5.0]] with axis 1
  const char* given;
};

std::string documentation(const char* name, const Words& words, const char* more = "", const char* axis = "") {
  return fmt::format(R"({}

Parameters
----------
x : Tensor
    Of any dtype but block formats.
axis : {}
    From -ndim to ndim - 1. None: all axes.
{}keepdims : bool
    Whether the axes stay, with length 1.

Returns
-------
Tensor
    The shape of `x` without the axes, of {}.

Raises
------
ValueError
    For an axis that `x` does not have or that is named twice, and for block formats.

>>> gb.{}(gb.tensor([[1.0, 2.0], [3.0, 5.0]]), axis=1)
{}
)",
                     words.what, *axis != 0 ? axis : "int or tuple of int, optional", more, words.given, name,
                     words.shown);
}

void reduction(Scope& scope, const char* name, Reduction function, const Words& words) {
  const auto body = [function](const Tensor& x, const AxisArgument& axis, bool keepdims) {
    return function(x, axis.axes, keepdims);
  };
  scope.m.def(name, body, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
              documentation(name, words).c_str());
  scope.tensor.def(name, body, nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
                   fmt::format("As `gabbro.{}`.", name).c_str());
}

// sum and prod: computed in another dtype where one is named.
void summation(Scope& scope, const char* name, Reduction function, const Words& words) {
  const auto body = [function](const Tensor& x, const AxisArgument& axis, bool keepdims, std::optional<DType> dtype) {
    return dtype ? cast(function(cast(x, *dtype), axis.axes, keepdims), *dtype) : function(x, axis.axes, keepdims);
  };
  scope.m.def(name, body, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::kw_only(),
              nb::arg("dtype") = nb::none(),
              documentation(name, words, "dtype : DType, optional\n    Of the sum and of the result.\n").c_str());
  scope.tensor.def(name, body, nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::kw_only(),
                   nb::arg("dtype") = nb::none(), fmt::format("As `gabbro.{}`.", name).c_str());
}

void spread(Scope& scope, const char* name, Spread function, const Words& words) {
  const auto body = [function](const Tensor& x, const AxisArgument& axis, double correction, bool keepdims) {
    return function(x, axis.axes, correction, keepdims);
  };
  const char* more =
      "correction : float\n    0: of the whole population; 1: of a sample (Bessel). NaN where it is not less than the "
      "number\n    of elements.\n";
  scope.m.def(name, body, nb::arg("x"), nb::arg("axis") = nb::none(), nb::kw_only(), nb::arg("correction") = 0.0,
              nb::arg("keepdims") = false, documentation(name, words, more).c_str());
  scope.tensor.def(name, body, nb::arg("axis") = nb::none(), nb::kw_only(), nb::arg("correction") = 0.0,
                   nb::arg("keepdims") = false, fmt::format("As `gabbro.{}`.", name).c_str());
}

void place(Scope& scope, const char* name, Place function, const Words& words) {
  scope.m.def(name, function, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
              documentation(name, words, "", "int, optional").c_str());
  scope.tensor.def(name, function, nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
                   fmt::format("As `gabbro.{}`.", name).c_str());
}

Tensor nonzeros(const Tensor& x, const Axes& axes, bool keepdims) {
  return cast(sum(cast(x, DType::boolean), axes, keepdims), DType::i32);
}

// keepdims has no place: PyTorch's method takes more axes there.
void counting(Scope& scope) {
  const auto body = [](const Tensor& x, const AxisArgument& axis, bool keepdims) {
    return nonzeros(x, axis.axes, keepdims);
  };
  const Words words{"How many elements over axes are not zero.", "tensor([2, 2])", "int32"};
  scope.m.def("count_nonzero", body, nb::arg("x"), nb::arg("axis") = nb::none(), nb::kw_only(),
              nb::arg("keepdims") = false, documentation("count_nonzero", words).c_str());
  scope.tensor.def("count_nonzero", body, nb::arg("axis") = nb::none(), nb::kw_only(), nb::arg("keepdims") = false,
                   "As `gabbro.count_nonzero`.");
}

}  // namespace

void bind_reductions(nb::module_& m, TensorClass& tensor) {
  Scope scope{m, tensor};
  constexpr const char* kSum = "the dtype of `x`, or int64 for bool and integers";
  constexpr const char* kFraction = "the dtype of `x`, or float32 for integers and bool";
  constexpr const char* kOwn = "the dtype of `x`";
  summation(scope, "sum", sum,
            {"The sum over axes; of nothing 0. Integers wrap around at 64 bits.", "tensor([3., 8.])", kSum});
  summation(scope, "prod", prod,
            {"The product over axes; of nothing 1. Integers wrap around at 64 bits.", "tensor([ 2., 15.])", kSum});
  reduction(scope, "mean", mean, {"The mean over axes; of nothing NaN.", "tensor([1.5, 4. ])", kFraction});
  reduction(scope, "max", max,
            {"The largest element over axes; NaN if one is NaN. Refuses empty axes.", "tensor([2., 5.])", kOwn});
  reduction(scope, "min", min,
            {"The smallest element over axes; NaN if one is NaN. Refuses empty axes.", "tensor([1., 3.])", kOwn});
  reduction(scope, "logsumexp", logsumexp,
            {"log(sum(exp(x))) over axes, without overflow; of nothing -infinity.", "tensor([2.3132617, 5.126928 ])",
             kFraction});
  reduction(scope, "any", any,
            {"Whether one element over axes is true (not zero); of nothing False.", "tensor([ True,  True])", "bool"});
  reduction(scope, "all", all,
            {"Whether all elements over axes are true (not zero); of nothing True.", "tensor([ True,  True])", "bool"});
  counting(scope);
  spread(scope, "var", var,
         {"The variance over axes: sum((x - mean)²) / (count - correction).", "tensor([0.25, 1.  ])", kFraction});
  spread(scope, "std", gabbro::std,
         {"The standard deviation over axes: the square root of `var`.", "tensor([0.5, 1. ])", kFraction});
  place(scope, "argmax", argmax,
        {"Where the largest element is, the first of equals: along an axis, or among all in row-major order.",
         "tensor([1, 1])", "int32"});
  place(scope, "argmin", argmin,
        {"Where the smallest element is, the first of equals: along an axis, or among all in row-major order.",
         "tensor([0, 0])", "int32"});
}

}  // namespace gabbro::python
