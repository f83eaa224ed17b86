"""The list of methods that tensors have in Python, besides the extension's methods."""

from __future__ import annotations

from typing import Any

from .. import _core, standard_functions
from .._core import Device, DType, Tensor
from . import (
    autograd_methods,
    choosing,
    comparing,
    conversions,
    creation,
    elementwise,
    extremes,
    in_place,
    joining,
    products,
    random,
    random_in_place,
    reductions,
    shapes,
    sorting,
    statistics,
)

# name: function; its first argument is the tensor.
METHODS: dict[Any, tuple[str, ...]] = {
    reductions: (
        "sum",
        "mean",
        "prod",
        "logsumexp",
        "any",
        "all",
        "count_nonzero",
        "var",
        "std",
        "cumsum",
        "cumprod",
        "norm",
    ),
    extremes: (
        "max",
        "min",
        "amax",
        "amin",
        "aminmax",
        "argmax",
        "argmin",
        "median",
    ),
    statistics: ("cummax", "cummin", "nansum", "nanmean", "quantile", "nanquantile", "cov", "corrcoef"),
    sorting: ("sort", "argsort", "topk", "kthvalue", "unique", "bincount", "diff"),
    shapes: (
        "numel",
        "dim",
        "element_size",
        "reshape",
        "reshape_as",
        "view",
        "view_as",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "t",
        "transpose",
        "permute",
        "movedim",
        "expand",
        "expand_as",
        "narrow",
        "select",
        "roll",
        "flip",
        "tril",
        "triu",
        "diagonal",
        "diag",
        "diag_embed",
        "rot90",
    ),
    joining: (
        "repeat",
        "repeat_interleave",
        "tile",
        "split",
        "chunk",
        "tensor_split",
        "unbind",
    ),
    choosing: (
        "gather",
        "scatter",
        "scatter_add",
        "index_select",
        "index_add",
        "index_copy",
        "index_fill",
        "masked_fill",
        "masked_select",
        "take",
        "take_along_dim",
        "nonzero",
        "argwhere",
    ),
    elementwise: (
        "add",
        "sub",
        "mul",
        "div",
        "fmod",
        "clamp",
        "clamp_min",
        "clamp_max",
        "addcmul",
        "addcdiv",
        "lerp",
        "nan_to_num",
        "frac",
        "logit",
        "float_power",
        "erfc",
        "erfinv",
        "xlogy",
        "heaviside",
        "sgn",
        "deg2rad",
        "rad2deg",
        "round",
        "sinc",
        "pow",
    ),
    comparing: (
        "isclose",
        "allclose",
        "equal",
        "is_floating_point",
        "is_nonzero",
    ),
    products: ("mm", "matmul", "mv", "inner", "addmm", "addmv", "baddbmm", "trace", "kron", "cross", "dist"),
    creation: (
        "new_tensor",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
    ),
    random: ("bernoulli", "multinomial"),
    random_in_place: (
        "uniform_",
        "normal_",
        "random_",
        "bernoulli_",
        "exponential_",
        "log_normal_",
        "cauchy_",
    ),
    conversions: (
        "to",
        "numpy",
        "cpu",
        "cuda",
        "type",
        "type_as",
        "float",
        "double",
        "half",
        "bfloat16",
        "long",
        "int",
        "short",
        "char",
        "byte",
        "clone",
        "contiguous",
        "is_contiguous",
        "pin_memory",
        "is_pinned",
        "detach_",
        "get_device",
    ),
    in_place: (
        "fill_",
        "zero_",
        "copy_",
        "fill_diagonal_",
        "masked_scatter_",
        "index_put_",
        "unsqueeze_",
        "squeeze_",
        "t_",
        "resize_",
    ),
    autograd_methods: ("backward", "register_hook", "retain_grad"),
}
OTHER_NAMES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "clip": "clamp",
    "ndimension": "dim",
    "nelement": "numel",
    "absolute": "abs",
    "neg": "negative",
    "swapdims": "swapaxes",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "mT": "mT",
}
# Functions of the extension that are methods as well.
FROM_CORE = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "remainder",
    "floor_divide",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bmm",
    "dot",
    "outer",
    "vdot",
    "softmax",
    "log_softmax",
    "gelu",
    "neg",
    "negative",
    "matrix_transpose",
    "vecdot",
]
FROM_STANDARD = ("copysign", "logaddexp", "nextafter", "signbit", "conj", "positive")


def _softmax(function: Any, name: str) -> Any:
    def method(self: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
        if dim is None:
            raise TypeError(f"[{name}] the argument dim is missing")
        result: Tensor = function(self if dtype is None else self.astype(dtype), dim)
        return result

    method.__name__ = name
    method.__doc__ = f"`gabbro.{name}` along an axis, after a conversion to `dtype`."
    return method


def _forwarded(function: Any, name: str) -> Any:
    def method(self: Tensor, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    method.__name__ = name
    method.__doc__ = f"`gabbro.{name}` of the tensor and the other arguments."
    return method


def _device_type(self: Device) -> str:
    """The kind of device: ``"cpu"``, ``"cuda"`` for all GPUs as in PyTorch, also of AMD; their name has the backend."""
    kind = self.name.split(":")[0]
    return "cuda" if kind == "rocm" else kind


def _device_index(self: Device) -> int | None:
    """The number of the GPU; None for the CPU."""
    return int(self.name.split(":")[1]) if ":" in self.name else None


def install() -> None:
    """Gives the classes of the extension their methods in Python."""
    owner: Any = Tensor
    owner.size = property(
        lambda self: shapes.Size(self.shape), doc="The number of elements; called, the shape or a length."
    )
    for module, names in METHODS.items():
        for name in names:
            setattr(owner, name, getattr(module, name))
    owner.bool = conversions.bool_
    owner.where = choosing.where_method
    for name in FROM_CORE:
        if hasattr(_core, name) and not hasattr(owner, name):
            setattr(owner, name, _forwarded(getattr(_core, name), name))
    for name in ("softmax", "log_softmax"):
        setattr(owner, name, _softmax(getattr(_core, name), name))
    for name in FROM_STANDARD:
        setattr(owner, name, _forwarded(getattr(standard_functions, name), name))
    for name, method in OTHER_NAMES.items():
        setattr(owner, name, getattr(owner, method))
    for name in in_place.NAMES:
        if hasattr(owner, name):
            setattr(owner, f"{name}_", in_place.in_place(name))
    owner.data = property(conversions.data_, conversions.set_data, doc=conversions.data_.__doc__)
    owner.is_cuda = property(conversions.is_cuda)
    owner.grad_fn = property(autograd_methods.grad_fn)
    owner.is_sparse = property(lambda self: False, doc="False: tensors are dense.")
    owner.is_quantized = property(lambda self: False, doc="False: only layers have quantized weights.")
    owner.is_meta = property(lambda self: False, doc="False: tensors live on a device.")
    owner.layout = property(lambda self: "strided", doc="'strided': tensors are dense.")
    owner.itemsize = property(lambda self: self.dtype.itemsize, doc="The bytes of an element.")
    owner.names = property(lambda self: (None,) * self.ndim, doc="None for each axis: axes have no names.")
    owner.H = property(lambda self: self.mT, doc="The transpose: there are no complex dtypes.")
    owner.real = property(lambda self: self, doc="The tensor itself: there are no complex dtypes.")
    owner.is_complex = lambda self: False
    owner.is_complex.__doc__ = "False: there are no complex dtypes."
    device: Any = Device
    device.type = property(_device_type, doc=_device_type.__doc__)
    device.index = property(_device_index, doc=_device_index.__doc__)
    dtype: Any = DType
    dtype.is_complex = property(lambda self: False, doc="False: there are no complex dtypes.")
    dtype.is_signed = property(lambda self: str(self) not in ("uint8", "bool"), doc="Whether it has negative numbers.")
