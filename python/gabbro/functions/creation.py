"""New tensors, with PyTorch's arguments: ``ones(2, 3)``, ``requires_grad=True``."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, into, refuse, refuse_unknown, sizes


def _finished(op: str, x: Tensor, requires_grad: bool, rest: dict[str, Any]) -> Tensor:
    """Refuses other arguments of PyTorch's constructors: `layout`, `pin_memory`, `names`, `memory_format`."""
    refuse_unknown(op, rest.keys() - {"layout", "pin_memory", "memory_format", "names"})
    if rest:
        refuse(op, **rest)
    if not isinstance(requires_grad, bool):
        raise TypeError(f"[{op}] requires_grad is a bool, not {requires_grad!r}")
    return x.requires_grad_() if requires_grad else x


def _lengths(op: str, size: tuple[Any, ...], shape: Any) -> tuple[int, ...]:
    if shape is not ABSENT:
        if size:
            raise TypeError(f"[{op}] the shape is there twice")
        size = (shape,)
    elif not size:
        raise TypeError(f"[{op}] the shape is missing: {op}(2, 3)")
    return sizes(op, size)


def zeros(
    *size: Any,
    shape: Any = ABSENT,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Zeros of a shape: ``zeros(2, 3)`` or ``zeros((2, 3))``.

    Parameters
    ----------
    *size : int, or one tuple of int
        By keyword it is `shape`.
    dtype : DType, optional
        Without it float32.
    device : str or Device, optional
        Without it, the default.
    requires_grad : bool

    >>> gb.zeros(2, 3).shape
    (2, 3)
    """
    x = _core.zeros(_lengths("zeros", size, shape), dtype=dtype, device=device)
    return _finished("zeros", into("zeros", out, x), requires_grad, rest)


def ones(
    *size: Any,
    shape: Any = ABSENT,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Ones of a shape: arguments as `zeros`.

    >>> gb.ones(2, dtype=gb.int64)
    tensor([1, 1])
    """
    x = _core.ones(_lengths("ones", size, shape), dtype=dtype, device=device)
    return _finished("ones", into("ones", out, x), requires_grad, rest)


def empty(
    *size: Any,
    shape: Any = ABSENT,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """A tensor whose elements are to be written: arguments as `zeros`.

    >>> gb.empty(2, 3).shape
    (2, 3)
    """
    x = _core.empty(_lengths("empty", size, shape), dtype=dtype, device=device)
    return _finished("empty", into("empty", out, x), requires_grad, rest)


def full(
    size: Any = ABSENT,
    fill_value: Any = ABSENT,
    *,
    shape: Any = ABSENT,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """A tensor of one number everywhere: other arguments as `zeros`.

    >>> gb.full((2,), 7)
    tensor([7, 7])
    """
    if fill_value is ABSENT:
        raise TypeError("[full] the argument fill_value is missing")
    lengths = sizes("full", (size if shape is ABSENT else shape,))
    if isinstance(fill_value, Tensor):
        x = _core.broadcast_to(fill_value.to(device) if device is not None else fill_value, lengths)
        x = _core._copied(x if dtype is None else x.astype(dtype))
    else:
        x = _core.full(lengths, fill_value, dtype=dtype, device=device)
    return _finished("full", into("full", out, x), requires_grad, rest)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any
) -> Tensor:
    """Zeros of the shape, dtype and device of another tensor.

    >>> gb.zeros_like(gb.tensor([1.5]))
    tensor([0.])
    """
    return _finished("zeros_like", _core.zeros_like(input, dtype=dtype, device=device), requires_grad, rest)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any
) -> Tensor:
    """Ones of the shape, dtype and device of another tensor.

    >>> gb.ones_like(gb.tensor([1.5]))
    tensor([1.])
    """
    return _finished("ones_like", _core.ones_like(input, dtype=dtype, device=device), requires_grad, rest)


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any
) -> Tensor:
    """A tensor whose elements are to be written, of the shape, dtype and device of another.

    >>> gb.empty_like(gb.ones(2)).shape
    (2,)
    """
    return _finished("empty_like", _core.empty_like(input, dtype=dtype, device=device), requires_grad, rest)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any
) -> Tensor:
    """One number everywhere, of the shape, dtype and device of another tensor.

    >>> gb.full_like(gb.ones(2), 3)
    tensor([3., 3.])
    """
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    return _finished("full_like", _core.full_like(input, fill_value, dtype=dtype, device=device), requires_grad, rest)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Of numbers, with the dtype and the device of this tensor."""
    made = _core.tensor(data, dtype=self.dtype if dtype is None else dtype, device=device or self.device)
    return _finished("new_tensor", made, requires_grad, {})


def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros with the dtype and the device of this tensor."""
    return zeros(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new_ones(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones with the dtype and the device of this tensor."""
    return ones(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new_empty(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Elements to be written, with the dtype and the device of this tensor."""
    return empty(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One number everywhere, with the dtype and the device of this tensor."""
    return full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def _numbers(op: str, *values: Any) -> list[Any]:
    return [value.item() if isinstance(value, Tensor) else value for value in values]


def arange(
    start: Any,
    end: Any = ABSENT,
    step: Any = 1,
    *,
    stop: Any = ABSENT,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """start, start + step, ... before end; with one number: 0, 1, ... before it. The standard calls the end `stop`.

    >>> gb.arange(1, 4)
    tensor([1, 2, 3])
    """
    if end is not ABSENT and stop is not ABSENT:
        raise TypeError("[arange] end and stop are two names of one argument")
    last = end if stop is ABSENT else stop
    first, last, step = _numbers("arange", start, None if last is ABSENT else last, step)
    x = _core.arange(first, last, step, dtype=dtype, device=device)
    return _finished("arange", into("arange", out, x), requires_grad, rest)


def linspace(
    start: float,
    end: Any = ABSENT,
    steps: Any = ABSENT,
    *,
    stop: Any = ABSENT,
    num: Any = ABSENT,
    endpoint: bool = True,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Numbers from start to end at equal distances. The standard calls the end `stop` and the count `num`.

    >>> gb.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    from ._arguments import only

    first, last, count = _numbers("linspace", start, only("linspace", end, stop), only("linspace", steps, num))
    x = _core.linspace(first, last, count, dtype=dtype, device=device, endpoint=endpoint)
    return _finished("linspace", into("linspace", out, x), requires_grad, rest)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Powers of the base, whose exponents have equal distances.

    >>> gb.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    powers = np.power(float(base), np.linspace(start, end, steps))
    x = _core.tensor(powers, dtype=dtype or _core.float32, device=device)
    return _finished("logspace", x, requires_grad, {})


def eye(
    n: Any = ABSENT,
    m: int | None = None,
    *,
    n_rows: Any = ABSENT,
    n_cols: int | None = None,
    k: int = 0,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Ones on the main diagonal of a matrix [n, m], else zeros.

    >>> gb.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    from ._arguments import only

    columns = m if n_cols is None else n_cols
    x = _core.eye(only("eye", n, n_rows), columns, k=k, dtype=dtype, device=device)
    return _finished("eye", into("eye", out, x), requires_grad, rest)


def _with_floats_of_numpy(data: Any, dtype: Any) -> Any:
    """NumPy's scalars of 64 bits have that dtype, as arrays."""
    return np.asarray(data) if isinstance(data, np.generic) and dtype is None else data


def tensor(
    data: Any = ABSENT,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    object: Any = ABSENT,
    **rest: Any,
) -> Tensor:
    """A tensor of numbers, nested lists of numbers, or an array; always a copy, and a leaf.

    Parameters
    ----------
    data : number, list, array or tensor
        Floats give float32, ints int64; arrays keep their dtype.
    dtype : DType, optional
    device : str or Device, optional
        Without it that of `data`, or the default.
    requires_grad : bool

    Raises
    ------
    TypeError
        For anything else.
    OverflowError
        For integers that the dtype does not hold.

    >>> gb.tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    from ._arguments import only

    given = only("tensor", data, object)
    made = _core.tensor(_with_floats_of_numpy(given, dtype), dtype=dtype, device=device)
    return _finished("tensor", made, requires_grad, rest)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of anything that holds numbers; itself where it is one already, an array without a copy on the CPU.

    >>> gb.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return _core.asarray(_with_floats_of_numpy(data, dtype), dtype=dtype, device=device)


def from_numpy(ndarray: Any) -> Tensor:
    """An array as a tensor of the CPU that shares its memory.

    >>> import numpy as np
    >>> gb.from_numpy(np.array([1, 2]))
    tensor([1, 2])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"[from_numpy] a numpy.ndarray is wanted, not {type(ndarray).__name__}")
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError("[from_numpy] an array with negative strides is not supported: array.copy()")
    return _core.asarray(ndarray, device="cpu")


def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A number as float32 of shape ().

    >>> gb.scalar_tensor(2)
    tensor(2.)
    """
    return _core.tensor(value, dtype=dtype or _core.float32, device=device)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """(1 - cos(2πn / N)) / 2.

    >>> gb.hann_window(2)
    tensor([0., 1.])
    """
    count = operator.index(window_length)
    length = count if periodic else count - 1
    window = 0.5 - 0.5 * np.cos(2 * math.pi * np.arange(count) / max(length, 1))
    return _core.tensor(window if count != 1 else np.ones(1), dtype=dtype or _core.float32, device=device)
