"""Arguments that make no sense are refused, and what torch accepts is accepted."""

import math

import pytest

import gabbro as gb
from gabbro import nn

F = nn.functional
NOT_PROBABILITIES = [1.5, -1.0, -1e-9, math.nan, math.inf]


@pytest.mark.parametrize("p", NOT_PROBABILITIES)
def test_probabilities(p):
    x = gb.ones((2, 3, 4))
    calls = [
        lambda: F.dropout(x, p),
        lambda: F.dropout(x, p, training=False),
        lambda: F.dropout2d(x, p),
        lambda: nn.Dropout(p),
        lambda: nn.Dropout2d(p),
        lambda: nn.LSTM(2, 2, 2, dropout=p),
        lambda: nn.GRU(2, 2, 2, dropout=p),
        lambda: nn.RNN(2, 2, 2, dropout=p),
        lambda: nn.MultiheadAttention(2, 1, dropout=p),
        lambda: nn.TransformerEncoderLayer(2, 1, 2, dropout=p),
        lambda: nn.TransformerDecoderLayer(2, 1, 2, dropout=p),
        lambda: F.cross_entropy(gb.ones((2, 3)), gb.tensor([0, 1]), label_smoothing=p),
        lambda: nn.CrossEntropyLoss(label_smoothing=p)(gb.ones((2, 3)), gb.tensor([0, 1])),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()


def test_the_ends_are_probabilities():
    assert F.dropout(gb.ones(3), 1.0).tolist() == [0.0] * 3
    assert F.dropout(gb.ones(3), 0.0).tolist() == [1.0] * 3
    assert F.dropout(gb.ones(3), 1).tolist() == [0.0] * 3


def parameter():
    return nn.Parameter(gb.ones(1))


def test_optimizers_take_leaves_that_need_gradients():
    p = parameter()
    sgd = gb.optim.SGD
    for bad in ([p * 2], [p[:1]], [gb.ones(1)], [], [p, p], [{"params": [p]}, {"params": [p]}], iter([p * 2])):
        with pytest.raises(ValueError):
            sgd(bad, lr=0.1)
    for bad in (p, {p}, ["p"], [None], [p, 1.0], [[p]]):
        with pytest.raises(TypeError):
            sgd(bad, lr=0.1)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    sgd(model.parameters(), lr=0.1)  # frozen ones may be there
    sgd([nn.Parameter(gb.ones(1), requires_grad=False)], lr=0.1)
    sgd([gb.ones(1).requires_grad_()], lr=0.1)
    sgd((q for q in model.parameters()), lr=0.1)
    before = model[0].weight.tolist()
    optimizer = sgd(model.parameters(), lr=0.1)
    model(gb.ones((1, 2))).sum().backward()
    optimizer.step()
    assert model[0].weight.tolist() == before


@pytest.mark.parametrize(
    "name, argument, values",
    [
        (name, argument, values)
        for argument, values, names in [
            ("lr", [-1.0, math.nan, math.inf], "SGD Adam AdamW Lion Adagrad RMSprop"),
            ("weight_decay", [-1.0, math.nan, math.inf], "SGD Adam AdamW Lion Adagrad RMSprop"),
            ("eps", [-1.0, math.nan, math.inf], "Adam AdamW Adagrad RMSprop"),
            ("betas", [(-0.1, 0.9), (0.9, 1.0), (math.nan, 0.9), (0.9, -1.0)], "Adam AdamW Lion"),
            ("momentum", [-1.0, math.nan, math.inf], "SGD RMSprop"),
            ("dampening", [math.nan, math.inf], "SGD"),
            ("alpha", [-1.0, math.nan], "RMSprop"),
            ("lr_decay", [-1.0, math.nan], "Adagrad"),
            ("initial_accumulator_value", [-1.0, math.nan], "Adagrad"),
        ]
        for name in names.split()
    ],
)
def test_numbers_of_optimizers(name, argument, values):
    for value in values:
        with pytest.raises(ValueError):
            getattr(gb.optim, name)([parameter()], **{argument: value})
        if argument in ("lr", "weight_decay"):
            with pytest.raises(ValueError):
                getattr(gb.optim, name)([{"params": [parameter()], argument: value}])
    with pytest.raises((TypeError, ValueError)):
        getattr(gb.optim, name)([parameter()], **{argument: "much"})


def test_nesterov_wants_a_momentum_and_no_dampening():
    for options in ({}, {"momentum": 0.9, "dampening": 0.1}):
        with pytest.raises(ValueError, match="Nesterov"):
            gb.optim.SGD([parameter()], lr=0.1, nesterov=True, **options)


SCHEDULERS = {
    "ConstantLR": [{"factor": 1.5}, {"factor": -0.1}, {"factor": math.nan}, {"total_iters": -1}],
    "LinearLR": [{"start_factor": 0.0}, {"start_factor": 1.5}, {"end_factor": -1.0}, {"end_factor": 2.0},
                 {"total_iters": 0}],
    "StepLR": [{"step_size": 0}, {"step_size": -1}, {"step_size": 1, "gamma": math.nan}],
    "MultiStepLR": [{"milestones": [-1]}, {"milestones": [1], "gamma": -1.0}],
    "ExponentialLR": [{"gamma": math.nan}, {"gamma": -1.0}],
    "PolynomialLR": [{"total_iters": 0}, {"power": math.nan}],
    "CosineAnnealingLR": [{"T_max": 0}, {"T_max": 3, "eta_min": math.nan}],
    "CosineAnnealingWarmRestarts": [{"T_0": 0}, {"T_0": 3, "T_mult": 0}],
    "OneCycleLR": [{"max_lr": 1.0, "total_steps": 0}, {"max_lr": 1.0, "total_steps": 5, "pct_start": 1.5},
                   {"max_lr": math.nan, "total_steps": 5}, {"max_lr": 1.0, "total_steps": 5, "div_factor": 0.0}],
    "ReduceLROnPlateau": [{"factor": 1.0}, {"mode": "least"}, {"patience": -1}, {"cooldown": -1},
                          {"min_lr": -1.0}, {"threshold": math.nan}],
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULERS)
def test_arguments_of_schedulers(name):
    kind = getattr(gb.optim.lr_scheduler, name)
    optimizer = gb.optim.SGD([parameter()], lr=0.1)
    for options in SCHEDULERS[name]:
        with pytest.raises(ValueError):
            kind(optimizer, **options)
    needed = {"StepLR": [1], "MultiStepLR": [[1]], "ExponentialLR": [0.5], "CosineAnnealingLR": [3],
              "CosineAnnealingWarmRestarts": [3], "OneCycleLR": [1.0, 5]}.get(name, [])  # fmt: skip
    kind(optimizer, *needed)
    with pytest.raises(TypeError):
        kind([parameter()], *needed)
    if name in ("StepLR", "CosineAnnealingLR"):
        with pytest.raises(TypeError):
            kind(optimizer, 1.5)


def test_sequences_of_schedulers():
    lr = gb.optim.lr_scheduler
    optimizer, other = (gb.optim.SGD([parameter()], lr=0.1) for _ in range(2))
    one, two = lr.ConstantLR(optimizer), lr.ExponentialLR(optimizer, 0.9)
    for schedulers, milestones in (([one], [1]), ([one, two, one], [3, 1]), ([one, lr.ConstantLR(other)], [1])):
        with pytest.raises(ValueError):
            lr.SequentialLR(optimizer, schedulers, milestones)


def with_gradients(*gradients):
    weights = [nn.Parameter(gb.zeros(len(gradient))) for gradient in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        (weight * gb.tensor(gradient)).sum().backward()
    return weights


def test_norms_of_gradients():
    clip = nn.utils.clip_grad_norm_
    for parameters in (nn.Linear(2, 2).parameters(), [], iter([]), parameter()):
        norm = clip(parameters, 1.0)
        assert norm.item() == 0.0 and norm.shape == () and norm.dtype == gb.float32
        assert clip([], 1.0, error_if_nonfinite=True).item() == 0.0
    cases = [(2.0, 5.0, 0.2), (math.inf, 4.0, 0.25), (1.0, 7.0, 1 / 7), (3.0, 91 ** (1 / 3), 91 ** (-1 / 3))]
    for power, expected, factor in cases:
        weights = with_gradients([3.0], [0.0, -4.0])
        norm = clip((weight for weight in [*weights, parameter()]), 1.0, norm_type=power)
        assert norm.item() == pytest.approx(expected, rel=1e-6)
        assert weights[0].grad.item() == pytest.approx(3 * factor, rel=1e-5)
        assert weights[1].grad.tolist() == pytest.approx([0, -4 * factor], rel=1e-5)
    for options in ({"max_norm": -1.0}, {"max_norm": math.nan}, {"max_norm": 1.0, "norm_type": 0.0},
                    {"max_norm": 1.0, "norm_type": math.nan}):  # fmt: skip
        for parameters in (with_gradients([1.0]), []):
            with pytest.raises(ValueError):
                clip(parameters, **options)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_norm_that_is_not_finite(value):
    weights = with_gradients([value, 1.0], [2.0])
    with pytest.raises(RuntimeError, match="norm"):
        nn.utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)
    assert weights[1].grad.item() == 2.0
    norm = nn.utils.clip_grad_norm_(weights, 1.0).item()
    assert math.isnan(norm) if math.isnan(value) else norm == value
    finite = with_gradients([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(finite, 1.0, error_if_nonfinite=True).item() == 5.0
    assert finite[0].grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_values_of_gradients():
    weights = with_gradients([3.0, -4.0])
    nn.utils.clip_grad_value_(iter(weights), 3.5)
    assert weights[0].grad.tolist() == [3.0, -3.5]
    nn.utils.clip_grad_value_([], 1.0)
    nn.utils.clip_grad_value_(nn.Linear(1, 1).parameters(), 1.0)
    for bound in (-1.0, math.nan):
        with pytest.raises(ValueError):
            nn.utils.clip_grad_value_(weights, bound)
