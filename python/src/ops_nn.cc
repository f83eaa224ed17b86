// Functions of neural networks: softmax, linear, embedding.
#include "gabbro/ops/experts.h"
#include "python/src/ops.h"

namespace gabbro::python {

void bind_networks(nb::module_& m) {
  const auto along = [&](const char* name, Tensor (*function)(const Tensor&, int64_t), const char* doc) {
    m.def(
        name,
        [name, function](const Tensor& x, int64_t axis, std::optional<int64_t> dim) {
          if (dim && axis != -1) throw bad_input("[{}] axis and dim are two names of one argument", name);
          return function(x, dim.value_or(axis));
        },
        nb::arg("x"), nb::arg("axis") = -1, nb::kw_only(), nb::arg("dim") = nb::none(), doc);
  };
  along("softmax", softmax, R"(exp(x) / sum(exp(x)) along an axis.

Parameters
----------
x : Tensor
    [..., C], of float32, float64, float16 or bfloat16.
axis : int
    From -ndim to ndim - 1. `dim` is another name of it.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For other dtypes and axes.

>>> gb.softmax(gb.tensor([0.0, 0.0]))
tensor([0.5, 0.5])
)");
  along("log_softmax", log_softmax,
        R"(x - log(sum(exp(x))) along an axis. Arguments and errors as `softmax`.

>>> gb.log_softmax(gb.tensor([0.0, 0.0]))
tensor([-0.6931472, -0.6931472])
)");
  m.def(
      "linear",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
        return linear(x, weight, or_none(bias));
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), R"(x · weightᵀ + bias.

Parameters
----------
x : Tensor
    [..., K]
weight : Tensor
    [N, K]
bias : Tensor, optional
    [N]

Returns
-------
Tensor
    [..., N]

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> gb.linear(gb.tensor([[1.0, 2.0]]), gb.tensor([[3.0, 4.0]]), gb.tensor([1.0]))
tensor([[12.]])
)");
  m.def("expert_linear", expert_linear, nb::arg("x"), nb::arg("weight"), nb::arg("ids"), nb::arg("experts"),
        R"(Products of each token with the weights of the experts that it is routed to.

Parameters
----------
x : Tensor
    [T, K], or [T, U, K] with a row for each expert of a token.
weight : Tensor
    [E * N, K], of any float or block format: the N rows of each expert, one expert after the other.
ids : Tensor
    [T, U], integers of any dtype: experts from -E to E - 1.
experts : int
    E

Returns
-------
Tensor
    [T, U, N] of x's dtype.

Raises
------
ValueError
    Where shapes or dtypes do not fit.
IndexError
    For an expert that is out of range.

>>> gb.expert_linear(gb.tensor([[1.0, 2.0]]), gb.tensor([[3.0, 4.0], [5.0, 6.0]]), gb.tensor([[1, 0]]), 2)
tensor([[[17.], [11.]]])
)");
  m.def(
      "embedding", [](const Tensor& ids, const Tensor& weight) { return embedding(weight, ids); }, nb::arg("ids"),
      nb::arg("weight"), R"(Rows of a table, by number: torch.nn.functional.embedding.

Parameters
----------
ids : Tensor
    Integers of any dtype and shape [...], from -V to V - 1: negative ones count from the end.
weight : Tensor
    [V, C], of any dtype.

Returns
-------
Tensor
    float32 [..., C]

Raises
------
IndexError
    For an id that is out of range: when the result is computed, on a GPU at the next synchronization.
ValueError
    Where shapes or dtypes do not fit.

>>> gb.embedding(gb.tensor([1]), gb.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor([[3., 4.]])
)");
}

}  // namespace gabbro::python
