"""Draws random programs. PyTorch runs each line when it is drawn, so that all lines are valid and well-conditioned.

A program is run three times at once: in its dtypes, in float64, and in float64 from slightly other numbers. A line is
dropped if the runs differ by more than rounding errors do: next to a jump of a function, or after cancellation.
"""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np
import torch

from . import steps

LENGTHS = (1, 2, 3, 3, 4, 5)
MOST_ELEMENTS = 400
LARGEST = 1e4  # of an element
ORDERED = ("sort(", "topk", "kthvalue", "median")  # equal elements have no order in PyTorch
UNNOTICED = (".data.", ".detach().mul_", ".unbind(", ".chunk(", ".split(")  # writes that PyTorch's gradients miss
ROUNDING = ("floor", "ceil", "round", "trunc", "//", "%", "fmod", "remainder", "int", "long(", "frac")
READS = (
    "[{m}]",
    "masked_select",
    "nonzero(",
    "argwhere",
    "unique(",
    "bincount",
    "one_hot",
    "fill_diagonal_",
)  # of values


class Run:
    """The variables of one of the three runs."""

    def __init__(self, wide: bool, change: float) -> None:
        self.wide, self.change = wide, change
        self.scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}

    def leaf(self, name: str, leaf: dict[str, Any]) -> None:
        array = np.array(leaf["values"], leaf["dtype"]).reshape(leaf["shape"])
        if array.dtype.kind == "f" and self.wide:
            array = array.astype(np.float64)
            array = array * (1 + self.change * np.cos(np.arange(array.size) * 1.7).reshape(array.shape))
        self.scope[name] = torch.from_numpy(np.array(array)).requires_grad_(leaf["grad"])

    def results(self, names: list[str]) -> list[torch.Tensor]:
        return [self.scope[name] for name in names]


def totals(names: list[str], scope: dict[str, Any], library: Any) -> Any:
    """A sum of all results that have gradients, each element times its own factor; None without such results."""
    total = None
    for number, name in enumerate(names):
        x = scope[name]
        if x.requires_grad and x.dtype.is_floating_point:
            count = int(np.prod(tuple(x.shape)))
            factors = np.linspace(0.5, 1.5, count).reshape(tuple(x.shape)) + 0.1 * number
            part = (x * library.tensor(factors.astype(np.float32)).to(x.dtype)).sum().to(library.float32)
            total = part if total is None else total + part
    return total


class Program:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.leaves: dict[str, dict[str, Any]] = {}
        self.lines: list[str] = []
        self.names: list[str] = []  # of results, in their order
        self.runs = [Run(False, 0), Run(True, 0), Run(True, 3e-5)]
        self.mode = self.random.choice(["plain"] * 8 + ["printed", "compiled"])
        self.is_defined = True  # PyTorch's gradient: it does not notice that these lines change what it reads

    def draw(self) -> dict[str, Any]:
        """The program: leaves, lines, names of its results, mode, whether its gradients are compared."""
        for _ in range(self.random.randint(1, 3)):
            self.leaf(self.shape(), self.random.random() < 0.7)
        wanted, tries = self.random.randint(2, 8), 0
        while (len(self.lines) < wanted or not self.names) and tries < 80:
            tries += 1
            self.step()
        if not self.names:
            self.accept("l0.sum()", "v0")
        return {
            "mode": self.mode,
            "leaves": self.leaves,
            "lines": self.lines,
            "names": self.names,
            "gradients": self.has_gradients(),
        }

    def shape(self) -> tuple[int, ...]:
        axes = self.random.choices((0, 1, 2, 3, 4), (1, 3, 6, 4, 3))[0]
        return tuple(self.random.choice(LENGTHS) for _ in range(axes))

    def leaf(self, shape: tuple[int, ...], grad: bool, dtype: str = "") -> str:
        name = f"l{len(self.leaves)}"
        dtype = dtype or self.random.choices(("float32", "float64", "int64", "int32"), (12, 2, 2, 1))[0]
        count = int(np.prod(shape))
        if dtype.startswith("float"):
            values = [round(self.random.uniform(-2.5, 2.5), 3) + 0.0004 for _ in range(count)]
        else:
            grad, values = False, [self.random.randint(-4, 9) for _ in range(count)]
        self.leaves[name] = {"dtype": dtype, "shape": list(shape), "values": values, "grad": grad}
        for run in self.runs:
            run.leaf(name, self.leaves[name])
        return name

    def variables(self) -> list[str]:
        return [*self.leaves, *self.names]

    def value(self, name: str) -> torch.Tensor:
        return self.runs[0].scope[name]

    def step(self) -> None:
        kind = self.random.choices(list(steps.WEIGHTS), list(steps.WEIGHTS.values()))[0]
        low, high = steps.AXES[kind]
        floats = kind != "integers"
        chosen = [
            name
            for name in self.variables()
            if low <= self.value(name).dim() <= high
            and self.value(name).is_floating_point() == floats
            and 0 < self.value(name).numel() <= MOST_ELEMENTS
            and self.value(name).dtype != torch.bool
            and not (kind in ("in_place", "matrix") and repeats(self.value(name)))
            and not (kind == "in_place" and name.startswith("l") and self.leaves[name]["grad"])
        ]
        if not chosen:
            return
        name = self.random.choice(chosen[-4:])
        template = self.random.choice(steps.TABLES[kind])
        if self.mode == "compiled" and kind != "in_place" and any(word in template for word in READS):
            return
        text = self.filled(template, name)
        if text is None or ("F." in text and any(self.value(n).dtype == torch.float64 for n in names_in(text))):
            return  # networks have no float64 in Gabbro
        if kind == "in_place" and any(self.overlaps(name, other) for other in names_in(text)):
            return  # PyTorch would read elements that it has written
        if kind == "in_place" or "_(" in text.split(" if ")[0]:
            self.accept(text, None)
            if any(word in text for word in UNNOTICED):
                self.is_defined = False
        else:
            self.accept(text, f"v{len(self.names)}")

    def overlaps(self, name: str, other: str) -> bool:
        x, y = self.value(name), self.value(other)
        return x.shape != y.shape and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()

    def filled(self, template: str, name: str) -> str | None:
        x = self.value(name)
        axes = x.dim()
        d = self.random.randrange(-axes, axes) if axes else 0
        length = x.shape[d] if axes else 1
        draw = self.random

        def hole(match: re.Match[str]) -> str:
            what = match.group(1)
            if what in ("x", "i"):
                return name
            if what == "same":
                others = [
                    n for n in self.variables() if self.value(n).shape == x.shape and self.value(n).is_floating_point()
                ]
                return draw.choice(others)
            if what == "y":
                others = [
                    n
                    for n in self.variables()
                    if self.value(n).is_floating_point()
                    and self.value(n).dim() <= axes
                    and (self.value(n).dim() > 0 or self.value(n).dtype == x.dtype)  # Gabbro promotes those too
                    and all(b in (1, a) for a, b in zip(x.shape[::-1], self.value(n).shape[::-1]))  # noqa: B905
                ]
                return draw.choice(others)
            if what == "d":
                return str(d)
            if what == "e":
                return str(draw.randrange(-axes, axes))
            if what == "n":
                return str(draw.randint(1, length))
            if what == "k":
                return str(draw.randint(-2, 2))
            if what == "c":
                return str(draw.choice((-1.3, -0.7, 0.6, 1.1, 2.3)))
            if what == "p":
                return str(draw.choice((0.3, 0.6, 1.1, 1.7)))
            if what == "keep":
                return str(draw.random() < 0.5)
            if what == "m":
                return f"({name} {draw.choice('<>')} {draw.choice((-0.5, 0.2, 0.9))})"
            if what == "rows":
                return self.leaf_of([draw.randrange(length) for _ in range(draw.randint(1, 4))])
            if what == "row":
                return self.leaf_of([draw.randrange(length)])
            if what == "rows0":
                return self.leaf_of([draw.randrange(x.shape[0]) for _ in range(draw.randint(1, 3))])
            if what == "index":
                return self.index(x, d)
            if what == "classes":
                return self.leaf_of([draw.randrange(x.shape[1]) for _ in range(x.shape[0])])
            if what == "reps":
                return ", ".join(str(draw.randint(1, 2)) for _ in range(axes))
            if what == "reps_tuple":
                return f"({', '.join(str(draw.randint(1, 2)) for _ in range(axes))},)"
            if what == "shape":
                return ", ".join(map(str, x.shape))
            if what == "order":
                return ", ".join(map(str, draw.sample(range(axes), axes)))
            if what == "weight":
                return self.weight((x.shape[-1], draw.randint(1, 4)), x)
            if what == "filter1":
                return self.weight((draw.randint(1, 3), x.shape[1], draw.randint(1, 3)), x)
            if what == "filter2":
                return self.weight((draw.randint(1, 3), x.shape[1], draw.randint(1, 3), draw.randint(1, 3)), x)
            if what == "transposed1":
                return self.weight((x.shape[1], draw.randint(1, 3), 3), x)
            if what == "transposed2":
                return self.weight((x.shape[1], draw.randint(1, 3), 2, 3), x)
            raise KeyError(what)

        if not x.is_contiguous() and any(word in template for word in ("reshape", "flatten", "view(", "contiguous")):
            return None  # in Gabbro a view in any case
        if (
            any(word in template for word in ROUNDING)
            and x.is_floating_point()
            and any(near_halves(run.scope[name]) for run in self.runs[:2])
        ):
            return None
        if any(word in template for word in ORDERED) and x.unique().numel() < x.numel():
            return None
        chosen: dict[str, str] = {}

        def once(match: re.Match[str]) -> str:
            """Some holes have one content in a line."""
            what = match.group(1)
            if what not in ("weight", "index", "row", "rows", "classes"):
                return hole(match)
            return chosen.setdefault(what, hole(match) if what not in chosen else "")

        return re.sub(r"\{(\w+)\}", once, template)

    def leaf_of(self, values: list[int]) -> str:
        name = self.leaf((len(values),), False, "int64")
        return self.replaced(name, values)

    def replaced(self, name: str, values: list[int]) -> str:
        self.leaves[name]["values"] = values
        for run in self.runs:
            run.leaf(name, self.leaves[name])
        return name

    def weight(self, shape: tuple[int, ...], x: torch.Tensor) -> str:
        return self.leaf(shape, self.random.random() < 0.6, str(x.dtype).split(".")[-1])

    def index(self, x: torch.Tensor, d: int) -> str:
        shape = [self.random.randint(1, n) for n in x.shape]
        shape[d] = min(shape[d], 2)
        count = int(np.prod(shape))
        # Different ones along the axis, so that a scatter does not depend on an order.
        rows = [self.random.sample(range(x.shape[d]), shape[d]) for _ in range(count // shape[d])]
        array = np.moveaxis(
            np.array(rows).reshape(*[n for i, n in enumerate(shape) if i != d % len(shape)], shape[d]), -1, d
        )
        name = self.leaf(tuple(shape), False, "int64")
        return self.replaced(name, array.reshape(-1).tolist())

    def accept(self, text: str, name: str | None) -> None:
        """Runs the line; if it fails or is ill-conditioned, all others again without it."""
        line = text if name is None else f"{name} = {text}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for run in self.runs:
                    exec(line, run.scope)
                fine = all(self.agrees(n) for n in ([*self.names, *self.leaves] if name is None else [name]))
        except Exception:
            fine = False
        if fine:
            self.lines.append(line)
            if name is not None:
                self.names.append(name)
        elif name is None:
            self.again()

    def again(self) -> None:
        self.runs = [Run(run.wide, run.change) for run in self.runs]
        for name, leaf in self.leaves.items():
            for run in self.runs:
                run.leaf(name, leaf)
        for run in self.runs:
            for line in self.lines:
                exec(line, run.scope)

    def agrees(self, name: str) -> bool:
        first, *others = (run.scope[name] for run in self.runs)
        if not isinstance(first, torch.Tensor) or first.numel() > MOST_ELEMENTS or first.dim() > 5:
            return False
        a = first.detach().numpy()
        if a.dtype.kind == "f" and not (np.isfinite(a).all() and (np.abs(a) < LARGEST).all()):
            return False
        return all(
            agree(a, other.detach().numpy(), tolerance) for other, tolerance in zip(others, (1e-5, 1e-2), strict=True)
        )

    def has_gradients(self) -> bool:
        """Whether PyTorch has gradients, and they are well-conditioned."""
        if not self.is_defined:
            return False
        gradients = []
        for run in self.runs:
            try:
                total = totals(self.names, run.scope, torch)
                if total is None:
                    return False
                total.backward()
            except RuntimeError:  # what a gradient needs was changed in place
                return False
            gradients.append([run.scope[n].grad for n in self.leaves if self.leaves[n]["grad"]])
        for a, b, c in zip(*gradients, strict=True):
            if a is None:
                continue
            if (
                not torch.isfinite(a).all()
                or not agree(array(a), array(b), 1e-4)
                or not agree(array(a), array(c), 1e-2)
            ):
                return False
        return True

    def expected(self) -> dict[str, Any]:
        """PyTorch's results: dtypes, shapes, numbers; gradients of leaves."""
        scope = self.runs[0].scope
        return outcome(self.names, self.leaves, scope)


def array(x: torch.Tensor) -> np.ndarray:
    return x.numpy(force=True)  # a gradient may be a ZeroTensor


def repeats(x: torch.Tensor) -> bool:
    """Whether an element is in several positions: Gabbro refuses to write there, PyTorch in most functions."""
    return any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))


def near_halves(x: torch.Tensor) -> bool:
    """Whether an element is, but for rounding errors, where a function may jump."""
    steps = 6 * x.detach().double()
    distance = (steps - steps.round()).abs()
    return bool(((distance < 1e-4) & (distance > 0)).any())


def names_in(text: str) -> list[str]:
    return re.findall(r"\b[lv]\d+\b", text)


def agree(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance))


def outcome(names: list[str], leaves: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for name in (*names, *leaves):
        x = scope[name].detach()
        values[name] = [str(x.dtype).split(".")[-1], list(x.shape), x.numpy().reshape(-1).tolist()]
    gradients = {}
    for name, leaf in leaves.items():
        if leaf["grad"]:
            grad = scope[name].grad
            gradients[name] = None if grad is None else array(grad).reshape(-1).tolist()
    required = [name for name in names if scope[name].requires_grad]
    return {"values": values, "gradients": gradients, "required": required}


def drawn(seed: int) -> dict[str, Any]:
    """A program with PyTorch's results."""
    program = Program(seed)
    try:
        text = program.draw()
        text["expected"] = program.expected()
    except RuntimeError:  # PyTorch refuses to go on with a view after a write
        return drawn(seed + 2**40)
    if not text["gradients"]:
        text["expected"]["gradients"] = {}
    return text
