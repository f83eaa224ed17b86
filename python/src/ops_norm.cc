// Normalizations.
#include "python/src/ops.h"
#include "src/graph/history.h"
#include "src/ops/grad.h"

namespace gabbro::python {

void bind_norms(nb::module_& m) {
  m.def(
      "rms_norm",
      [](const Tensor& x, const Tensor& weight, double eps) { return rms_norm(x, weight, static_cast<float>(eps)); },
      nb::arg("x"), nb::arg("weight"), nb::arg("eps") = 1e-5,
      R"(x / sqrt(mean(x²) + eps) · weight, over the last axis (Zhang and Sennrich 2019).

Parameters
----------
x : Tensor
    [..., C]
weight : Tensor
    [C]
eps : float

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> gb.rms_norm(gb.tensor([[3.0, 3.0]]), gb.tensor([1.0, 2.0]), 0.0)
tensor([[1., 2.]])
)");
  m.def(
      "layer_norm",
      [](const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps) {
        return layer_norm(x, or_none(weight), or_none(bias), static_cast<float>(eps));
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5,
      R"((x - mean) / sqrt(variance + eps) · weight + bias (Ba et al. 2016).

Parameters
----------
x : Tensor
    Of float32, float16 or bfloat16; computed in float32.
weight, bias : Tensor, optional
    Of the lengths of the last axes of `x`, over which the moments are taken; where both are left out, over the last one.
    Of float32 or the dtype of `x`.
eps : float

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> gb.layer_norm(gb.tensor([[1.0, 3.0]]), eps=0.0)
tensor([[-1.,  1.]])
)");
  m.def(
      "group_norm",
      [](const Tensor& x, int64_t groups, const OptionalTensor& weight, const OptionalTensor& bias, double eps) {
        return group_norm(x, groups, or_none(weight), or_none(bias), static_cast<float>(eps));
      },
      nb::arg("x"), nb::arg("num_groups"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(),
      nb::arg("eps") = 1e-5,
      R"(As `layer_norm`, over C / num_groups channels together with all axes after (Wu and He 2018).

Parameters
----------
x : Tensor
    [N, C, ...], of float32, float16 or bfloat16; computed in float32.
num_groups : int
    A divisor of C.
weight, bias : Tensor, optional
    [C], of float32 or the dtype of `x`.
eps : float

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes, dtypes or the number of groups do not fit.

>>> gb.group_norm(gb.tensor([[1.0, 3.0]]), 1, eps=0.0)
tensor([[-1.,  1.]])
)");
  m.def(
      "group_norm_nhwc",
      [](const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, bool silu) {
        return group_norm_nhwc(x, groups, weight, bias, static_cast<float>(eps), silu);
      },
      nb::arg("x"), nb::arg("num_groups"), nb::arg("weight"), nb::arg("bias"), nb::arg("eps") = 1e-5, nb::kw_only(),
      nb::arg("silu") = false,
      R"(As `group_norm`, of images whose channels are last, and the SiLU that may follow it.

Parameters
----------
x : Tensor
    [N, ..., C], of float32, float16 or bfloat16; computed in float32.
num_groups : int
    A divisor of C.
weight, bias : Tensor
    [C], of float32 or the dtype of `x`.
eps : float
silu : bool
    Whether the result is y * sigmoid(y) of the norm; it is rounded once.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes, dtypes or the number of groups do not fit.

>>> gb.group_norm_nhwc(gb.tensor([[[1.0], [3.0]]]), 1, gb.ones(1), gb.zeros(1), eps=0.0)
tensor([[[-1.],
         [ 1.]]])
)");
  m.def(
      "batch_norm",
      [](const Tensor& x, const Tensor& mean, const Tensor& var, const OptionalTensor& weight,
         const OptionalTensor& bias, double eps, bool training, double momentum) {
        const BatchNorm norm = {.mean = mean,
                                .variance = var,
                                .weight = or_none(weight),
                                .bias = or_none(bias),
                                .epsilon = static_cast<float>(eps)};
        if (!training) return batch_norm(x, norm);
        const TrainedBatchNorm trained = batch_norm_training(x, norm, static_cast<float>(momentum));
        const NoGrad no_grad;
        rebind("batch_norm", nb::find(mean), detach(trained.running_mean));
        rebind("batch_norm", nb::find(var), detach(trained.running_variance));
        return trained.y;
      },
      nb::arg("x"), nb::arg("running_mean"), nb::arg("running_var"), nb::arg("weight") = nb::none(),
      nb::arg("bias") = nb::none(), nb::kw_only(), nb::arg("eps") = 1e-5, nb::arg("training") = false,
      nb::arg("momentum") = 0.1,
      R"(As `layer_norm`, with given moments of each channel (Ioffe and Szegedy 2015).

Parameters
----------
x : Tensor
    [N, C, ...], of float32, float16 or bfloat16; computed in float32.
running_mean, running_var : Tensor
    [C]
weight, bias : Tensor, optional
    [C]
eps : float
training : bool
    With the moments of this batch; the running ones are moved toward them by `momentum`, in place
    (`batch_norm_training` returns them).
momentum : float

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> gb.batch_norm(gb.tensor([[1.0, 3.0]]), gb.tensor([1.0, 1.0]), gb.tensor([1.0, 4.0]), eps=0.0)
tensor([[0., 1.]])
)");
  m.def(
      "batch_norm_training",
      [](const Tensor& x, const Tensor& mean, const Tensor& var, const OptionalTensor& weight,
         const OptionalTensor& bias, double momentum, double eps) {
        const TrainedBatchNorm trained = batch_norm_training(x,
                                                             {.mean = mean,
                                                              .variance = var,
                                                              .weight = or_none(weight),
                                                              .bias = or_none(bias),
                                                              .epsilon = static_cast<float>(eps)},
                                                             static_cast<float>(momentum));
        return nb::make_tuple(trained.y, trained.running_mean, trained.running_variance);
      },
      nb::arg("x"), nb::arg("running_mean"), nb::arg("running_var"), nb::arg("weight") = nb::none(),
      nb::arg("bias") = nb::none(), nb::arg("momentum") = 0.1, nb::arg("eps") = 1e-5,
      nb::sig("def batch_norm_training(x: Tensor, running_mean: Tensor, running_var: Tensor, "
              "weight: Tensor | None = None, bias: Tensor | None = None, momentum: float = 0.1, "
              "eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]"),
      R"(`batch_norm` with the moments of this batch.

Returns
-------
y, running_mean, running_var : tuple of Tensor
    The running moments, moved toward the batch's by `momentum` (the variance as ``var`` with correction 1).

>>> y, mean, var = gb.batch_norm_training(gb.tensor([[1.0], [3.0]]), gb.zeros(1), gb.ones(1), momentum=0.5, eps=0.0)
>>> y.tolist(), mean.tolist(), var.tolist()
([[-1.0], [1.0]], [1.0], [1.5])
)");
}

}  // namespace gabbro::python
