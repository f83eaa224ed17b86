"""A compiled function sees each change of what its trace has read, and is not traced again for other changes."""

import array
import collections
import dataclasses
import operator
import sys
import threading
import types

import numpy as np
import pytest

import gabbro as gb


def follows(function, *changes):
    """After each change the compiled function gives what the function itself gives."""
    compiled, x = gb.compile(function), gb.ones(1)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert compiled(x).item() == function(x).item()


class Number:
    value = 1.0

    def get(self):
        return self.value

    @property
    def read(self):
        return self._hidden

    _hidden = 1.0

    @classmethod
    def of_class(cls):
        return cls.value


class Special(Number):
    pass


def test_attributes_that_hide_those_of_classes():
    number, special = Number(), Special()
    follows(lambda x: x * number.value, lambda: setattr(number, "value", 3.0))
    follows(lambda x: x * number.read, lambda: setattr(number, "_hidden", 3.0))
    follows(lambda x: x * special.value, lambda: setattr(Special, "value", 3.0), lambda: delattr(Special, "value"))
    follows(lambda x: x * Special.of_class(), lambda: setattr(Special, "of_class", classmethod(lambda cls: 7.0)))


def test_methods_that_are_replaced(monkeypatch):
    number = Number()
    follows(
        lambda x: x * number.get(),
        lambda: monkeypatch.setattr(Number, "get", lambda self: 2.0),
        lambda: setattr(number, "get", lambda: 5.0),
    )

    class Net(gb.nn.Module):
        def forward(self, x):
            return x

    net = Net()
    follows(
        lambda x: net(x),
        lambda: setattr(Net, "forward", lambda self, x: x * 2),
        lambda: setattr(net, "forward", lambda x: x * 3),
    )


def test_hooks_that_come_and_go():
    layer, handles = gb.nn.Linear(1, 1), []
    add = [lambda f=f: handles.append(layer.register_forward_hook(lambda m, i, y: y * f)) for f in (2, 3)]
    follows(lambda x: layer(x), *add, lambda: handles[0].remove(), lambda: handles[1].remove())


def test_attributes_and_defaults_of_functions():
    def function(x, *, by=[1.0]):  # noqa: B006
        return x * function.scale * by[0]

    def power(x, exponent=1.0):
        return x * exponent

    function.scale = 2.0
    follows(
        function,
        lambda: setattr(function, "scale", 3.0),
        lambda: function.__kwdefaults__["by"].append(1) or function.__kwdefaults__["by"].__setitem__(0, 4.0),
        lambda: setattr(function, "__kwdefaults__", {"by": [5.0]}),
    )
    follows(lambda x: power(x), lambda: setattr(power, "__defaults__", (2.0,)))


def test_names_that_do_not_exist_at_first(monkeypatch):
    class Optional:
        pass

    class Answering:
        def __getattr__(self, name):
            return 2.0

    owner, answering = Optional(), Answering()

    def asks(x):
        try:
            return x * owner.scale
        except AttributeError:
            return x

    def asks_globals(x):
        try:
            return x * scale_of_later
        except NameError:
            return x

    follows(asks, lambda: setattr(owner, "scale", 4.0))
    follows(asks_globals, lambda: monkeypatch.setitem(globals(), "scale_of_later", 4.0))
    follows(lambda x: x * answering.anything, lambda: setattr(answering, "anything", 3.0))
    follows(lambda x: x * max(1, 2), lambda: monkeypatch.setitem(globals(), "max", min))


def test_modules_that_are_imported_by_the_function(monkeypatch):
    settings = types.ModuleType("settings_of_a_program")
    settings.scale = 1.0
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def function(x):
        import settings_of_a_program

        return x * settings_of_a_program.scale

    follows(function, lambda: setattr(settings, "scale", 2.0))


def test_containers_and_arrays_that_change_in_place():
    numbers, codes, few = collections.deque([1.0]), bytearray([1]), array.array("d", [1.0])
    follows(lambda x: x * numbers[0], lambda: numbers.appendleft(3.0))
    follows(lambda x: x * codes[0], lambda: codes.__setitem__(0, 7))
    follows(lambda x: x * few[0], lambda: few.__setitem__(0, 7.0))
    matrix, objects = np.ones((2, 3)), np.array([types.SimpleNamespace(value=1.0)], object)
    follows(lambda x: x * len(matrix), lambda: matrix.resize((3, 2), refcheck=False))
    follows(lambda x: x * float(matrix[0, 0]), lambda: matrix.__setitem__((0, 0), 4.0))
    follows(lambda x: x * objects[0].value, lambda: setattr(objects[0], "value", 3.0))


@dataclasses.dataclass
class Options:
    factor: float = 1.0
    shift: float = 0.0


def test_attributes_that_are_read_by_any_name():
    options, names = Options(), ["factor"]
    lr = operator.attrgetter("factor")
    follows(lambda x: x * sum(dataclasses.asdict(options).values()), lambda: setattr(options, "shift", 2.0))
    follows(lambda x: x * lr(options), lambda: setattr(options, "factor", 5.0))
    follows(lambda x: x * getattr(options, names[0]), lambda: setattr(options, "factor", 6.0))
    follows(lambda x: x * sum(vars(options).values()), lambda: setattr(options, "more", 2.0))
    follows(lambda x: x * eval("options.factor", {"options": options}), lambda: setattr(options, "factor", 7.0))

    def matched(x):
        match options:
            case Options(factor, shift):
                return x * factor + shift

    follows(matched, lambda: setattr(options, "factor", 8.0))


def test_what_another_thread_reads():
    number = Number()

    def function(x):
        results = []
        thread = threading.Thread(target=lambda: results.append(x * number.value))
        thread.start()
        thread.join()
        return results[0]

    follows(function, lambda: setattr(number, "value", 3.0))


def test_a_function_that_counts_its_calls_is_traced_in_each():
    number = Number()

    def function(x):
        number.value += 1
        return x * number.value

    compiled = gb.compile(function)
    assert [compiled(gb.ones(1)).item() for _ in range(3)] == [2.0, 3.0, 4.0]


def test_what_the_trace_has_not_read_may_change():
    options = types.SimpleNamespace(scale=2.0, is_verbose=False, seen=[], epoch=0, table=np.zeros(1 << 20))
    calls = []

    def report():
        return options.epoch

    def function(x):
        calls.append(1)
        if options.is_verbose:
            options.seen.append(report())
            return x * float(options.table[0])
        return x * options.scale

    compiled, x = gb.compile(function), gb.ones(1)
    for epoch in range(3):
        options.epoch = epoch
        options.seen = [epoch]
        options.table[0] = epoch
        assert compiled(x).item() == 2.0
    assert len(calls) == 1
    options.is_verbose = True
    with pytest.raises(ValueError, match=r"NumPy array of shape \(1048576,\)"):
        compiled(x)


def test_a_tensor_that_was_not_read_is_not_an_input():
    used, other = gb.ones(1), gb.ones(1)
    is_on = False

    def function(x):
        if is_on:
            return x * other
        return x * used

    compiled, x = gb.compile(function), gb.ones(1)
    compiled(x)
    other = gb.ones((2, 2))
    used[0] = 5.0
    assert compiled(x).item() == 5.0
    is_on = True
    assert compiled(x).shape == (2, 2)
    other[0, 0] = 3.0
    assert compiled(x).tolist() == [[3.0, 1.0], [1.0, 1.0]]


def test_under_another_tracer_everything_counts():
    number = Number()
    compiled, x = gb.compile(lambda y: y * number.value), gb.ones(1)
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert compiled(x).item() == 1.0
    finally:
        sys.settrace(before)
    number.value = 3.0
    assert compiled(x).item() == 3.0
