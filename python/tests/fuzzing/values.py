"""Random values of the kinds that arguments have: sensible ones, and senseless ones."""

from __future__ import annotations

import inspect

import numpy as np

KEPT = 24  # results of earlier calls that later ones take, some of them not computed yet
LARGE = 1 << 14  # elements of what is kept or computed; the simulator takes a microsecond for each


def described(value, depth=0):
    """A line for the report; without computing a tensor, and without the elements of long lists."""
    if type(value).__name__ == "Tensor":
        return f"Tensor({list(value.shape)}, {value.dtype}, {value.device})"
    if isinstance(value, np.ndarray):
        return f"ndarray({value.shape}, {value.dtype.str}, strides {value.strides})"
    if isinstance(value, (list, tuple)) and depth < 3:
        return f"{type(value).__name__}({', '.join(described(item, depth + 1) for item in value[:8])})"
    if isinstance(value, dict) and depth < 3:
        return "{" + ", ".join(f"{key!r}: {described(item, depth + 1)}" for key, item in value.items()) + "}"
    if isinstance(value, (int, float, complex, str, bytes, slice, type(None))):
        return repr(value)[:80]
    return type(value).__name__


class Values:
    def __init__(self, gb, numbers, devices):
        self.gb, self.random, self.devices = gb, numbers, devices
        self.dtypes = [value for name, value in vars(gb).items() if isinstance(value, gb.DType)]
        self.floats = [gb.float32, gb.float32, gb.float16, gb.bfloat16, gb.float64]
        self.kept = []
        self.new_call()

    def new_call(self):
        """Lengths and a rank that the next call's tensors share, mostly: otherwise hardly any two would fit."""
        choose = self.random.choice
        self.lengths = [0, 1, 1, 2, 3, 4, 5, 8, 17] if choose([0, 0, 1]) else [choose([1, 2, 3, 4, 5, 8, 17, 33, 64])]
        if choose([0, 1]):
            self.lengths = [*self.lengths, choose([1, 2, 3])]
        self.rank = choose([None, 0, 1, 2, 2, 3, 4, 5])

    def keep(self, tensor):
        if tensor.size <= LARGE:
            self.kept.append(tensor)
            if len(self.kept) > KEPT:
                self.kept.pop(self.random.randrange(KEPT))

    def integer(self):
        huge = [2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 2**64, 2**70]
        return self.random.choice([0, 1, 2, 3, 4, 8, -1, -2, -3, 7, 33, 255, 65537, *huge])

    def small(self):
        return self.random.choice([0, 1, 1, 1, 2, 2, 3, 4, 5, -1, -2, *self.lengths])

    def number(self):
        nan, inf = float("nan"), float("inf")
        others = [True, 3 + 4j, np.float32(2), np.int8(-3)]
        return self.random.choice([self.integer(), 0.5, -1.5, nan, inf, -inf, 1e-300, 1e300, *others])

    def shape(self):
        rank = self.rank if self.rank is not None and self.random.random() < 0.8 else self.random.randrange(7)
        shape = []
        for _ in range(rank):
            shape.append(self.random.choice(self.lengths))
            if np.prod(shape) > LARGE:
                shape[-1] = 1
        return tuple(shape)

    def array(self):
        """What NumPy has: also orders of bytes, strides and dtypes that tensors do not."""
        array = np.zeros(self.shape(), self.random.choice([*"?bBhilqHIQefdFDO", ">f4", ">i2", "S3", "U2", "M8[s]"]))
        kind = self.random.randrange(6)
        if kind == 0 and array.ndim > 0:
            array = array[::-1]
        elif kind == 1:
            array = array.T
        elif kind == 2 and array.ndim > 0:
            array = array[..., ::2]
        elif kind == 3:
            array = np.broadcast_to(array, (2, *array.shape))
        elif kind == 4:
            array.flags.writeable = False
        return array

    def tensor(self):
        gb, choose = self.gb, self.random.choice
        if self.kept and self.random.random() < 0.2:
            return choose(self.kept)
        shape, kind = self.shape(), self.random.randrange(12)
        device = self.devices[0] if self.random.random() < 0.97 else choose(self.devices)
        if kind == 0:
            whole = [gb.int32, gb.int64, gb.uint8, gb.int8, gb.int16]
            return gb.astype(gb.randint(choose([-3, 0]), choose([2, 9]), shape, device=device), choose(whole))
        if kind == 1:
            return gb.rand(*shape, device=device) > 0.5
        x = gb.randn(*shape, device=device)
        if kind == 2:
            return gb.astype(x, choose([gb.float16, gb.bfloat16, gb.float64]))
        if kind == 3 and len(shape) >= 2:
            return gb.swapaxes(x, 0, choose([1, -1]))
        if kind == 4:
            return x.requires_grad_()
        if kind == 5 and len(shape) >= 1 and shape[0] > 0:
            return gb.concat([x, x])[choose([slice(1, None, 2), slice(None, None, -1), slice(shape[0], None)])]
        if kind == 6:
            return gb.broadcast_to(gb.randn(*(1 for _ in shape), device=device), shape)
        if kind == 7:
            return x * choose([float("inf"), float("nan"), 1e38, 0.0])
        return x

    def indices(self):
        """What stands between the brackets."""
        items = []
        for _ in range(self.random.choice([1, 1, 2, 2, 3, 7])):
            items.append(
                self.random.choice([
                    self.small(), self.integer(), slice(None), ..., None, True, self.slice(), self.slice(), self.any(),
                    self.gb.randint(-3, 3, self.shape()[:3]), self.gb.rand(*self.shape()[:3]) > 0.5, [0, self.small()],
                    [True, False], np.array([0, 1]), np.int64(1), (), self.tensor(),
                ])
            )  # fmt: skip
        return items[0] if len(items) == 1 and self.random.random() < 0.7 else tuple(items)

    def slice(self):
        part = lambda: self.random.choice([None, None, 0, 1, 2, -1, -2, 5, self.integer()])  # noqa: E731
        return slice(part(), part(), part())

    def of_kind(self, annotation):
        gb, choose = self.gb, self.random.choice
        if "Operand" in annotation or "Tensor" in annotation or "Array" in annotation:
            if "list" in annotation or "Sequence" in annotation:
                return [self.tensor() for _ in range(self.random.randrange(4))]
            return self.number() if self.random.random() < 0.1 else self.tensor()
        if "DType" in annotation:
            return choose(self.dtypes) if self.random.random() < 0.4 else choose(self.floats)
        if "Device" in annotation:
            return choose([*self.devices, None, None, "rocm:9", "sim:7", "cpu:1", ""])
        if "Sequence[int]" in annotation or "tuple[int" in annotation or "Shape" in annotation:
            some = tuple(self.small() for _ in range(self.random.randrange(5)))
            return choose([self.shape(), some, self.small(), (0,), (-1,), (1, 0), (0, 0), (2, -1), self.integer()])
        if "int" in annotation:
            return self.small() if self.random.random() < 0.85 else self.integer()
        if "bool" in annotation:
            return choose([True, False])
        if "float" in annotation:
            return choose([0.5, 1e-5, 1.0, 2.0, 0.1, self.number()])
        if "str" in annotation:
            return choose(
                ["mean", "sum", "none", "ij,jk->ik", "ii->i", "...ij,...jk->...ik", "tanh", "nearest", "bilinear",
                 "float", "same", "valid", "i,i", "reflect", "constant", "relu", "gelu", "zzz", ""]
            )  # fmt: skip
        if "Callable" in annotation:
            return lambda *a: gb.add(a[0], 1) if a else gb.ones(2)
        return self.any()

    def any(self):
        choose, kind = self.random.choice, self.random.randrange(20)
        if kind < 8:
            return self.tensor()
        if kind < 10:
            return self.integer()
        if kind == 10:
            return self.number()
        if kind == 11:
            return self.shape()
        if kind == 12:
            return [self.number() for _ in range(self.random.randrange(4))]
        if kind == 13:
            return choose(self.dtypes)
        if kind == 14:
            return choose([None, True, False, ..., slice(None), slice(None, None, -1), slice(5, -9, 2)])
        if kind == 15:
            odd = ["", "\0", "ä" * 99, "\ud800"]
            return choose(["mean", "none", "ij,jk->ik", "...i->", "cpu", "rocm:9", "float16", *odd])
        if kind == 16:
            return self.array()
        if kind == 17:
            return choose([(self.tensor(), self.tensor()), [[self.tensor()]], {"a": self.tensor()}, [self.shape()]])
        if kind == 18:
            return self.nested()
        return choose([b"x", {}, {"a": 1}, object(), [], (), [[1, 2], [3]], float, int, lambda *a: a[0], self.gb, type])

    def nested(self):
        """Lists in lists, some without an end."""
        value = [self.number()]
        if self.random.random() < 0.5:
            value.append(value)
            return value
        for _ in range(self.random.choice([1, 5, 70, 5000])):
            value = [value]
        return value


def parameters_of(function):
    """(name, type, whether it has to be given) of each parameter, by the first line of the docstring or in Python."""
    try:
        return [
            (name, str(parameter.annotation), parameter.default is parameter.empty)
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and name != "self"
        ]
    except (TypeError, ValueError):
        pass
    of_class = getattr(function, "__init__", None) if isinstance(function, type) else function
    line = (getattr(of_class, "__doc__", None) or "").split("\n", 1)[0].rpartition(" -> ")[0]
    found, depth, part = [], 0, ""
    for letter in line.partition("(")[2].removesuffix(")") + ",":
        depth += letter in "[("
        depth -= letter in "])"
        if letter != "," or depth > 0:
            part += letter
            continue
        name, _, annotation = part.partition(":")
        if name.strip() not in ("", "*", "/", "self") and "*" not in name:
            found.append((name.strip(), annotation.partition("=")[0], "=" not in part))
        part = ""
    return found


def arguments_of(values, function):
    """Mostly of the documented kinds, sometimes all of them anything."""
    parameters, random = parameters_of(function), values.random
    if not parameters or random.random() < 0.1:
        return [values.any() for _ in range(random.randrange(5))], {}
    positional, keywords = [], {}
    for name, annotation, required in parameters:
        if not required and random.random() < 0.6:
            continue
        value = values.any() if random.random() < 0.04 else values.of_kind(annotation)
        if required and not keywords:
            positional.append(value)
        else:
            keywords[name] = value
    return positional, keywords
