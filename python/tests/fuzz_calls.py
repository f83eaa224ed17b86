"""Calls everything public with arguments that nobody meant: exceptions are fine, crashes and hangs are not.

    python python/tests/fuzz_calls.py [--seconds 600] [--seed 0]

Runs by hand, with the built package on PYTHONPATH: best with an extension that was built with the address sanitizer
(docs/site/writing_an_op.md is not about this; CONTRIBUTING.md is). Each round is a process of its own, so that one that
dies is known by its seed. Exits 1 where one died.
"""

from __future__ import annotations

import argparse
import faulthandler
import inspect
import random
import resource
import signal
import subprocess
import sys
import time
import warnings

CALLS_PER_ROUND = 2000
MEMORY = 6 << 30  # bytes of a round's address space: what asks for more gets an exception
SLOW = 20  # seconds that one call may take

NEVER = {"devices", "seed", "set_device", "cuda_set_device", "rocm_set_device", "synchronize", "save_state",
         "load_state"}  # they change what comes after  # fmt: skip


def public_callables(gb):
    """(name, function) of the package, of tensors' methods, and of layers."""
    found = []
    for module in (gb, gb.nn, gb.nn.functional, gb.nn.init, gb.optim):
        for name in sorted(getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]):
            value = getattr(module, name)
            if callable(value) and name not in NEVER and not inspect.ismodule(value):
                found.append((f"{module.__name__}.{name}", value))
    for name, method in inspect.getmembers(gb.Tensor):
        if callable(method) and (name[0] != "_" or name in OPERATORS) and name != "to":
            found.append((f"Tensor.{name}", method))
    return found


OPERATORS = {
    f"__{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
        "neg", "abs", "invert", "lt", "le", "eq", "ne", "gt", "ge", "getitem", "setitem", "len", "iter", "bool", "int",
        "float", "index", "repr", "iadd", "imul", "radd", "rsub", "rpow",
    )
}  # fmt: skip


class Arguments:
    """Random values of the kinds that arguments have, sensible ones and others."""

    def __init__(self, gb, random_numbers):
        self.gb, self.random = gb, random_numbers
        self.dtypes = [value for name, value in vars(gb).items() if isinstance(value, gb.DType)]

    def integer(self):
        return self.random.choice([0, 1, 2, 3, -1, -2, 7, 33, 255, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**70])

    def number(self):
        return self.random.choice(
            [self.integer(), 0.5, -1.5, float("nan"), float("inf"), -float("inf"), 1e-300, True, 3 + 4j]
        )

    def length(self):
        return self.random.choice([0, 1, 1, 2, 3, 4, 5, 8, 17])

    def shape(self):
        return tuple(self.length() for _ in range(self.random.randrange(6)))

    def tensor(self):
        gb, shape = self.gb, self.shape()
        kind = self.random.randrange(6)
        if kind == 0:
            return gb.astype(gb.randint(-3, 9, shape), self.random.choice([gb.int32, gb.int64, gb.uint8]))
        if kind == 1:
            return gb.rand(*shape) > 0.5
        x = gb.randn(*shape)
        if kind == 2:
            return gb.astype(x, self.random.choice([gb.float16, gb.bfloat16, gb.float64]))
        if kind == 3 and len(shape) >= 2:
            return gb.swapaxes(x, 0, 1)
        if kind == 4:
            return x.requires_grad_()
        return x

    def of_kind(self, annotation):
        gb, choose = self.gb, self.random.choice
        if "Operand" in annotation or "Tensor" in annotation or "Array" in annotation:
            if "list" in annotation or "Sequence" in annotation:
                return [self.tensor() for _ in range(self.random.randrange(4))]
            return self.number() if self.random.random() < 0.1 else self.tensor()
        if "DType" in annotation:
            return choose(self.dtypes)
        if "Device" in annotation:
            return choose(["cpu", None, "rocm:9"])
        if "Sequence[int]" in annotation or "tuple[int" in annotation:
            return choose([self.shape(), choose([-2, -1, 0, 1, 2, 3]), (0,), (-1,), (1, 0), (0, 0), self.integer()])
        if "int" in annotation:
            return choose([0, 1, 1, 2, 2, 3, 4, 5, -1, -2, self.integer()])
        if "bool" in annotation:
            return choose([True, False])
        if "float" in annotation:
            return choose([0.5, 1e-5, 1.0, 2.0, self.number()])
        if "str" in annotation:
            return choose(["mean", "sum", "none", "ij,jk->ik", "ii->i", "tanh", "nearest", "float", "same", "i,i"])
        if "Callable" in annotation:
            return lambda *a: gb.add(a[0], 1) if a else gb.ones(2)
        return self.any()

    def any(self):
        kind = self.random.randrange(16)
        if kind < 7:
            return self.tensor()
        if kind < 9:
            return self.integer()
        if kind == 9:
            return self.number()
        if kind == 10:
            return self.shape()
        if kind == 11:
            return [self.number() for _ in range(self.random.randrange(4))]
        if kind == 12:
            return self.random.choice(self.dtypes)
        if kind == 13:
            return self.random.choice([None, True, False, ..., slice(None), slice(None, None, -1), slice(5, -9, 2)])
        if kind == 14:
            return self.random.choice(["", "mean", "none", "ij,jk->ik", "...i->", "cpu", "rocm:9", "float16", "\0"])
        return self.random.choice([b"x", {}, {"a": 1}, object(), [], (), [[1, 2], [3]], float, lambda *a: a[0]])


def parameters_of(function):
    """(name, type, whether it has to be given) of each parameter, by the first line of the docstring or in Python."""
    try:
        return [
            (name, str(parameter.annotation), parameter.default is parameter.empty)
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
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


def call_arguments(arguments, function, numbers):
    """Mostly of the documented kinds, sometimes all of them anything."""
    parameters = parameters_of(function)
    if not parameters or numbers.random() < 0.15:
        return [arguments.any() for _ in range(numbers.randrange(5))], {}
    positional, keywords = [], {}
    for name, annotation, required in parameters:
        if not required and numbers.random() < 0.6:
            continue
        value = arguments.any() if numbers.random() < 0.04 else arguments.of_kind(annotation)
        if required and not keywords:
            positional.append(value)
        else:
            keywords[name] = value
    return positional, keywords


def compute(gb, result):
    """Evaluates what came back where it is small; a large one would only be slow."""
    tensors = result if isinstance(result, (list, tuple)) else [result]
    for tensor in tensors:
        if isinstance(tensor, gb.Tensor) and tensor.size <= 1 << 22:
            gb.eval(tensor)


def round_of_calls(seed):
    import gabbro as gb

    faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    gb.set_device("cpu")
    numbers = random.Random(seed)
    arguments = Arguments(gb, numbers)
    functions = public_callables(gb)
    raised = 0
    for _ in range(CALLS_PER_ROUND):
        name, function = numbers.choice(functions)
        positional, keywords = call_arguments(arguments, function, numbers)
        if name.startswith("Tensor."):
            positional.insert(0, arguments.tensor())
        print(f"{seed} {name}", file=sys.stderr)  # the last line is the call that did not come back
        signal.alarm(SLOW)
        try:
            result = function(*positional, **keywords)
            if isinstance(result, gb.nn.Module):
                result = result(*(arguments.tensor() for _ in range(numbers.randrange(1, 4))))
            compute(gb, result)
        except Exception:
            raised += 1
        signal.alarm(0)
    print(f"round {seed}: {CALLS_PER_ROUND} calls, {raised} exceptions", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round is not None:
        round_of_calls(options.round)
        return 0
    start, seed, died = time.monotonic(), options.seed, []
    while time.monotonic() - start < options.seconds:
        done = subprocess.run(
            [sys.executable, __file__, "--round", str(seed)], stderr=subprocess.PIPE, text=True, errors="replace"
        )
        if done.returncode != 0:
            died.append(seed)
            print(f"round {seed} ended with {done.returncode}:\n{done.stderr[-3000:]}", flush=True)
        seed += 1
    print(f"{seed - options.seed} rounds of {CALLS_PER_ROUND} calls; died: {died or 'none'}")
    return 1 if died else 0


if __name__ == "__main__":
    sys.exit(main())
