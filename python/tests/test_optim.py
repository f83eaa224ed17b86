"""Optimizers, their schedules, mixed precision; and that a loop of training plans once."""

import copy

import numpy as np
import pytest

import gabbro as gb
from gabbro import nn

OPTIMIZERS = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}],
    "Adam": [{"lr": 0.1}, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.9)}],
    "AdamW": [{"lr": 0.1, "weight_decay": 0.1}],
    "Adagrad": [{"lr": 0.1, "lr_decay": 0.1}],
    "RMSprop": [{"lr": 0.1, "momentum": 0.5, "centered": True}],
}


def minimized(optimizer, weight, steps=5):
    for _ in range(steps):
        (weight * weight * weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_agree_with_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    start = np.array([1.0, -2.0, 0.5], np.float32)
    for options in OPTIMIZERS[name]:
        ours, theirs = nn.Parameter(gb.tensor(start)), torch.nn.Parameter(torch.from_numpy(start.copy()))
        minimized(getattr(gb.optim, name)([ours], **options), ours)
        minimized(getattr(torch.optim, name)([theirs], **options), theirs)
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5, err_msg=str(options))


def test_steps_of_known_values():
    # For w = 1 with the gradient 2: the formulas of the papers by hand.
    expected = {
        "SGD": ({"lr": 0.25}, 0.5),
        "Adam": ({"lr": 0.25}, 0.75),
        "AdamW": ({"lr": 0.25, "weight_decay": 0.5}, 0.625),
        "Lion": ({"lr": 0.25}, 0.75),
        "Adagrad": ({"lr": 0.25}, 0.75),
        "RMSprop": ({"lr": 0.25, "alpha": 0.75}, 0.5),
    }
    for name, (options, value) in expected.items():
        weight = nn.Parameter(gb.tensor([1.0]))
        optimizer = getattr(gb.optim, name)([weight], **options)
        (2 * weight).sum().backward()
        optimizer.step()
        np.testing.assert_allclose(weight.numpy(), [value], rtol=1e-6, err_msg=name)
        assert weight.grad.tolist() == [2.0] and weight.requires_grad


def test_a_loop_of_training_plans_once():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(36, 3)
    )
    optimizer = gb.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = gb.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    plans = []
    for step in range(6):
        x, target = gb.tensor(np.full((8, 1, 5, 5), step, np.float32)), gb.tensor(np.arange(8) % 3, dtype=gb.int32)
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        before = gb._core._plans_made()
        assert np.isfinite(loss.item()) and np.isfinite(model[1].running_var.numpy()).all()
        assert gb._core._plans_made() == before  # the step has computed them
        plans.append(before)
    assert plans[1:] == [plans[1]] * 5


def test_groups():
    first, second = nn.Parameter(gb.tensor([1.0])), nn.Parameter(gb.tensor([1.0]))
    optimizer = gb.optim.SGD([{"params": [first], "lr": 0.5}, {"params": second}], lr=0.25)
    (first + second).sum().backward()
    optimizer.step()
    assert (first.item(), second.item()) == (0.5, 0.75)
    optimizer.zero_grad()
    optimizer.param_groups[1]["lr"] = 1.0
    (first + second).sum().backward()
    optimizer.step()
    assert (first.item(), second.item()) == (0.0, -0.25)
    with pytest.raises(ValueError, match="betas"):
        gb.optim.SGD([{"params": [first], "betas": (0.5, 0.9)}])
    with pytest.raises(ValueError, match="twice"):
        gb.optim.SGD([first, first])
    with pytest.raises(ValueError, match="no parameters"):
        gb.optim.SGD([])


def test_a_state_goes_on_where_it_was():
    weights = [nn.Parameter(gb.tensor([1.0, 2.0])) for _ in range(2)]
    optimizers = [gb.optim.Adam([weight], lr=0.1) for weight in weights]
    minimized(optimizers[0], weights[0], 3)
    state = optimizers[0].state_dict()
    assert sorted(state["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    optimizers[1].load_state_dict(state)
    with gb.no_grad():
        weights[1] *= 0
        weights[1] += weights[0].detach()
    for optimizer, weight in zip(optimizers, weights, strict=True):
        minimized(optimizer, weight, 2)
    np.testing.assert_array_equal(weights[0].numpy(), weights[1].numpy())
    broken = copy.copy(state) | {"state": {0: {"step": gb.tensor(1.0)}}}
    with pytest.raises(ValueError, match="exp_avg"):
        optimizers[1].load_state_dict(broken)


SCHEDULES = {
    "StepLR": (2, 0.5),
    "MultiStepLR": ([1, 4], 0.5),
    "ConstantLR": (0.5, 3),
    "LinearLR": (0.5, 1.0, 4),
    "ExponentialLR": (0.9,),
    "PolynomialLR": (6, 2.0),
    "CosineAnnealingLR": (5, 0.1),
    "CosineAnnealingWarmRestarts": (3, 2, 0.1),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_agree_with_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rates = []
    for library, tensor in ((gb, gb.ones(1)), (torch, torch.ones(1))):
        optimizer = library.optim.SGD([library.nn.Parameter(tensor)], lr=1.0)
        scheduler = getattr(library.optim.lr_scheduler, name)(optimizer, *SCHEDULES[name])
        rates.append([])
        for _ in range(9):
            rates[-1].append(scheduler.get_last_lr()[0])
            optimizer.step()
            scheduler.step()
    np.testing.assert_allclose(*rates, rtol=1e-9)


def test_schedules_of_known_values():
    lr = gb.optim.lr_scheduler

    def rates(make, steps=4):
        optimizer = gb.optim.SGD([nn.Parameter(gb.ones(1))], lr=1.0)
        scheduler = make(optimizer)
        result = []
        for _ in range(steps):
            result.append(scheduler.get_last_lr()[0])
            scheduler.step()
        return result

    assert rates(lambda o: lr.StepLR(o, 2, 0.5)) == [1.0, 1.0, 0.5, 0.5]
    assert rates(lambda o: lr.LambdaLR(o, lambda step: 1 / (1 + step))) == [1.0, 1 / 2, 1 / 3, 1 / 4]
    first_then = lambda o: lr.SequentialLR(o, [lr.ConstantLR(o, 0.5, 9), lr.ExponentialLR(o, 0.5)], [2])  # noqa: E731
    assert rates(first_then) == [0.5, 0.5, 1.0, 0.5]
    optimizer = gb.optim.SGD([nn.Parameter(gb.ones(1))], lr=1.0)
    plateau = lr.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    for _ in range(4):
        plateau.step(1.0)
    assert plateau.get_last_lr() == [0.5]


def test_clipping():
    weight = nn.Parameter(gb.tensor([1.0, 1.0]))
    (weight * gb.tensor([3.0, -4.0])).sum().backward()
    assert nn.utils.clip_grad_norm_([weight], 10.0).item() == 5.0
    assert weight.grad.tolist() == [3.0, -4.0]
    nn.utils.clip_grad_value_([weight], 3.5)
    assert weight.grad.tolist() == [3.0, -3.5]


def test_autocast():
    layer, x = nn.Linear(4, 3), gb.ones((2, 4))
    with gb.autocast(gb.bfloat16):
        assert layer(x).dtype == gb.bfloat16
        with gb.autocast(enabled=False):
            assert layer(x).dtype == gb.float32

    @gb.autocast("float16")
    def half(y):
        return layer(y)

    assert half(x).dtype == gb.float16 and layer(x).dtype == gb.float32
    with pytest.raises(ValueError):
        gb.autocast(gb.float64).__enter__()
    half(x).sum().backward()
    assert layer.weight.grad.dtype == gb.float32


def test_steps_that_overflow_are_left_out():
    weight = nn.Parameter(gb.tensor([1.0]))
    optimizer, scaler = gb.optim.SGD([weight], lr=0.5), gb.GradScaler(init_scale=8.0, growth_interval=1)
    for factor, value, scale in ((np.inf, 1.0, 4.0), (1.0, 0.5, 8.0), (1.0, 0.0, 16.0)):
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert (weight.item(), scaler.get_scale()) == (value, scale)


def test_eval_takes_modules_and_optimizers():
    model = nn.Linear(2, 1)
    optimizer = gb.optim.Adam(model.parameters())
    loss = model(gb.ones((1, 2))).sum()
    gb.eval(model, optimizer, [loss])
    assert np.isfinite(loss.item())
