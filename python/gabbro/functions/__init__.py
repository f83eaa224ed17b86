"""Functions with PyTorch's arguments, one file a subject; `gabbro` has them under the same names.

Where a name has another meaning in the Python array API standard, a call that names `axis` or `keepdims`, which the
standard has by keyword, has the standard's meaning, and all others have PyTorch's. `gabbro.array_api` has the standard's.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from .choosing import (
    argwhere, gather, index_add, index_copy, index_fill, index_select, masked_fill, masked_select, nonzero, scatter,
    scatter_add, take, where,
)  # fmt: skip
from .conversions import clone
from .creation import (
    BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor,
    ShortTensor, arange, as_tensor, empty, empty_like, eye, from_numpy, full, full_like, hann_window, linspace, logspace,
    ones, ones_like, scalar_tensor, tensor, tril_indices, triu_indices, zeros, zeros_like,
)  # fmt: skip
from .elementwise import (
    add, addcdiv, addcmul, allclose, clamp, clamp_max, clamp_min, deg2rad, div, equal, erfc, erfinv, float_power, fmod, frac,
    heaviside, is_floating_point, is_nonzero, is_tensor, isclose, lerp, logit, mul, nan_to_num, pow, rad2deg, round, rsub,
    sgn, sinc, sub, xlogy,
)  # fmt: skip
from .products import (
    addmm, addmv, baddbmm, cdist, cross, dist, einsum, inner, kron, matmul, mm, mv, trace,
)  # fmt: skip
from .random import (
    Generator, bernoulli, default_generator, get_rng_state, initial_seed, manual_seed, multinomial, normal, rand, rand_like,
    randint, randint_like, randn, randn_like, randperm, set_rng_state,
)  # fmt: skip
from .reductions import (
    all, amax, amin, aminmax, any, argmax, argmin, count_nonzero, cumprod, cumsum, logsumexp, max, mean, median, min, norm,
    prod, std, std_mean, sum, var, var_mean,
)  # fmt: skip
from .shapes import (
    atleast_1d, atleast_2d, broadcast_tensors, cat, chunk, diag, diag_embed, diagonal, flatten, flip, hstack, meshgrid,
    movedim, narrow, numel, permute, repeat_interleave, reshape, roll, rot90, select, split, squeeze, stack, t,
    tensor_split, tile, transpose, tril, triu, unbind, unflatten, unsqueeze, vstack,
)  # fmt: skip
from .sorting import argsort, bincount, diff, kthvalue, searchsorted, sort, topk, unique


def _with_type_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a TypeError that names it where an argument is not what it works with."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except AttributeError as error:
            raise TypeError(f"[{function.__name__}] {error}: a tensor is wanted") from error

    return called


__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "Generator",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "add", "addcdiv", "addcmul", "addmm", "addmv", "all",
    "allclose", "amax", "amin", "aminmax", "any", "arange", "argmax", "argmin", "argsort", "argwhere", "as_tensor",
    "atleast_1d", "atleast_2d", "baddbmm", "bernoulli", "bincount", "broadcast_tensors", "cat", "cdist", "chunk",
    "clamp", "clamp_max", "clamp_min", "clip", "clone", "concat", "concatenate", "count_nonzero", "cross", "cumprod",
    "cumsum", "default_generator", "deg2rad", "diag", "diag_embed", "diagonal", "diff", "dist", "div", "divide", "einsum",
    "empty", "empty_like", "equal", "erfc", "erfinv", "eye", "flatten", "flip", "float_power", "fmod", "frac",
    "from_numpy", "full", "full_like", "gather", "get_rng_state", "hann_window", "heaviside", "hstack", "index_add",
    "index_copy", "index_fill", "index_select", "initial_seed", "inner", "is_floating_point", "is_nonzero",
    "is_tensor", "isclose", "kron", "kthvalue", "lerp", "linspace", "logit", "logspace", "logsumexp", "manual_seed",
    "masked_fill", "masked_select", "matmul", "max", "mean", "median", "meshgrid", "min", "mm", "movedim", "mul",
    "multinomial", "multiply", "mv", "nan_to_num", "narrow", "nonzero", "norm", "normal", "numel", "ones",
    "ones_like", "permute", "pow", "prod", "rad2deg", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "repeat_interleave", "reshape", "roll", "rot90", "round", "rsub", "scalar_tensor",
    "scatter", "scatter_add", "searchsorted", "select", "set_rng_state", "sgn", "sinc", "sort", "split", "squeeze", "stack", "std",
    "std_mean", "sub", "subtract", "sum", "t", "take", "tensor", "tensor_split", "tile", "topk", "trace", "transpose",
    "tril", "tril_indices", "triu", "triu_indices", "unbind", "unflatten", "unique", "unsqueeze", "var", "var_mean",
    "vstack", "where", "xlogy", "zeros", "zeros_like",
]  # fmt: skip

for _name in __all__:
    if isinstance(globals().get(_name), types.FunctionType):
        globals()[_name] = _with_type_errors(globals()[_name])

# Other names of these functions.
clip, divide, multiply, subtract = clamp, div, mul, sub
concat = concatenate = cat
