"""What is known of dtypes: in which one others meet, what they can hold. Names are the Python array API standard's."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

from . import _core
from ._core import DType, Tensor

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8",)
_REAL = ("float16", "bfloat16", "float32", "float64")
_KINDS = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _REAL,
    "complex floating": (),
    "numeric": _SIGNED + _UNSIGNED + _REAL,
}
_EXPLICIT_BITS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}  # exponent, fraction


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind.

    Parameters
    ----------
    dtype : DType
    kind : str, DType, or tuple of these
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
        ``"complex floating"`` or ``"numeric"``; a dtype is a kind too.

    Raises
    ------
    ValueError
        For another word.

    >>> gb.isdtype(gb.int8, "integral"), gb.isdtype(gb.int8, (gb.float32, "bool"))
    (True, False)
    """
    name = str(_core._dtype(dtype))
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, DType):
        return name == str(kind)
    if kind not in _KINDS:
        raise ValueError(f"[isdtype] kind is one of {', '.join(map(repr, _KINDS))}, not {kind!r}")
    return name in _KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which tensors, dtypes and numbers meet.

    Two integers, or two floats, meet in the smallest dtype that holds both; bool meets any other in that one; an
    integer meets a float in the float. Numbers take the dtype of the other operand, except for a float with
    integers or bool (float32) and an int with bool (int64).

    Raises
    ------
    TypeError
        For other objects.
    ValueError
        Without any, and for block formats.

    >>> gb.result_type(gb.int8, gb.uint8), gb.result_type(gb.float16, 2.5)
    (gabbro.int16, gabbro.float16)
    """
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (int, float))]
    dtypes = [x.dtype if isinstance(x, Tensor) else _core._dtype(x) for x in arrays_and_dtypes
              if not isinstance(x, (int, float))]  # fmt: skip
    if not arrays_and_dtypes:
        raise ValueError("[result_type] there is nothing whose dtypes could meet")
    if not dtypes:
        dtypes = [_core.bool_]
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _core._promote(result, dtype)
    for number in numbers:
        if result == _core.bool_ and not isinstance(number, (bool, float)):
            result = _core.int64  # the default integer of Python's interface
        result = _core._promote_number(result, number)
    return result


def promote_types(type1: Any, type2: Any) -> DType:
    """The common dtype of two dtypes: `result_type` of both.

    >>> gb.promote_types(gb.int8, gb.float16)
    gabbro.float16
    """
    return result_type(type1, type2)


def get_default_dtype() -> DType:
    """float32: the dtype of Python's floats.

    >>> gb.get_default_dtype()
    gabbro.float32
    """
    return _core.float32


def set_default_dtype(d: Any) -> None:
    """float32 alone is the default dtype: raises ValueError for another one.

    >>> gb.set_default_dtype(gb.float32)
    """
    if _core._dtype(d) != _core.float32:
        raise ValueError(f"[set_default_dtype] {d} is not supported: pass dtype= to the functions that make tensors")


def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Whether a dtype, or that of a tensor, becomes another one where the two meet: so whether nothing is lost.

    >>> gb.can_cast(gb.int8, gb.int16), gb.can_cast(gb.float32, gb.float16)
    (True, False)
    """
    dtype = from_.dtype if isinstance(from_, Tensor) else _core._dtype(from_)
    return result_type(dtype, to) == _core._dtype(to)


@dataclass(frozen=True, init=False)
class finfo:
    """What a floating-point dtype can hold.

    Attributes
    ----------
    bits : int
    eps : float
        From 1 to the next number.
    max, min : float
        The largest and the smallest number.
    smallest_normal : float
        The smallest positive number with all of its digits.
    dtype : DType

    Raises
    ------
    TypeError
        For a dtype that is not one.

    >>> gb.finfo(gb.float16).max
    65504.0
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    def __init__(self, type: Any) -> None:
        dtype = type.dtype if isinstance(type, Tensor) else _core._dtype(type)
        if str(dtype) not in _EXPLICIT_BITS:
            raise TypeError(f"[finfo] expected a floating-point dtype, got {dtype}")
        exponent, fraction = _EXPLICIT_BITS[str(dtype)]
        bias = 2 ** (exponent - 1) - 1
        largest = (2 - 2.0**-fraction) * 2.0**bias
        values = {"bits": 1 + exponent + fraction, "eps": 2.0**-fraction, "max": largest, "min": -largest,
                  "smallest_normal": 2.0 ** (1 - bias), "dtype": dtype}  # fmt: skip
        self.__dict__.update(values)


@dataclass(frozen=True, init=False)
class iinfo:
    """What an integer dtype can hold.

    Attributes
    ----------
    bits : int
    max, min : int
        The largest and the smallest number.
    dtype : DType

    Raises
    ------
    TypeError
        For a dtype that is not one.

    >>> gb.iinfo(gb.int8).min
    -128
    """

    bits: int
    max: int
    min: int
    dtype: DType

    def __init__(self, type: Any) -> None:
        dtype = type.dtype if isinstance(type, Tensor) else _core._dtype(type)
        if str(dtype) not in _SIGNED + _UNSIGNED:
            raise TypeError(f"[iinfo] expected an integer dtype, got {dtype}")
        bits = 8 * dtype.itemsize
        signed = str(dtype) in _SIGNED
        largest = 2 ** (bits - signed) - 1
        self.__dict__.update(bits=bits, max=largest, min=-largest - 1 if signed else 0, dtype=dtype)
