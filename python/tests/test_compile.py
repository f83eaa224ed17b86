"""Compiled functions follow what they use without being given it, or are traced again."""

import copy
import functools
import gc
import types
import weakref

import numpy as np
import pytest

import gabbro as gb

scale = 2.0
table = gb.ones(2)


def follows(eager, compiled, *changes):
    """After each change the compiled function gives what the function itself gives."""
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            np.testing.assert_allclose(compiled().numpy(), eager().numpy(), rtol=1e-6)


def counted(function):
    calls = []

    @functools.wraps(function)
    def counting(*args):
        calls.append(1)
        return function(*args)

    return counting, calls


@pytest.mark.parametrize("how", ["module", "closure", "method", "argument", "container", "partial"])
def test_parameters_are_followed_without_another_trace(how):
    model = gb.nn.Sequential(gb.nn.Linear(3, 2), gb.nn.Tanh(), gb.nn.Linear(2, 1))
    x, calls = gb.tensor(np.arange(6, dtype="f4").reshape(2, 3)), []

    def called(module, value):
        calls.append(1)
        return module(value)

    class Holder:
        def __init__(self):
            self.models = {"main": [model]}

        def run(self, value):
            return called(self.models["main"][0], value)

    holder = Holder()
    fast = {
        "module": lambda: gb.compile(model),
        "closure": lambda: gb.compile(lambda value: called(model, value)),
        "method": lambda: gb.compile(holder.run),
        "argument": lambda: functools.partial(gb.compile(called), model),
        "container": lambda: gb.compile(lambda value: called(holder.models["main"][0], value)),
        "partial": lambda: gb.compile(functools.partial(called, model)),
    }[how]()
    optimizer = gb.optim.Adam(model.parameters(), lr=0.1)

    def step():
        model(x).sum().backward()
        optimizer.step()

    def load():
        model.load_state_dict({name: value * 2 for name, value in model.state_dict().items()})

    def initialize():
        gb.nn.init.normal_(model[0].weight)

    def assign():
        model[2].weight = gb.tensor([[1.0, -2.0]])

    def in_place():
        with gb.no_grad():
            bias = model[0].bias
            bias[0] = 7.0

    follows(lambda: model(x), lambda: fast(x), step, step, load, initialize, assign, in_place)
    if how != "module":
        assert len(calls) == 1
    model.to(gb.float64)
    y = x.astype(gb.float64)
    np.testing.assert_allclose(fast(y).numpy(), model(y).numpy(), rtol=1e-12)


class Net(gb.nn.Module):
    slope = 1.0

    def __init__(self):
        super().__init__()
        self.weight = gb.nn.Parameter(gb.tensor([1.0, 2.0]))
        self.register_buffer("shift", gb.zeros(2))
        self.power = 1
        self.names = ["weight"]
        self.inner = gb.nn.Linear(2, 2)

    def forward(self, x):
        total = sum(getattr(self, name) for name in self.names)
        return self.inner(x * total + self.shift) * self.power * self.slope * scale * table


def test_attributes_of_modules_and_globals_are_followed(monkeypatch):
    net = Net()
    x = gb.ones((1, 2))
    follows(
        lambda: net(x),
        functools.partial(gb.compile(net), x),
        lambda: setattr(net, "power", 3),
        lambda: setattr(net, "weight", gb.nn.Parameter(gb.tensor([5.0, 6.0]))),
        lambda: setattr(net, "shift", gb.tensor([1.0, 1.0])),
        lambda: net.names.append("shift"),
        lambda: setattr(net, "inner", gb.nn.Linear(2, 2)),
        lambda: setattr(net, "names", ["shift"]),
        lambda: monkeypatch.setattr(Net, "slope", 0.5),
        lambda: monkeypatch.setitem(globals(), "scale", 3.0),
        lambda: monkeypatch.setitem(globals(), "table", gb.tensor([4.0, 5.0])),
        lambda: table.__setitem__(0, 9.0),
        lambda: net.register_buffer("shift", gb.ones(2) * 8),
    )


def test_closures_are_followed():
    w, factor, numbers, array = gb.ones(2), 1.0, {"a": 1.0}, np.ones(2, "f4")
    settings = types.SimpleNamespace(bias=gb.zeros(2), on=True)

    def function(x):
        y = x * w * factor * numbers["a"] * gb.tensor(array)
        return y + settings.bias if settings.on else y

    def change_factor():
        nonlocal factor
        factor += 1

    def change_tensor():
        nonlocal w
        w = gb.tensor([3.0, 4.0])

    def add_in_place():
        nonlocal w
        w += 1

    x = gb.tensor([1.0, 2.0])
    follows(
        lambda: function(x),
        functools.partial(gb.compile(function), x),
        change_factor,
        change_tensor,
        add_in_place,
        lambda: w.__setitem__(slice(None), 5.0),
        lambda: numbers.update(a=2.0),
        lambda: array.__setitem__(0, 7.0),
        lambda: settings.bias.__setitem__(1, 1.0),
        lambda: setattr(settings, "on", False),
    )


def test_batch_norm_moves_its_buffers_and_follows_the_mode():
    rng = np.random.default_rng(3)
    batches = [gb.tensor(rng.random((4, 3), dtype=np.float32)) for _ in range(4)]
    plain, other = gb.nn.BatchNorm1d(3), gb.nn.BatchNorm1d(3)
    fast = gb.compile(other)
    for mode in (True, False, True):
        plain.train(mode)
        fast.train(mode)
        for x in batches:
            np.testing.assert_allclose(fast(x).numpy(), plain(x).numpy(), rtol=1e-6, atol=1e-6)
        for (name, a), (_, b) in zip(plain.named_buffers(), other.named_buffers(), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6, err_msg=name)
    assert other.num_batches_tracked.item() == 8


def test_dropout_differs_follows_the_seed_and_the_mode():
    layer = gb.nn.Dropout(0.5)
    function, calls = counted(lambda x: layer(x) + 0)
    fast, x = gb.compile(function), gb.ones(64)
    fast(x)
    gb.seed(5)
    first, second = fast(x).tolist(), fast(x).tolist()
    gb.seed(5)
    assert layer(x).tolist() == first != second
    assert fast(x).tolist() == second  # the next of the same numbers
    layer.eval()
    assert fast(x).tolist() == [1.0] * 64
    layer.train()
    assert fast(x).tolist() != [1.0] * 64
    assert len(calls) == 2  # one for each mode


def test_modes_of_the_thread_are_followed():
    a, b = gb.ones((2, 2)), gb.ones((2, 2))
    product, calls = counted(lambda x, y: x @ y)
    fast = gb.compile(product)
    for _ in range(2):
        assert fast(a, b).dtype == gb.float32
        with gb.autocast(gb.bfloat16):
            assert fast(a, b).dtype == gb.bfloat16
    assert len(calls) == 2
    weight = gb.tensor([2.0]).requires_grad_()
    asks = gb.compile(lambda x: x * (1.0 if gb.is_grad_enabled() else 2.0) * weight)
    assert asks(gb.ones(1)).item() == 2.0
    with gb.no_grad():
        assert asks(gb.ones(1)).item() == 4.0
    assert asks(gb.ones(1)).item() == 2.0


def test_assignments_to_arguments_and_captured_tensors_happen_in_each_call():
    count = gb.zeros(2)

    def function(x):
        nonlocal count
        count += 1
        x *= 2
        return x + count

    fast, x = gb.compile(function), gb.ones(2)
    results = [fast(x).tolist() for _ in range(3)]
    assert results == [[3.0] * 2, [6.0] * 2, [11.0] * 2]
    assert x.tolist() == [8.0] * 2 and count.tolist() == [3.0] * 2


def test_tensors_with_one_value_may_part():
    a = gb.tensor([1.0])
    b = gb.tensor([0.0])
    b[...] = a
    fast = gb.compile(lambda x: x + 10 * a + 100 * b)
    assert fast(gb.zeros(1)).item() == 110.0
    a[0] = 2.0
    assert fast(gb.zeros(1)).item() == 120.0
    b[0] = 3.0
    assert fast(gb.zeros(1)).item() == 320.0


def test_an_error_in_a_trace_changes_nothing():
    norm = gb.nn.BatchNorm1d(2)

    def function(x):
        y = norm(x)
        raise KeyError(y.shape)

    with pytest.raises(KeyError):
        gb.compile(function)(gb.ones((3, 2)))
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.num_batches_tracked.item() == 0


def test_gradients_are_taken_inside_and_not_read():
    weight = gb.nn.Parameter(gb.tensor([3.0]))
    with pytest.raises(ValueError, match="compile"):
        gb.compile(lambda x: x * weight.grad)(gb.ones(1))
    with pytest.raises(ValueError, match="compile"):
        gb.compile(lambda x: [(x * weight).sum().backward(), x])(gb.ones(1))
    slope = gb.compile(lambda x: gb.grad(lambda y: (y * y * weight).sum())(x))
    assert slope(gb.ones(1)).item() == 6.0
    with gb.no_grad():
        weight[0] = 5.0
    assert slope(gb.ones(1)).item() == 10.0


def test_a_compiled_function_inside_another_is_looked_through():
    w = gb.ones(1)
    inner = gb.compile(lambda x: x * w)
    outer = gb.compile(lambda x: inner(x) + 1)
    assert outer(gb.ones(1)).item() == 2.0
    w[0] = 5.0
    assert outer(gb.ones(1)).item() == 6.0 and inner(gb.ones(1)).item() == 5.0


def test_a_quantized_layer_is_followed():
    layer = gb.nn.Linear(gb.nn.Linear(32, 2), "q8_0")
    other = gb.nn.Linear(gb.nn.Linear(32, 2), "q8_0")
    fast, x = gb.compile(layer), gb.ones((1, 32))
    before = fast(x).tolist()
    layer.load_state_dict(other.state_dict())
    assert fast(x).tolist() == other(x).tolist() != before


def test_old_traces_do_not_pile_up():
    box = types.SimpleNamespace(number=0)
    fast = gb.compile(lambda x: x + box.number)
    for number in [*range(40), 5, 39]:
        box.number = number
        assert fast(gb.zeros(1)).item() == number
    replays = fast.__closure__[fast.__code__.co_freevars.index("replays")].cell_contents
    assert [len(traces) for traces in replays.kinds.values()] == [8]


def test_kinds_of_arguments_do_not_pile_up_and_the_busy_ones_stay():
    function, calls = counted(lambda x: x + 1)
    fast = gb.compile(function)
    seen = []
    for length in range(1, 80):
        assert fast(gb.zeros(1)).item() == 1
        assert fast(gb.zeros(length)).shape == (length,)
        replays = fast.__closure__[fast.__code__.co_freevars.index("replays")].cell_contents
        seen += [weakref.ref(traces[0]) for kind, traces in replays.kinds.items() if f"({length},)" in str(kind)]
    assert len(replays.kinds) == 64 and len(calls) == 79  # that of length 1 was traced once
    gc.collect()
    assert len(seen) == 79 and sum(replay() is not None for replay in seen) == 64


def test_a_compiled_module_is_the_module_in_everything_else():
    model = gb.nn.Sequential(gb.nn.Linear(2, 2), gb.nn.Dropout(0.5))
    fast = gb.compile(model)
    fast.eval()
    assert not model.training and list(fast.state_dict()) == list(model.state_dict())
    fast.note = 3
    assert model.note == 3 and "Linear" in repr(fast)
    other = copy.deepcopy(fast)
    other.load_state_dict({name: value * 0 for name, value in model.state_dict().items()})
    x = gb.ones((1, 2))
    assert other(x).tolist() == [[0.0, 0.0]] and fast(x).tolist() == model(x).tolist() != [[0.0, 0.0]]
    model.append(gb.nn.ReLU())
    assert fast(x).tolist() == model(x).tolist()


def test_what_the_function_does_not_use_is_not_guarded():
    class Bar:
        def __init__(self):
            self.count, self.limit = 0, 2.0

        def update(self):
            self.count += 1

    bar = Bar()
    function, calls = counted(lambda x: x * bar.limit)
    fast = gb.compile(function)
    for _ in range(3):
        assert fast(gb.ones(1)).item() == 2.0
        bar.other = bar.__dict__.get("other", 0) + 1
    bar.limit = 3.0
    assert fast(gb.ones(1)).item() == 3.0
    assert len(calls) == 2
