"""Settings that are changed after construction, gradients as objects, and positional arguments: as in PyTorch.

PyTorch's results are recorded (torch_arguments/run.py --record); where they differ by intention, the reason is named.
"""

import copy
import inspect
import pickle

import pytest

import gabbro as gb
from gabbro import nn
from torch_arguments import cases, layers, optimizers, positions, recorded
from torch_arguments.sides import Side, difference
from torch_names import cases as names

F = nn.functional
LINES = list(names.lines())


@pytest.fixture(scope="module")
def results():
    return recorded.load()


def differing(results, *kinds):
    side, found, counts = Side("gabbro"), {}, [0, 0]
    for case in cases.all_cases():
        if case.intended or case.kind not in kinds:
            continue
        got = case.run(side)
        text = difference(got, results[case.key])
        counts["error" in got] += 1
        if text is not None:
            found[case.key] = text
    return found, counts


@pytest.mark.parametrize("kind, least", [("layer", 80), ("optimizer", 150), ("schedule", 100), ("position", 500)])
def test_arguments_have_the_effect_that_pytorch_gives_them_or_are_refused(results, kind, least):
    found, (answered, refused) = differing(results, kind)
    assert found == {}
    assert answered >= least and refused > 0


def parameters_of(kind):
    """The names of a constructor's arguments, but for device and dtype."""
    text = inspect.getdoc(kind.__init__) or ""
    line = next(line for line in text.split("\n") if line.startswith("__init__("))
    names = [part.split(":")[0].split("=")[0].strip() for part in line[len("__init__(") : line.rindex(")")].split(", ")]
    return [name for name in names if name.isidentifier() and name not in ("self", "device", "dtype")]


def test_the_table_has_each_layer_and_each_of_its_arguments():
    tested = {}
    for case in layers.CASES:
        tested.setdefault(case.layer, set()).update(case.settings)
    kinds = {name for name in nn.__all__ if inspect.isclass(getattr(nn, name))}
    lines = " ".join(LINES)  # layers that python/tests/torch_names compares
    untested = {name for name in kinds - tested.keys() - layers.OTHERS if f"nn.{name}(" not in lines}
    assert untested == layers.UNTESTED
    for name in tested:
        kind = getattr(nn, name)
        if kind.__module__ == "gabbro._core":
            missing = set(parameters_of(kind)) - tested[name]
            assert missing == set(), name


def test_the_table_has_each_optimizer_and_scheduler():
    kinds = {name for name in gb.optim.__all__ if inspect.isclass(getattr(gb.optim, name))}
    lines = " ".join(LINES)  # optimizers and schedulers that python/tests/torch_names compares
    known = {name for name in kinds if f"optim.{name}(" in lines}
    assert kinds - {"Optimizer", "Lion"} == {name.split()[0] for name in optimizers.OPTIMIZERS} | known
    speed = {"foreach", "fused", "capturable", "differentiable"}  # no numbers of the formula
    for name, (_, options) in optimizers.OPTIMIZERS.items():
        arguments = inspect.signature(getattr(gb.optim, name.split()[0])).parameters.keys() - {"params"} - speed
        if " " not in name:
            assert arguments - options.keys() == set(), name
    lr = gb.optim.lr_scheduler
    kinds = {name for name, value in vars(lr).items() if inspect.isclass(value) and not name.startswith("_")}
    schedulers = {name for name in kinds if hasattr(getattr(lr, name), "get_last_lr")} - {"LRScheduler", "SequentialLR"}
    known = {name for name in schedulers if f"lr_scheduler.{name}(" in lines}
    assert schedulers == optimizers.SCHEDULERS.keys() | {"ReduceLROnPlateau"} | known


def test_each_argument_of_a_layer_can_be_read():
    for case in layers.CASES:
        layer = getattr(nn, case.layer)(**case.made_with)
        for name in case.settings:
            if name != "weight":
                getattr(layer, name)
        for name, value in case.made_with.items():
            read = getattr(layer, name, None)
            if name not in ("dropout", "bias") or not isinstance(read, (gb.Tensor, nn.Module)):
                several = isinstance(read, tuple) and not isinstance(value, tuple)
                assert read == ((value,) * len(read) if several and value != "same" else value), (case.layer, name)


def test_settings_that_cannot_be_changed_are_named():
    with pytest.raises(AttributeError, match="in_features"):
        nn.Linear(2, 3).in_features = 4
    layer = nn.Linear(2, 3)
    layer.in_features = 2  # its value already
    with pytest.raises(AttributeError, match="padding"):
        nn.Conv1d(1, 1, 3, padding_mode="reflect").padding = 1
    with pytest.raises(AttributeError, match="num_layers"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2).num_layers = 1
    for wrong in (-0.1, 1.5, float("nan")):
        dropout = nn.Dropout(0.25)
        with pytest.raises(ValueError, match="probability"):
            dropout.p = wrong
        assert dropout.p == 0.25


def test_what_a_layer_computes_with_cannot_be_replaced_unseen():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    for change in (
        lambda: setattr(layer, "dropout", 0.5),
        lambda: setattr(layer, "dropout", nn.Dropout(0.5)),
        lambda: setattr(layer, "linear1", nn.Linear(4, 8)),
        lambda: delattr(layer, "self_attn"),
        lambda: setattr(nn.LSTM(2, 2), "weight_ih_l0", None),
        lambda: layer.register_buffer("linear1", gb.ones(1)),
    ):
        with pytest.raises(AttributeError, match="cannot be replaced"):
            change()
    lstm, before = nn.LSTM(2, 3), gb.ones((4, 1, 2))
    lstm.weight_ih_l0 = nn.Parameter(gb.zeros((12, 2)))
    with gb.no_grad():
        assert lstm(before)[0].tolist() == lstm(before * 0)[0].tolist()
    for module in layer.modules():
        if isinstance(module, nn.Dropout):
            module.p = 1.0
    dropouts = [name for name, module in layer.named_modules() if isinstance(module, nn.Dropout)]
    assert dropouts == ["dropout", "dropout1", "dropout2"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_have_the_settings(copied):
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    layer.dropout.p, layer.dropout2.p, layer.self_attn.dropout = 0.25, 0.5, 0.75
    layer.norm2.eps, layer.norm_first, layer.activation = 0.125, True, "gelu"
    other = copied(layer)
    assert [other.dropout.p, other.dropout1.p, other.dropout2.p, other.self_attn.dropout] == [0.25, 0.1, 0.5, 0.75]
    assert (other.norm2.eps, other.norm1.eps, other.norm_first, other.activation) == (0.125, 1e-5, True, "gelu")
    norm = nn.BatchNorm1d(2, momentum=0.5)
    norm.track_running_stats, norm.momentum = False, None
    other = copied(norm)
    assert (other.track_running_stats, other.momentum, other.running_mean.shape) == (False, None, (2,))
    pool = nn.AvgPool1d(3, padding=1)
    pool.stride = None
    assert (copied(pool).stride, copied(pool).padding) == (None, (1,))


def test_compiled_functions_see_settings():
    layer, x = nn.Sequential(nn.LeakyReLU(0.5)), gb.tensor([-2.0])
    fast = gb.compile(lambda x: layer(x))
    assert fast(x).tolist() == [-1.0]
    layer[0].negative_slope = 0.25
    assert fast(x).tolist() == [-0.5]


def test_a_gradient_is_one_object():
    weight = nn.Parameter(gb.ones(3))
    optimizer = gb.optim.SGD([weight], lr=1.0)
    (weight * 2).sum().backward()
    assert weight.grad is weight.grad
    gradient = weight.grad
    weight.grad[0] = 0.0
    gradient *= 0.5
    assert weight.grad is gradient and gradient.tolist() == [0, 1, 1]
    optimizer.step()
    assert weight.tolist() == [1, 0, 0] and weight.grad is gradient and gradient.tolist() == [0, 1, 1]
    (weight * 4).sum().backward()
    assert weight.grad is gradient and gradient.tolist() == [4, 5, 5]
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad is gradient and gradient.tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert weight.grad is None and gradient.tolist() == [0, 0, 0]
    given = gb.full(3, 2.0)
    weight.grad = given
    given += 1
    assert weight.grad is given and weight.grad.tolist() == [3, 3, 3]
    weight.grad *= 2
    nn.utils.clip_grad_value_([weight], 5.0)
    assert weight.grad is given and given.tolist() == [5, 5, 5]
    del weight, optimizer
    assert given.tolist() == [5, 5, 5]


def test_gradients_stay_with_parameters_that_are_moved():
    layer = nn.Linear(1, 1, bias=False)
    layer(gb.ones((1, 1))).sum().backward()
    layer.load_state_dict({"weight": gb.full((1, 1), 3.0)})
    assert layer.weight.tolist() == [[3.0]] and layer.weight.grad.tolist() == [[1.0]]
    nn.init.zeros_(layer.weight)
    assert layer.weight.grad.tolist() == [[1.0]]
    layer.to(gb.float16)
    assert layer.weight.grad.dtype == gb.float16 and layer.weight.grad.tolist() == [[1.0]]
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0]]


def test_two_optimizers_of_one_parameter():
    weight = nn.Parameter(gb.ones(1))
    first, second = gb.optim.SGD([weight], lr=0.25), gb.optim.SGD([weight], lr=0.5)
    (2 * weight).sum().backward()
    first.step()
    second.step()
    assert weight.tolist() == [1 - 0.25 * 2 - 0.5 * 2]


def test_groups_are_read_by_each_step():
    first, second, third = (nn.Parameter(gb.ones(1)) for _ in range(3))
    optimizer = gb.optim.SGD([{"params": [first], "lr": 0.5}, {"params": [second], "momentum": 0.5}], lr=0.25)

    def moved():
        before = [weight.item() for weight in (first, second, third)]
        optimizer.zero_grad()
        (first + second + third).sum().backward()
        optimizer.step()
        return [round(b - w.item(), 6) for b, w in zip(before, (first, second, third), strict=True)]

    assert moved() == [0.5, 0.25, 0]
    assert moved() == [0.5, 0.375, 0]
    optimizer.add_param_group({"params": third, "lr": 2.0})
    assert moved() == [0.5, 0.4375, 2.0]  # with its momentum
    optimizer.param_groups[0] |= {"lr": 1.0}
    del optimizer.param_groups[2]
    assert moved() == [1.0, 0.46875, 0]
    optimizer.param_groups[0]["params"].append(third)
    assert moved() == [1.0, 0.484375, 1.0]
    optimizer.param_groups[1]["params"].clear()
    assert moved() == [1.0, 0, 1.0]
    for change, error in (
        (lambda group: group.pop("lr"), KeyError),
        (lambda group: group.clear(), KeyError),
        (lambda group: group.update(momentum=-1.0), ValueError),
        (lambda group: group.update(lr="fast"), TypeError),
        (lambda group: group.update(params=[first, first]), ValueError),
        (lambda group: group.update(differentiable=True), ValueError),
    ):
        before = dict(optimizer.param_groups[0])
        change(optimizer.param_groups[0])
        with pytest.raises(error):
            moved()
        optimizer.param_groups[0].clear()
        optimizer.param_groups[0].update(before)
    assert moved() == [1.0, 0, 1.0]


def test_a_state_restores_every_number():
    weight = nn.Parameter(gb.tensor([1.0]))
    saved = gb.optim.AdamW([weight], lr=0.5, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.3, amsgrad=True, maximize=True)
    other = gb.optim.AdamW([weight], lr=0.1)
    state = saved.state_dict()
    other.load_state_dict(state)
    assert {**other.param_groups[0], "params": [0]} == state["param_groups"][0]
    broken = {"state": {}, "param_groups": [{**state["param_groups"][0], "eps": -1.0}]}
    with pytest.raises(ValueError, match="eps"):
        other.load_state_dict(broken)
    assert other.param_groups[0]["eps"] == 1e-3


def test_random_numbers_need_a_dtype_that_holds_them():
    for dtype in (gb.int32, gb.int64, gb.bool, gb.uint8):
        for make in (gb.rand, gb.randn):
            with pytest.raises(ValueError, match="rand"):
                make(3, dtype=dtype)
        with pytest.raises(ValueError):
            F.dropout(gb.ones(3, dtype=dtype))
        for fill in (nn.init.uniform_, nn.init.normal_, nn.init.trunc_normal_):
            with pytest.raises(ValueError, match="init"):
                fill(gb.zeros(3, dtype=dtype))
    with pytest.raises(ValueError, match="randint"):
        gb.randint(0, 300, 3, dtype=gb.uint8)
    assert gb.randn(3, dtype=gb.float16).dtype == gb.float16


def test_what_differs_by_intention_is_a_name_of_the_table():
    assert positions.DIFFERENT.keys() <= positions.FUNCTIONS.keys()
