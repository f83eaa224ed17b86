"""What is called: functions, methods, modules, optimizers, indexing, exchange, transformations, devices.

Each generator of `SCENES` yields the next action as a line of text, runs it, and yields the one after it.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import tempfile
from pathlib import Path

import numpy as np

from .values import LARGE, arguments_of, described

NEVER = {"devices", "seed", "set_device", "cuda_set_device", "rocm_set_device", "save_state", "load_state"}
OPERATORS = {
    f"__{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
        "neg", "pos", "abs", "invert", "lt", "le", "eq", "ne", "gt", "ge", "getitem", "len", "iter", "bool",
        "int", "float", "complex", "index", "repr", "str", "format", "iadd", "isub", "imul", "itruediv", "ifloordiv",
        "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift", "irshift", "radd", "rsub", "rmul",
        "rtruediv", "rfloordiv", "rmod",
        "rpow", "rmatmul", "rand", "ror", "rxor", "rlshift", "rrshift", "hash", "array", "dlpack", "dlpack_device",
        "reduce", "getstate", "sizeof", "array_namespace", "dir",
    )
}  # fmt: skip


class Calls:
    def __init__(self, gb, values):
        self.gb, self.values, self.random = gb, values, values.random
        self.functions = self.public_functions()
        self.methods = [
            (f"Tensor.{name}", method)
            for name, method in inspect.getmembers(gb.Tensor)
            if callable(method) and (name[0] != "_" or name in OPERATORS)
        ]
        classes = inspect.getmembers(gb.nn, inspect.isclass)
        self.modules = [(f"nn.{name}", value) for name, value in classes if issubclass(value, gb.nn.Module)]
        named = inspect.getmembers(gb.optim, inspect.isclass)
        self.optimizers = [(f"optim.{name}", value) for name, value in named if issubclass(value, gb.optim.Optimizer)]
        rates = gb.optim.lr_scheduler
        names = [name for name in dir(rates) if name.endswith(("LR", "Restarts", "Plateau"))]
        self.schedules = [(name, getattr(rates, name)) for name in names]

    def public_functions(self):
        gb, found = self.gb, []
        modules = (gb, gb.nn.functional, gb.nn.init, gb.nn.utils, gb.array_api, gb.backend.rocm, gb.backend.cuda)
        for module in modules:
            for name in sorted(getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]):
                value = getattr(module, name)
                ours = str(getattr(value, "__module__", None) or "gabbro").startswith("gabbro")
                if callable(value) and ours and name not in NEVER:
                    found.append((f"{module.__name__}.{name}", value))
        return found

    def next(self):
        self.values.new_call()
        weights = [weight for _, weight in SCENES]
        scene = self.random.choices([scene for scene, _ in SCENES], weights)[0]
        return scene(self)

    def compute(self, result):
        """Evaluates what came back where it is small; a large one would only be slow."""
        tensors = list(result) if isinstance(result, (list, tuple)) else [result]
        for tensor in tensors:
            if isinstance(tensor, self.gb.Tensor) and tensor.size <= LARGE:
                if self.random.random() < 0.75:
                    self.gb.eval(tensor)
                self.values.keep(tensor)

    def chosen(self, list_of_pairs):
        name, value = self.random.choice(list_of_pairs)
        positional, keywords = arguments_of(self.values, value)
        return name, value, positional, keywords

    def function(self):
        name, function, positional, keywords = self.chosen(self.functions)
        yield line(name, positional, keywords)
        result = function(*positional, **keywords)
        self.compute(result)
        yield from self.differentiate(name, result)

    def method(self):
        name, function, positional, keywords = self.chosen(self.methods)
        positional.insert(0, self.values.tensor())
        yield line(name, positional, keywords)
        result = function(*positional, **keywords)
        self.compute(result)
        yield from self.differentiate(name, result)

    def differentiate(self, name, result):
        gb = self.gb
        if not isinstance(result, gb.Tensor) or not result.requires_grad or result.size > LARGE:
            return
        yield f"{name}: backward of its result {described(result)}"
        result.backward(gb.ones_like(result)) if self.random.random() < 0.7 else result.sum().backward()
        for tensor in self.values.kept:
            if tensor.requires_grad and tensor.is_leaf and tensor.grad is not None:
                gb.eval(tensor.grad)

    def inputs(self, positional, keywords):
        """Inputs whose lengths are among the numbers that the module was made with."""
        whole = [v for v in [*positional, *keywords.values()] if isinstance(v, int) and 0 < v < 65]
        self.values.lengths += whole * 2
        return [self.values.tensor() for _ in range(self.random.choice([1, 1, 1, 2, 2, 3]))]

    def module(self):
        gb = self.gb
        name, kind, positional, keywords = self.chosen(self.modules)
        made = line(name, positional, keywords)
        yield made
        module = kind(*positional, **keywords)
        yield f"{made}: repr, train, to"
        repr(module)
        module.train(self.random.random() < 0.7)
        if self.random.random() < 0.2:
            module.to(self.values.any())
        for _ in range(3):
            inputs = self.inputs(positional, keywords)
            yield f"{made}{described(tuple(inputs))}"
            result = module(*inputs)
            self.compute(result)
            yield from self.differentiate(made, result[0] if isinstance(result, tuple) and result else result)
        yield f"{made}: state_dict, eval, zero_grad"
        state = module.state_dict()
        if state and self.random.random() < 0.5:
            state[self.random.choice(list(state))] = self.values.any()
        gb.eval(module)
        module.zero_grad()
        yield f"{made}: load_state_dict({described(state)})"
        module.load_state_dict(state if self.random.random() < 0.8 else self.values.any())
        yield f"{made}: copy and pickle"
        copy.deepcopy(module)
        pickle.loads(pickle.dumps(module))
        yield f"{made}: save_state"
        with tempfile.TemporaryDirectory() as folder:
            yield from self.state_file(module, Path(folder) / "x.safetensors")

    def state_file(self, module, path):
        gb = self.gb
        gb.save_state(module, str(path))
        content = bytearray(path.read_bytes())
        if content and self.random.random() < 0.7:
            content[self.random.randrange(len(content))] = self.random.randrange(256)
        if self.random.random() < 0.3:
            content = content[: self.random.randrange(len(content) + 1)]
        path.write_bytes(content)
        yield "load_state of a damaged file"
        gb.load_state(module, str(path))

    def surgery(self):
        """Modules put into others, and themselves; attributes of any name and value."""
        nn, choose = self.gb.nn, self.random.choice
        modules = [nn.Linear(2, 2), nn.ReLU(), nn.LSTM(2, 2), nn.BatchNorm1d(2), nn.Module(), nn.Dropout(0.5)]
        modules += [nn.Sequential(*modules[:2]), nn.ModuleList(modules[:2]), nn.ModuleDict({"a": modules[0]})]
        for _ in range(5):
            module, other = choose(modules), choose(modules)
            name = choose(["a", "0", "weight", "bias", "training", "forward", "", "x.y", "\ud800", "\0", "__class__"])
            value = choose([other, other, nn.Parameter(self.gb.ones(2)), self.values.any(), None])
            register = [nn.Module.add_module, nn.Module.register_parameter, nn.Module.register_buffer]
            doing = choose([setattr, setattr, *register])
            yield f"{doing.__name__}({type(module).__name__}, {name!r}, {described(value)})"
            if name != "__class__":
                with contextlib.suppress(TypeError, ValueError, AttributeError):
                    doing(module, name, value)
            yield f"repr, state_dict and parameters of {type(module).__name__}"
            repr(module)
            self.gb.eval(module)
            module.state_dict(), list(module.parameters()), list(module.named_modules())
            if self.random.random() < 0.3:
                yield f"delattr({type(module).__name__}, {name!r})"
                delattr(module, name)
        yield "a module's call"
        choose(modules)(self.gb.ones((2, 2)))

    def optimizer(self):
        gb = self.gb
        name, kind, positional, keywords = self.chosen(self.optimizers)
        shapes = [self.values.shape() for _ in range(self.random.randrange(1, 4))]
        parameters = [gb.nn.Parameter(gb.randn(*shape)) for shape in shapes]
        if self.random.random() < 0.85:
            positional = [parameters, *positional[1:]]
        made = line(name, positional, keywords)
        yield made
        optimizer = kind(*positional, **keywords)
        schedules = []
        if self.random.random() < 0.3:
            name, kind, positional, keywords = self.chosen(self.schedules)
            made += " with " + line(name, positional, keywords)
            yield made
            schedules.append(kind(optimizer, *positional[1:], **keywords))
        for _ in range(self.random.randrange(1, 4)):
            yield f"{made}: step"
            loss = sum(((parameter * parameter).sum() for parameter in parameters), gb.zeros(()))
            loss.backward()
            if self.random.random() < 0.2:
                gb.nn.utils.clip_grad_norm_(parameters, self.values.number())
            optimizer.step()
            if self.random.random() < 0.7:
                optimizer.zero_grad()
            for schedule in schedules:
                schedule.step()
        yield f"{made}: state_dict and load_state_dict"
        state = optimizer.state_dict()
        if isinstance(state, dict) and state and self.random.random() < 0.5:
            state[self.random.choice(list(state))] = self.values.any()
        optimizer.load_state_dict(state)
        optimizer.step()

    def index(self):
        x, indices = self.values.tensor(), self.values.indices()
        yield f"{described(x)}[{described(indices)}]"
        self.compute(x[indices])

    def assign(self):
        x, indices = self.values.tensor(), self.values.indices()
        value = self.values.number() if self.random.random() < 0.4 else self.values.any()
        yield f"{described(x)}[{described(indices)}] = {described(value)}"
        x[indices] = value
        self.compute(x)

    def exchange(self):
        gb, x, kind = self.gb, self.values.tensor(), self.random.randrange(10)
        array = self.values.array()
        yield f"exchange {kind} of {described(x)}, {described(array)}"
        if kind == 0:
            copied = pickle.loads(pickle.dumps(x))
            assert copied.shape == x.shape and copied.dtype == x.dtype
        elif kind == 1:
            self.compute(gb.from_dlpack(x))
        elif kind == 2:
            np.from_dlpack(x)
        elif kind == 3:
            self.compute(gb.from_dlpack(array))
        elif kind == 4:
            dtype, copied = self.random.choice([None, *self.values.dtypes]), self.random.choice([None, True, False])
            self.compute(gb.asarray(array, dtype=dtype, copy=copied))
        elif kind == 5:
            self.compute(gb.tensor(self.values.nested()))
        elif kind == 6:
            array = x.numpy()
            if array.flags.writeable and array.size > 0:
                array.flat[-1] = 1
        elif kind == 7:
            np.frombuffer(memoryview(x), np.uint8)
        elif kind == 8:
            function, arguments = x.__reduce__()[:2]
            damaged = list(arguments)
            damaged[self.random.randrange(len(damaged))] = self.values.any()
            function(*damaged)
        else:
            capsule = x.__dlpack__()
            del x, capsule

    def transform(self):
        gb, functions = self.gb, self.functions
        name, function, positional, keywords = self.chosen(functions)
        tensors = [v for v in positional if isinstance(v, gb.Tensor)]
        kind = self.random.choice(["grad", "value_and_grad", "checkpoint", "compile", "explain"])

        def called(*given):
            left = list(given)
            full = [left.pop(0) if isinstance(v, gb.Tensor) and left else v for v in positional]
            result = function(*full, **keywords)
            return result.sum() if "grad" in kind and isinstance(result, gb.Tensor) else result

        yield f"{kind} of {line(name, positional, keywords)}"
        if kind == "explain":
            gb.explain(called, *tensors)
            return
        changed = getattr(gb, kind)(called)
        for _ in range(2):
            self.compute(changed(*tensors))

    def device(self):
        device = self.gb.Device(self.random.choice(self.values.devices[:2]))
        methods = [
            (name, getattr(device, name)) for name in dir(device)
            if name[0] != "_" and callable(getattr(device, name)) and name not in {"set_tuning"}
        ]  # fmt: skip
        name, method, positional, keywords = self.chosen(methods)
        yield f"{device}: {line(name, positional, keywords)}"
        method(*positional, **keywords)

    def evaluate(self):
        what = self.values.any() if self.random.random() < 0.5 else list(self.values.kept)
        yield f"eval({described(what)})"
        if not any(tensor.size > LARGE for tensor in tensors_in(self.gb, what)):
            self.gb.eval(what)


def tensors_in(gb, value, depth=0):
    if isinstance(value, gb.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and depth < 5:
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(gb, item, depth + 1)


def line(name, positional, keywords):
    parts = [described(value) for value in positional]
    parts += [f"{key}={described(value)}" for key, value in keywords.items()]
    return f"{name}({', '.join(parts)})"


SCENES = (
    (Calls.function, 40), (Calls.method, 16), (Calls.module, 10), (Calls.optimizer, 3), (Calls.surgery, 2),
    (Calls.index, 8), (Calls.assign, 5), (Calls.exchange, 6),
    (Calls.transform, 8), (Calls.device, 1), (Calls.evaluate, 2),
)  # fmt: skip
