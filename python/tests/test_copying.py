"""Copies and pickles of tensors, modules, optimizers and schedulers, with torch's rules for what is shared."""

import copy
import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gabbro as gb
from gabbro import nn


def pickled(protocol):
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


METHODS = [copy.deepcopy, *(pickled(protocol) for protocol in range(2, 6))]
NAMES = ["deepcopy", *(f"pickle{protocol}" for protocol in range(2, 6))]
methods = pytest.mark.parametrize("copied", METHODS, ids=NAMES)

IMAGE = (2, 4, 8, 8)
LAYERS = {
    "Linear": (lambda: nn.Linear(3, 2, bias=False), (4, 3)),
    "Linear f16": (lambda: nn.Linear(3, 2).to(gb.float16), None),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), None),
    "Embedding": (lambda: nn.Embedding(5, 3, padding_idx=1), None),
    "Linear q4_0": (lambda: nn.Linear(nn.Linear(64, 2), "q4_0"), (1, 64)),
    "Identity": (nn.Identity, (3,)),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 3, padding="same", padding_mode="reflect"), (2, 4, 9)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2), IMAGE),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2, dilation=2, bias=False), (1, 1, 5, 5, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), IMAGE),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, stride=1, padding=1), IMAGE),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, padding=1, count_include_pad=False), IMAGE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 5)), IMAGE),
    "Upsample": (lambda: nn.Upsample(scale_factor=(0.7, 1.3), mode="bilinear"), IMAGE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4, eps=0.1, momentum=None), IMAGE),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4, affine=False, track_running_stats=False), (3, 4)),
    "LayerNorm": (lambda: nn.LayerNorm((4, 8), eps=0.1, bias=False), (2, 4, 8)),
    "RMSNorm": (lambda: nn.RMSNorm(8, eps=0.1), IMAGE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4, eps=0.1), IMAGE),
    "Dropout": (lambda: nn.Dropout(1.0), (5,)),
    "Dropout2d": (lambda: nn.Dropout2d(1.0), IMAGE),
    "GELU": (lambda: nn.GELU("tanh"), (5,)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.3), (5,)),
    "Softmax": (lambda: nn.Softmax(0), (5, 2)),
    "Softplus": (lambda: nn.Softplus(2.0, 3.0), (5,)),
    "Hardtanh": (lambda: nn.Hardtanh(-0.5, 0.25), (5,)),
    "PReLU": (lambda: nn.PReLU(4), IMAGE),
    "Flatten": (lambda: nn.Flatten(1, 2), IMAGE),
    "RNN": (lambda: nn.RNN(3, 4, nonlinearity="relu"), (5, 2, 3)),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True, batch_first=True), (5, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4, bias=False), (5, 2, 3)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, kdim=3, vdim=5), None),
    "EncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", norm_first=True), (3, 2, 4)),
    "DecoderLayer": (lambda: nn.TransformerDecoderLayer(4, 2, 8), None),
    "Encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2), (3, 2, 4)),
    "MSELoss": (lambda: nn.MSELoss(reduction="sum"), None),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(weight=gb.ones(3)), None),
    "ModuleList": (lambda: nn.ModuleList([nn.Linear(2, 2), nn.ReLU()]), None),
    "ModuleDict": (lambda: nn.ModuleDict({"a": nn.Linear(2, 2)}), None),
}


def state_of(module):
    return {name: (value.dtype, value.tolist()) for name, value in module.state_dict().items()}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled(4)], ids=["deepcopy", "pickle"])
def test_layers(name, copied):
    make, shape = LAYERS[name]
    layer = make()
    if shape is not None:
        x = gb.tensor(np.linspace(-1, 1, int(np.prod(shape)), dtype="f4").reshape(shape))
        layer(x)  # moves the running moments
    other = copied(layer)
    assert type(other) is type(layer) and repr(other) == repr(layer)
    assert state_of(other) == state_of(layer)
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in layer.named_parameters()]
    assert [n for n, _ in other.named_modules()] == [n for n, _ in layer.named_modules()]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in other.parameters())
    for mode in (True, False):
        layer.train(mode)
        other.train(mode)
        if shape is not None:
            assert first(other(x)).tolist() == first(layer(x)).tolist()


def test_every_layer_is_among_these():
    kinds = {type(inner) for make, _ in LAYERS.values() for inner in make().modules()}
    alike = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)} - {kind.__name__ for kind in kinds}
    for name in sorted(alike - {"Module", "Layer", "Parameter", "Sequential"}):
        kind = getattr(nn, name)
        if not issubclass(kind, nn.Module):
            continue
        try:
            layer = kind()
        except (TypeError, ValueError):
            layer = None
            layers = (nn.TransformerDecoderLayer(4, 2, 8), 1), (nn.ReLU(),)
            for arguments in ((2,), (2, 2), (2, 2, 2), (1, (2, 2)), *layers):
                try:
                    layer = kind(*arguments)
                    break
                except (TypeError, ValueError):
                    continue
        assert layer is not None, name
        assert repr(copy.deepcopy(layer)) == repr(layer) == repr(pickle.loads(pickle.dumps(layer)))


class Tied(nn.Module):
    """A parameter that a layer of C++ has as well, a module in two places, buffers and attributes."""

    def __init__(self):
        super().__init__()
        embed = nn.Embedding(5, 3)
        self.weight = embed.weight
        self.embed = embed
        self.free = nn.Parameter(gb.tensor([2.0]))
        self.same = self.free
        self.frozen = nn.Parameter(gb.tensor([1.0]), requires_grad=False)
        self.register_buffer("mean", gb.tensor([0.5]))
        self.register_buffer("scratch", gb.tensor([0.25]), persistent=False)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Dropout(0.1)])
        self.again = self.layers[0]
        self.names = ["a", {"b": self}]
        self.plain = gb.tensor([7.0])
        self.size = 3

    def forward(self, ids):
        x = self.again(self.embed(ids)) * self.free
        return x @ self.weight.T


@methods
def test_shared_parameters_and_modules_stay_shared(copied):
    model = Tied()
    model.layers.eval()
    other = copied(model)
    assert other.weight is other.embed.weight and other.same is other.free
    assert other.again is other.layers[0] and other.names[1]["b"] is other
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert list(other.state_dict()) == list(model.state_dict())
    assert other.training and not other.layers.training and not other.again.training
    assert not other.frozen.requires_grad and other.size == 3 and other.plain.tolist() == [7.0]
    assert [n for n, _ in other.named_buffers()] == ["mean", "scratch"] and "scratch" not in other.state_dict()
    other.mean = gb.tensor([9.0])
    other.plain[0] = 8.0
    assert model.mean.tolist() == [0.5] and model.plain.tolist() == [7.0]


@methods
def test_a_copy_trains_alone_and_as_the_model_would(copied):
    gb.seed(3)
    model = Tied()
    ids = gb.tensor([[0, 1, 4]])
    other = copied(model)
    before = state_of(model)
    losses = []
    for net in (other, model):
        optimizer = gb.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            loss = (net(ids) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        if net is other:
            assert state_of(model) == before
    assert losses[0] == losses[1] and state_of(other) == state_of(model) != before
    assert other.weight.tolist() == other.embed.weight.tolist()


def test_a_copy_draws_no_random_numbers_and_is_freed():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    gb.seed(1)
    expected = gb.rand(3).tolist()
    gb.seed(1)
    copy.deepcopy(model)
    pickle.loads(pickle.dumps(model))
    assert gb.rand(3).tolist() == expected
    gc.collect()
    alive = sum(isinstance(item, nn.Module) for item in gc.get_objects())
    for _ in range(5):
        copy.deepcopy(model)
    gc.collect()
    assert sum(isinstance(item, nn.Module) for item in gc.get_objects()) <= alive


def test_a_shallow_copy_shares_parameters():
    model = Tied()
    del model.embed, model.weight  # a layer of C++ is shared as a whole
    other = copy.copy(model)
    assert other is not model and other.free is model.free and other.layers is model.layers
    other.size = 4
    assert model.size == 3
    assert repr(copy.copy(nn.ReLU())) == "ReLU()"
    with pytest.raises(TypeError, match="deepcopy"):
        copy.copy(nn.Linear(2, 2))


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(gb.ones(2))
        self.cache = {"big": 1}

    def __getstate__(self):
        state = super().__getstate__()
        del state["cache"]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.cache = {}


class Wide(nn.Linear):
    def __init__(self, factor):
        super().__init__(2, 2 * factor)
        self.factor = factor
        self.gain = nn.Parameter(gb.tensor([3.0]))


@methods
def test_classes_of_users(copied):
    chosen = copied(Chosen())
    assert chosen.cache == {} and [n for n, _ in chosen.named_parameters()] == ["weight"]
    wide = Wide(3)
    other = copied(wide)
    assert type(other) is Wide and other.factor == 3 and state_of(other) == state_of(wide)
    assert [n for n, _ in other.named_parameters()] == ["weight", "bias", "gain"]


@methods
def test_tensors_and_parameters(copied):
    x = copied(gb.tensor([1.0, 2.0]))
    assert x.tolist() == [1.0, 2.0] and not x.requires_grad
    for dtype in (gb.float16, gb.bfloat16, gb.int64, gb.bool):
        y = copied(gb.ones((2, 0, 3), dtype=dtype))
        assert y.dtype == dtype and y.shape == (2, 0, 3)
    leaf = copied(gb.tensor([1.0]).requires_grad_())
    assert leaf.requires_grad and leaf.is_leaf
    weight = nn.Parameter(gb.tensor([1.0]))
    (weight * 2).sum().backward()
    other = copied(weight)
    assert type(other) is nn.Parameter and other.requires_grad and other.grad is None  # as in torch
    pair = copied([x, x])
    assert pair[0] is pair[1]
    layer = nn.Linear(2, 2)
    alone = copied(layer.weight)
    assert type(alone) is nn.Parameter and alone is not layer.weight and alone.tolist() == layer.weight.tolist()


def test_a_deepcopy_of_a_leaf_has_its_gradient_and_of_a_result_there_is_none():
    leaf = gb.tensor([1.0]).requires_grad_()
    (leaf * 3).sum().backward()
    other = copy.deepcopy(leaf)
    assert other.grad.tolist() == [3.0]
    other.grad = None
    assert leaf.grad.tolist() == [3.0]
    with pytest.raises(ValueError, match="detach"):
        copy.deepcopy(leaf * 2)
    array = np.ones(2, "f4")
    shared = copy.deepcopy(gb.asarray(array))
    array[0] = 5
    assert shared.tolist() == [1.0, 1.0]


OPTIMIZERS = [
    lambda p: gb.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: gb.optim.Adam(p, lr=0.1, amsgrad=True),
    lambda p: gb.optim.AdamW([{"params": list(p), "lr": 0.05, "weight_decay": 0.1}]),
    lambda p: gb.optim.Lion(p),
    lambda p: gb.optim.Adagrad(p),
    lambda p: gb.optim.RMSprop(p, centered=True, momentum=0.5),
]


@methods
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_optimizers_go_on_with_the_copied_parameters(copied, make):
    model = nn.Linear(2, 1)
    x = gb.tensor([[1.0, 2.0]])
    optimizer = make(model.parameters())
    scheduler = gb.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(model, optimizer, scheduler):
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
        scheduler.step()

    step(model, optimizer, scheduler)
    others = copied((model, optimizer, scheduler))
    assert others[1].param_groups[0]["params"][0] is others[0].weight and others[2].optimizer is others[1]
    before = state_of(model)
    for _ in range(2):
        step(*others)
    assert state_of(model) == before
    for _ in range(2):
        step(model, optimizer, scheduler)
    assert state_of(others[0]) == state_of(model) != before
    assert others[2].get_last_lr() == scheduler.get_last_lr() and repr(others[1]) == repr(optimizer)
    again = make(model.parameters())
    again.load_state_dict(others[1].state_dict())
    for state in others[1].state_dict()["state"].values():
        assert state["step"].item() == 3


def halved(step):
    return 0.5**step


@methods
def test_schedulers(copied):
    lr = gb.optim.lr_scheduler
    makes = [
        lambda o: lr.LambdaLR(o, halved),
        lambda o: lr.OneCycleLR(o, 1.0, 10),
        lambda o: lr.OneCycleLR(o, 1.0, 10, cycle_momentum=False),
        lambda o: lr.CosineAnnealingWarmRestarts(o, 3),
        lambda o: lr.SequentialLR(o, [lr.LinearLR(o), lr.ExponentialLR(o, 0.9)], [2]),
    ]
    for make in makes:
        scheduler = make(gb.optim.SGD([nn.Parameter(gb.ones(1))], lr=0.1))
        scheduler.step()
        other = copied(scheduler)
        for _ in range(4):
            scheduler.step()
            other.step()
        assert other.get_last_lr() == scheduler.get_last_lr()
    plateau = lr.ReduceLROnPlateau(gb.optim.SGD([nn.Parameter(gb.ones(1))], lr=0.1), patience=1)
    plateau.step(1.0)
    plateau.step(2.0)
    other = copied(plateau)
    other.step(2.0)
    assert other.get_last_lr() == [pytest.approx(0.01)] and plateau.get_last_lr() == [0.1]
    scaler = gb.GradScaler(8.0)
    assert copied(scaler).get_scale() == 8.0


def test_pickles_cross_processes():
    gb.seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU())
    model.eval()
    optimizer = gb.optim.Adam(model.parameters())
    program = """
import pickle, sys
model, optimizer = pickle.load(sys.stdin.buffer)
import gabbro as gb
sys.stdout.buffer.write(pickle.dumps((model, optimizer, model(gb.ones((1, 3))))))
"""
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps((model, optimizer)), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    other, its_optimizer, y = pickle.loads(done.stdout)
    assert state_of(other) == state_of(model) and not other.training
    assert its_optimizer.param_groups[0]["params"][0] is other[0].weight
    assert y.tolist() == model(gb.ones((1, 3))).tolist()


def test_what_is_no_state_is_refused():
    from gabbro import _unpickle
    from gabbro.nn import copying

    good = copying._members(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="class of modules"):
        copying.rebuilt(dict, {}, good)
    with pytest.raises(TypeError, match="arguments"):
        copying.rebuilt(nn.Linear, [], good)
    with pytest.raises(ValueError, match="members"):
        copying.rebuilt(nn.Linear, {"in_features": 2, "out_features": 2}, {"tensors": []})
    with pytest.raises(ValueError, match="does not fit"):
        copying.rebuilt(nn.Linear, {"in_features": 3, "out_features": 2}, good)
    with pytest.raises(ValueError, match="no tensor"):
        copying.rebuilt(nn.ReLU, {}, good)
    for state in (None, 5, {1: 2}):
        with pytest.raises(TypeError, match="state"):
            nn.Linear(2, 2).__setstate__(state)
    with pytest.raises(ValueError, match="state"):
        gb.optim.SGD([nn.Parameter(gb.ones(1))]).__setstate__({})
    with pytest.raises(ValueError, match="no parameter"):
        _unpickle.place(nn.Linear(2, 2), "forward")
