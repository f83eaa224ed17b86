"""Several cards, their memory and their speed: sums of bytes and times of the same run."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

import helpers
import support
from choices import Again

MakeInputs = Callable[..., dict[str, Any]]
ALLOWED = 1 << 20  # bytes: caches of libraries


def check_devices(dtype: torch.dtype, size: str, make_inputs: MakeInputs) -> None:
    """Two cards give the same as one; a copy from card to card arrives unchanged."""
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip("fewer than two GPUs are visible")
    values = torch.arange(1 << 20, dtype=torch.int64, device="cuda:0")
    for index in range(1, count):
        equal = torch.equal(values.to(f"cuda:{index}").cpu(), values.cpu())
        assert equal, f"the copy from card 0 to card {index} is wrong"
    oracle, reference = support.make_oracle(dtype, size=size), support.make_reference(dtype, size=size)
    inputs = support.on_grid(make_inputs(oracle), dtype)
    exact, close = support.outputs(oracle, inputs), support.outputs(reference, inputs)
    for index in range(count):
        subject = support.make_subject(f"cuda:{index}", dtype, size=size)
        got = support.outputs(subject, inputs)
        for name, value in exact.items():
            again = Again(functools.partial(support.output, inputs, name), reference, oracle, subject)
            depth = support.depth_of(oracle)
            support.compare(f"card {index}: {name}", got[name], close[name], value, dtype, depth, again)


def check_leak(device: str, size: str, make_inputs: MakeInputs) -> None:
    """20 calls of varied lengths, after 5 to warm up, leave as much memory in use as before."""
    subject = support.make_subject(device, torch.float32, size=size)
    inputs = [make_inputs(subject, length=length) for length in (7, 12, 17, 9)]
    used = []
    for turn in range(25):
        support.outputs(subject, inputs[turn % len(inputs)])
        used.append(helpers.bytes_in_use(device))
    growth = used[-1] - used[4]
    assert growth <= ALLOWED, f"{growth} bytes more after 20 calls: {used}"


def check_cycles(device: str, size: str, make_inputs: MakeInputs) -> None:
    """Loading and dropping the model six times ends where it began."""
    used = []
    for _ in range(6):
        subject = support.make_subject(device, torch.float32, size=size)
        support.outputs(subject, make_inputs(subject))
        del subject
        gc.collect()
        used.append(helpers.bytes_in_use(device))
    growth = used[-1] - used[1]
    assert growth <= ALLOWED, f"{growth} bytes more after 4 cycles: {used}"


def check_peak(device: str, size: str, make_inputs: MakeInputs) -> None:
    """The high-water mark of a call is what is in use before it plus what the blocks' outputs explain."""
    if device == "cpu":
        pytest.skip("the CPU's allocator has no high-water mark")
    subject = support.make_subject(device, torch.float32, size=size)
    inputs = make_inputs(subject)
    support.outputs(subject, inputs)
    forecast = helpers.forecast_bytes(subject, inputs)
    before = helpers.bytes_in_use(device)  # weights, and what libraries keep
    torch.cuda.reset_peak_memory_stats(device)
    support.outputs(subject, inputs)
    peak = torch.cuda.max_memory_allocated(device) - before
    assert peak <= 1.3 * forecast + 64 * ALLOWED, f"peak {peak} bytes over {before}, forecast {forecast}"


def check_oom(device: str, make_inputs: MakeInputs) -> None:
    """Asking for too much raises, and the next small call works."""
    if device == "cpu":
        pytest.skip("a CPU's memory is not asked for in one piece")
    torch.cuda.set_per_process_memory_fraction(0.9, torch.device(device).index or 0)
    total = torch.cuda.get_device_properties(device).total_memory
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total, dtype=torch.uint8, device=device)
    subject = support.make_subject(device, torch.float32)
    assert support.outputs(subject, make_inputs(subject)), "no result after running out of memory"


def check_new_shape(device: str, size: str, make_inputs: MakeInputs) -> None:
    """The second call with a new shape takes at most 5 times a known shape's time (kernels compiled per shape)."""
    subject = support.make_subject(device, torch.float32, size=size)
    known, new = make_inputs(subject, length=12), make_inputs(subject, length=13)
    for inputs in (known, known, new):
        support.outputs(subject, inputs)
    usual = min(helpers.seconds(device, lambda: support.outputs(subject, known)) for _ in range(5))
    first = min(helpers.seconds(device, lambda: support.outputs(subject, new)) for _ in range(5))
    assert first <= 5 * usual + 0.01, f"{first:.4f} s for a new shape, {usual:.4f} s for a known one"


def check_speed_of_dtypes(device: str) -> None:
    """No data type is slower than a wider one in a large product."""
    if device == "cpu":
        pytest.skip("a CPU without matrix units for 16-bit types is slower in them")
    times = {}
    for name, dtype in support.DTYPES.items():
        square = torch.randn(4096, 4096, device=device).to(dtype)
        product = functools.partial(torch.matmul, square, square)
        helpers.seconds(device, product)
        times[name] = min(helpers.seconds(device, product) for _ in range(5))
    assert max(times["bf16"], times["f16"]) <= 1.1 * times["f32"], f"a 16-bit type is slower than f32: {times}"
