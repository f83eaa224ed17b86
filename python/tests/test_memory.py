"""Memory over time: training does not take more of it step by step, and checkpoints take less of it at once."""

import ctypes
import gc
import os
import sys

import numpy as np
import pytest

import gabbro as gb
from gabbro import nn, optim

MEASURED = 10  # the step after which nothing may grow


class Net(nn.Module):
    """Of each kind of thing that a step changes: weights, running moments, the key of a dropout."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(2 * 2 * 2, 3)

    def forward(self, images):
        x = self.features(images)  # [N, 2, 2, 2]
        return self.classifier(self.dropout(x.reshape(x.shape[0], -1)))  # [N, 3]


def net_of(device):
    """The simulator takes a millisecond for a launch: it gets the smallest net that has all three."""
    if device.name == "cpu":
        return Net()
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3), nn.Dropout(0.1))


class HeapCounts(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def heap_bytes():
    """What malloc has given out and not got back, in all threads."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = HeapCounts
    counts = mallinfo2()
    return counts.uordblks + counts.hblkhd


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(device):
    gc.collect()
    stats = device.memory_stats()
    return {
        "device": stats["allocated_bytes"],
        "device pieces": stats["allocations"] - stats["frees"],
        "reserved": stats["reserved_bytes"],
        "heap": heap_bytes(),
        "objects": sys.getallocatedblocks(),
        "resident": resident_bytes(),
    }


# The simulator, like every GPU, keeps the last 64 lists of launches as graphs; how many different ones a loop has
# depends on the addresses of its tensors. So its heap is first measured when that many are there.
@pytest.mark.parametrize(("name", "steps", "heap_from"), [("cpu", 1000, MEASURED), ("sim:0", 400, 150)])
def test_many_steps_of_training_take_no_more_memory_than_ten(name, steps, heap_from, device_named):
    device = device_named(name)
    gb.seed(0)
    rng = np.random.default_rng(0)
    model = net_of(device)
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    if name == "cpu":
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    loss_function = nn.CrossEntropyLoss()
    total, before = 0.0, {}
    for step in range(1, steps + 1):
        images = gb.tensor(rng.random((3, 1, 4, 4), np.float32))
        classes = gb.tensor(rng.integers(0, 3, 3, np.int32))
        loss = loss_function(model(images), classes)
        loss.backward()
        if name == "cpu":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        total += loss.item()
        if step == MEASURED:
            before = measured(device)
        if step == heap_from:
            before |= {what: value for what, value in measured(device).items() if what in ("heap", "resident")}
    after = measured(device)
    grown = {what: after[what] - before[what] for what in before}
    assert np.isfinite(total)
    assert grown["device pieces"] == 0, grown
    assert max(grown["device"], grown["reserved"]) < 64 * 16, f"malloc may give a piece some bytes more: {grown}"
    assert grown["objects"] < (steps - MEASURED) / 2, f"Python keeps an object of most steps: {grown}"
    assert grown["heap"] < 16 * (steps - heap_from), f"less than malloc's smallest piece for each step: {grown}"
    assert grown["resident"] < 1 << 20, grown


class Layer(nn.Module):
    """Of a transformer, with its norms first."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = gb.permute(qkv, (2, 0, 3, 1, 4))  # [B, H, T, D]
        y = gb.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(gb.permute(y, (0, 2, 1, 3)).reshape(batch, tokens, width))
        return x + self.down(gb.gelu(self.up(self.norms[1](x))))


def encoder_layer(width, heads):
    return nn.TransformerEncoderLayer(width, heads, dropout=0.0)


@pytest.mark.parametrize("layer_of", [Layer, encoder_layer])
def test_checkpoints_take_most_of_the_memory_of_24_layers_away(layer_of):
    layers = [layer_of(32, 4) for _ in range(24)]
    for layer in layers:
        layer.parameters()  # initial values are drawn when they are read first
    x = gb.randn(4, 64, 32).eval()
    cpu = gb.get_device()

    def peak(run):
        for layer in layers:
            layer.zero_grad()
        gc.collect()
        (gb.ones(3) + 1).eval()
        cpu.reset_memory_stats()
        before = cpu.memory_stats()["allocated_bytes"]
        y = x
        for layer in layers:
            y = run(layer, y)
        loss = y.square().mean()
        loss.backward()
        gradients = [parameter.grad for layer in layers for parameter in layer.parameters()]
        gb.eval(loss, gradients)
        return cpu.memory_stats()["allocated_bytes_peak"] - before, loss.item(), gradients[0].numpy().copy()

    # In this order: the arena that the second needs stays, and would hide what the first needs.
    recomputed, loss, gradient = peak(lambda layer, y: gb.checkpoint(layer)(y))
    stored, expected_loss, expected_gradient = peak(lambda layer, y: layer(y))
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-6)
    assert recomputed <= 0.4 * stored


def test_a_gradient_that_is_looked_at_is_not_dropped():
    gb.synchronize()
    weight = gb.nn.Parameter(gb.rand(256, 256))
    gb.matmul(weight, weight).sum().backward()
    pending = gb._core._pending_work()
    for _ in range(3):
        assert weight.grad is not None
    assert gb._core._pending_work() == pending  # the objects go away, the gradient stays
    gb.synchronize()
    assert "0 launches" in gb.explain(lambda: weight.grad)
