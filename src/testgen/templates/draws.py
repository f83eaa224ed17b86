"""Random numbers of a model's training, the same on every device and in every data type.

Some models draw numbers by themselves, such as DINOv3's scale of positions. A card's generator gives others than the
CPU's, and f64 others than f32: the CPU draws them here in f32, and the results get their device and data type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

IN_PLACE = {"uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "geometric_", "random_", "bernoulli_"}
FRESH = {torch.rand, torch.randn, torch.randint, torch.randperm}
LIKE = {torch.rand_like: torch.rand, torch.randn_like: torch.randn}
CHANCES = {torch.bernoulli, torch.Tensor.bernoulli, torch.multinomial, torch.Tensor.multinomial}
OF_TENSORS = {getattr(torch.Tensor, name) for name in IN_PLACE}


class SameDraws(TorchFunctionMode):
    """Draws on the CPU in f32. Calls with their own generator are unchanged."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if options.get("generator") is None:
            options.pop("generator", None)
            with torch._C.DisableTorchFunction():
                if func in OF_TENSORS:
                    return in_place(func, args[0], args[1:], options)
                if func in LIKE:
                    place = {"device": args[0].device, "dtype": args[0].dtype, **options}
                    return fresh(LIKE[func], (args[0].shape,), place)
                if func in FRESH:
                    return fresh(func, args, options)
                if func in CHANCES:
                    drawn = func(args[0].detach().cpu().float(), *args[1:], **options)
                    return drawn.to(args[0].device) if drawn.dtype == torch.long else drawn.to(args[0])
        return func(*args, **(kwargs or {}))


def in_place(func: Any, target: torch.Tensor, args: tuple[Any, ...], options: dict[str, Any]) -> torch.Tensor:
    """Fills a tensor with numbers of the CPU; what a distribution takes by element comes from the device."""
    kind = torch.float32 if target.is_floating_point() else target.dtype
    words = [x.detach().cpu().float() if isinstance(x, torch.Tensor) else x for x in args]
    drawn = func(torch.empty(target.shape, dtype=kind), *words, **options)
    with torch.no_grad():
        return target.copy_(drawn)


def fresh(func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> torch.Tensor:
    """A new tensor of the CPU's numbers, where and in the data type that was asked for."""
    device, dtype = options.pop("device", None), options.pop("dtype", None)
    needs = options.pop("requires_grad", False)
    options = {name: value for name, value in options.items() if name in ("size", "low", "high", "n", "names")}
    drawn: torch.Tensor
    if func in (torch.rand, torch.randn):
        drawn = func(*args, dtype=torch.float32, **options).to(dtype or torch.get_default_dtype())
    else:
        drawn = func(*args, **options).to(dtype or torch.long)
    drawn = drawn.to(device or torch.get_default_device())
    return drawn.requires_grad_() if needs else drawn
