"""Functions of functions under the names of torch.func.

>>> gb.func.vmap(lambda row: row.sum())(gb.ones((2, 3)))
tensor([3., 3.])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import _core, autograd
from ._core import Tensor

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vjp", "vmap"]


def _axes(dims: Any, value: Any) -> Any:
    """An axis, or None, for each tensor of nested lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        several = dims if isinstance(dims, (list, tuple)) else [dims] * len(value)
        if len(several) != len(value):
            raise ValueError(f"[vmap] {len(several)} dims for {len(value)} values")
        return [_axes(dim, item) for dim, item in zip(several, value, strict=True)]
    if isinstance(value, dict):
        return {key: _axes(dims[key] if isinstance(dims, dict) else dims, item) for key, item in value.items()}
    return dims if isinstance(value, Tensor) else None


def _lengths(value: Any, axes: Any) -> set[int]:
    if isinstance(value, Tensor):
        if axes is None:
            return set()
        if not -value.ndim <= axes < value.ndim:
            raise ValueError(f"[vmap] in_dims has axis {axes} for shape {value.shape}")
        return {value.shape[axes]}
    if isinstance(value, (list, tuple)):
        return set().union(*(_lengths(item, axis) for item, axis in zip(value, axes, strict=True)))
    return (
        set().union(*(_lengths(item, axes[key]) for key, item in value.items())) if isinstance(value, dict) else set()
    )


def _item(value: Any, axes: Any, number: int) -> Any:
    if isinstance(value, Tensor):
        return value if axes is None else value[(slice(None),) * (axes % value.ndim) + (number,)]
    if isinstance(value, (list, tuple)):
        return type(value)(_item(item, axis, number) for item, axis in zip(value, axes, strict=True))
    if isinstance(value, dict):
        return {key: _item(item, axes[key], number) for key, item in value.items()}
    return value


def _stacked(results: list[Any], dims: Any) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        return _core.stack(results, dims)
    if isinstance(first, (list, tuple)):
        several = dims if isinstance(dims, (list, tuple)) else [dims] * len(first)
        return tuple(_stacked([r[i] for r in results], several[i]) for i in range(len(first)))
    if isinstance(first, dict):
        return {key: _stacked([r[key] for r in results], dims) for key in first}
    raise TypeError(f"[vmap] the function gives tensors, not {type(first).__name__}")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function of batches from one of single items. It calls the function for each item, and stacks the results.

    Parameters
    ----------
    func : callable
        Of tensors, nested lists, tuples and dicts of them, and other values, which are the same for each item.
    in_dims : int, None, or a tuple of them
        The axis of each argument with the items; None: the argument is the same for each.
    out_dims : int or tuple of int
        The axis of each result with the items.
    randomness : str
        ``"error"`` and ``"different"``: random numbers differ between the items. ``"same"`` is not supported.
    chunk_size : int, optional
        Has no influence on the result.

    >>> gb.vmap(gb.dot)(gb.ones((2, 3)), gb.ones((2, 3)))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different"):
        raise ValueError(f"[vmap] randomness is 'error' or 'different', not {randomness!r}")

    @functools.wraps(func)
    def called(*args: Any, **options: Any) -> Any:
        axes = _axes(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
        lengths = _lengths(args, axes)
        named = _axes(0, options)
        lengths |= _lengths(options, named)
        if len(lengths) != 1:
            raise ValueError(f"[vmap] the arguments have axes of different lengths: {sorted(lengths)}" if lengths else
                             "[vmap] no argument has an axis of items")  # fmt: skip
        (count,) = lengths
        if count == 0:
            raise ValueError("[vmap] there are no items")
        results = [func(*_item(args, axes, i), **_item(options, named, i)) for i in range(count)]
        return _stacked(results, out_dims)

    return called


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func` by some arguments, and its value, or (value, aux) with `has_aux`.

    >>> gb.func.grad_and_value(lambda x: (x * x).sum())(gb.tensor([3.0]))
    (tensor([6.]), tensor(9.))
    """

    @functools.wraps(func)
    def called(*args: Any, **options: Any) -> Any:
        numbers = argnums if isinstance(argnums, tuple) else (argnums,)
        copies = list(args)
        with autograd.enable_grad():
            for number in numbers:
                x = copies[number]
                copies[number] = x * 1 if x.requires_grad else x.detach().requires_grad_()
            result = func(*copies, **options)
            value = result[0] if has_aux else result
            gradients = autograd.grad(value, [copies[n] for n in numbers], create_graph=True)
        return (gradients if isinstance(argnums, tuple) else gradients[0]), result

    return called


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is one number, by some arguments.

    >>> gb.func.grad(lambda x: (x * x).sum())(gb.tensor([3.0]))
    tensor([6.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def called(*args: Any, **options: Any) -> Any:
        gradients, result = both(*args, **options)
        return (gradients, result[1]) if has_aux else gradients

    return called


def vjp(func: Callable[..., Any], *primals: Tensor) -> tuple[Any, Callable[..., Any]]:
    """The value of `func`, and a function from a gradient of it to the gradients of the arguments.

    >>> value, pull = gb.func.vjp(lambda x: x * x, gb.tensor([3.0]))
    >>> pull(gb.tensor([1.0]))
    (tensor([6.]),)
    """
    with autograd.enable_grad():
        copies = [x * 1 if x.requires_grad else x.detach().requires_grad_() for x in primals]
        value = func(*copies)

    def pull(gradient: Tensor) -> tuple[Tensor, ...]:
        return autograd.grad(value, copies, gradient, create_graph=True)

    return value, pull


def jacrev(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives the derivatives of each element of `func`'s result: [result..., argument...].

    >>> gb.func.jacrev(lambda x: x * x)(gb.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def called(*args: Any, **options: Any) -> Tensor:
        x = args[argnums]
        with autograd.enable_grad():
            copy = x * 1 if x.requires_grad else x.detach().requires_grad_()
            value = func(*args[:argnums], copy, *args[argnums + 1 :], **options)
            flat = value.reshape(-1)
            rows = [autograd.grad(flat[i], copy, create_graph=True)[0] for i in range(flat.shape[0])]
            if not rows:
                return _core.zeros((*value.shape, *x.shape), dtype=x.dtype, device=x.device)
            return _core.stack(rows, 0).reshape((*value.shape, *x.shape))

    return called


jacfwd = jacrev


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`: [result..., argument..., argument...].

    >>> gb.func.hessian(lambda x: (x**3).sum())(gb.tensor([2.0]))
    tensor([[12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
