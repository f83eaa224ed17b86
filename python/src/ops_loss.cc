// Losses, as torch.nn.functional has them.
#include "python/src/ops.h"

namespace gabbro::python {

Reduce reduction(const char* op, const std::string& name) {
  if (name == "none") return Reduce::kNone;
  if (name == "mean") return Reduce::kMean;
  if (name == "sum") return Reduce::kSum;
  throw bad_input("[{}] reduction is 'none', 'mean' or 'sum', not '{}'", op, name);
}

namespace {

using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduce);
using ClassLoss = Tensor (*)(const Tensor&, const Tensor&, Reduce, int32_t);

void loss(nb::module_& m, const char* name, Loss function, const char* what, const char* shown) {
  m.def(
      name,
      [function, name](const Tensor& x, const Tensor& target, const std::string& how) {
        return function(x, target, reduction(name, how));
      },
      nb::arg("x"), nb::arg("target"), nb::kw_only(), nb::arg("reduction") = "mean",
      fmt::format(R"({}

Parameters
----------
x, target : Tensor
    Of one shape and dtype: float32, float16 or bfloat16 (computed in float32).
reduction : str
    ``"mean"`` or ``"sum"`` of all elements, or ``"none"``.

Returns
-------
Tensor
    Of shape (), or with ``"none"`` of the shape of `x`.

Raises
------
ValueError
    Where shapes, dtypes or the reduction do not fit.

>>> gb.{}(gb.tensor([0.5, 0.5]), gb.tensor([1.0, 0.0]))
{}
)",
                  what, name, shown)
          .c_str());
}

void class_loss(nb::module_& m, const char* name, ClassLoss function, const char* what, const char* input,
                const char* shown) {
  m.def(
      name,
      [function, name](const Tensor& x, const Tensor& target, int32_t ignore_index, const std::string& how) {
        return function(x, target, reduction(name, how), ignore_index);
      },
      nb::arg("x"), nb::arg("target"), nb::kw_only(), nb::arg("ignore_index") = -100, nb::arg("reduction") = "mean",
      fmt::format(R"({}

Parameters
----------
x : Tensor
    [N, V], of float32, float16 or bfloat16 (computed in float32).
target : Tensor
    Integers [N] of any dtype, from 0 to V - 1.
ignore_index : int
    Targets of this value count for nothing, nor in the mean.
reduction : str
    ``"mean"`` or ``"sum"`` over N, or ``"none"``.

Returns
-------
Tensor
    Of shape (), or with ``"none"`` [N].

Raises
------
IndexError
    For a target that is out of range: when the result is computed, on a GPU at the next synchronization.
ValueError
    Where shapes, dtypes or the reduction do not fit.

>>> gb.{}(gb.tensor([{}]), gb.tensor([1]))
{}
)",
                  what, name, input, shown)
          .c_str());
}

}  // namespace

void bind_losses(nb::module_& m) {
  loss(m, "mse_loss", mse_loss, "(x - target)².", "tensor(0.25)");
  loss(m, "l1_loss", l1_loss, "The magnitude of x - target.", "tensor(0.5)");
  loss(m, "bce_loss", bce_loss, "-target · log(x) - (1 - target) · log(1 - x), with logarithms not below -100.",
       "tensor(0.6931472)");
  loss(m, "kl_div", kl_div, "target · (log(target) - x), 0 where the target is 0; `x` holds logarithms.",
       "tensor(-0.25)");
  class_loss(m, "nll_loss", nll_loss, "-x[n, target[n]], where `x` holds logarithms.", "[-1.0, -2.0]", "tensor(2.)");
  class_loss(m, "cross_entropy", cross_entropy, "`nll_loss` of `log_softmax` of `x`.", "[0.0, 0.0]",
             "tensor(0.6931472)");
}

}  // namespace gabbro::python
