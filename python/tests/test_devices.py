"""Devices: their facts, memory and tuning, and the message without a device.

A class that serves every backend has the functions of `gabbro.backend.rocm`. They are tested on the simulator,
which runs the same host side as a card, and with rocm's own names for the errors; on a machine with a card also there.
"""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb
from gabbro import nn, optim
from gabbro.backend.gpu import MODEL_SIZES, GpuBackend

SIMULATOR = Path(gb._core.__file__).parents[2] / "lib" / "libgabbro_sim.so"  # in the folder of the build


@pytest.fixture(params=["sim", *(name for name in ("rocm", "cuda") if GpuBackend(name).is_available())])
def gpu(request, monkeypatch, tmp_path):
    """The functions of a backend whose first device is the default: what ``gabbro.backend.rocm`` has for ROCm."""
    name = request.param
    if name == "sim":
        if not SIMULATOR.exists():
            pytest.skip(f"{SIMULATOR} is not built")
        monkeypatch.setenv("GABBRO_PLUGIN_PATH", str(SIMULATOR.parent))
    monkeypatch.setenv("GABBRO_TUNING_FILE", str(tmp_path / "default.txt"))
    gb.set_device(f"{name}:0")
    device = gb.get_device()
    yield GpuBackend(name)
    device.set_tuning(measure=False, search=False, file="")
    device.clear_tuning()
    gc.collect()
    device.empty_cache()
    device.empty_cache(pinned=True)
    gb.set_device("cpu")


# The steps of PyFlame's page about ROCm, in the order of its sections.


def test_a_device_is_found_and_described(gpu):
    assert gpu.is_available() and gpu.get_device_count() >= 1
    info = gpu.get_device_info(0)
    assert info["device_id"] == 0 and info["type"] == gpu.name
    assert f"{info['name']} {info['architecture']}".strip()
    assert info["total_memory"] >= info["free_memory"] > 0
    assert info["compute_units"] > 0


def test_a_device_is_selected(gpu):
    gb.set_device(gpu.name)
    assert gpu.get_current_device() in range(gpu.get_device_count())
    gb.set_device(f"{gpu.name}:0")
    assert f"{gb.get_device()}" == f"{gpu.name}:0"
    assert gb.device_info() == gb.device_info(f"{gpu.name}:0")
    assert gb.device_info()["type"] == gpu.name
    gpu.set_device(0)
    assert gpu.get_current_device() == 0
    gb.set_device("cpu")
    assert gpu.get_current_device() == -1
    info = gb.device_info()
    assert info["type"] == "cpu" and info["cores"] >= 1 and info["name"]


def test_operations_run_there(gpu):
    c = gb.matmul(gb.randn(16, 24), gb.randn(24, 16))
    assert c.device == f"{gpu.name}:0" and c.shape == (16, 16)
    x = gb.randn(1000)
    for function in (gb.relu, gb.gelu, gb.silu, gb.sigmoid, gb.tanh):
        np.testing.assert_allclose(function(x).numpy(), function(x.to("cpu")).numpy(), rtol=1e-4, atol=1e-5)
    image, weight = gb.randn(2, 3, 14, 14), gb.randn(4, 3, 7, 7)
    y = gb.conv2d(image, weight, stride=2, padding=3)
    assert y.shape == (2, 4, 7, 7)
    gamma, beta, mean, var = gb.ones(4), gb.zeros(4), gb.zeros(4), gb.ones(4)
    y = gb.relu(gb.batch_norm(y, mean, var, gamma, beta, training=False))
    assert gb.softmax(y, dim=-1).shape == (2, 4, 7, 7)
    assert gb.batch_matmul(gb.ones((2, 3, 4)), gb.ones((2, 4, 5))).sum().item() == 2 * 3 * 5 * 4
    assert gb.transpose(gb.ones((2, 3))).shape == (3, 2)


def test_a_network_runs_and_learns_there(gpu):
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    x, targets = gb.randn(8, 20), gb.randint(0, 4, (8,))
    first = gb.cross_entropy(model(x), targets).item()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return self.layers(x)

    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    for _ in range(5):
        loss = gb.cross_entropy(net(x), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < first
    assert all(p.device == f"{gpu.name}:0" for p in net.parameters())


def test_synchronize_waits(gpu):
    x = gb.randn(32, 32)
    start = time.time()
    for _ in range(3):
        y = gb.matmul(x, x)
    gb.eval(y)
    gb.synchronize()
    gpu.synchronize()
    assert time.time() > start and y.shape == (32, 32)


def test_the_tuning_cache_searches_and_keeps_what_it_finds(gpu, tmp_path):
    path = tmp_path / "folder" / "miopen_cache.bin"
    cache = gpu.get_tuning_cache()
    cache.enable_exhaustive_search(True)
    cache.set_cache_file(path)
    stats = cache.get_stats()
    assert stats["measure"] and stats["search"] and stats["file"] == str(path) and not stats["problem"]
    assert stats["entries"] == stats["hits"] == 0
    x, w = gb.randn(1, 3, 6, 6), gb.randn(4, 3, 3, 3)
    expected = gb.conv2d(x.to("cpu"), w.to("cpu"), padding=1).numpy()
    for _ in range(2):
        np.testing.assert_allclose(gb.conv2d(x, w, padding=1).numpy(), expected, rtol=1e-4, atol=1e-5)
    stats = cache.get_stats()
    assert stats["entries"] == stats["measured"] == 1 and stats["misses"] == 1 and stats["seconds"] > 0
    (measured,) = cache.get_measurements()
    assert measured["shape"].startswith("conv f32") and measured["seconds"][measured["chosen"]] > 0
    assert len(measured["seconds"]) >= 2
    assert path.read_text().startswith("gabbro tuning 1\n") and "conv f32" in path.read_text()

    cache.enable_exhaustive_search(False)  # what was planned before is planned again, with what is known now
    gb.conv2d(x, w, padding=1).eval()
    assert cache.get_stats()["hits"] == 1
    cache.clear()
    stats = cache.get_stats()
    assert stats["entries"] == stats["hits"] == stats["misses"] == 0 and not stats["measure"]
    assert "conv f32" in path.read_text()
    cache.set_cache_file("")
    cache.set_cache_file(os.fspath(path))
    assert cache.get_stats()["entries"] == 1, "read from the file"


def test_a_cache_file_that_cannot_serve_is_refused(gpu, tmp_path):
    cache = gpu.get_tuning_cache()
    before = cache.get_stats()["file"]
    (tmp_path / "notes").write_text("milk, bread\n")
    with pytest.raises(RuntimeError, match="not one that this version of Gabbro wrote"):
        cache.set_cache_file(tmp_path / "notes")
    assert cache.get_stats()["file"] == before
    assert (tmp_path / "notes").read_text() == "milk, bread\n"
    cache.enable_exhaustive_search()
    with pytest.raises(RuntimeError, match="cannot be written"):
        cache.set_cache_file("/proc/no/such/file")
    with pytest.raises(TypeError):
        cache.set_cache_file(3)


def test_pinned_memory_is_kept_and_copied_from(gpu, rng):
    batch_size = 2
    size = batch_size * 3 * 64 * 64 * 4
    pool = gpu.get_pinned_pool()
    pool.warmup([size, size])
    reserved = pool.get_stats()["reserved_bytes"]
    assert reserved >= 2 * size and pool.get_stats()["allocated_bytes"] == 0
    buffer = pool.acquire(size)
    images = buffer.view("float32").reshape(batch_size, 3, 64, 64)
    values = rng.standard_normal(images.shape, "float32")
    images[:] = values
    x = gb.tensor(images)
    images[:] = 0  # the tensor has its own copy by now
    np.testing.assert_array_equal(x.numpy(), values)
    stats = pool.get_stats()
    assert stats["reserved_bytes"] == reserved and stats["cache_hits"] >= 1 and stats["allocated_bytes"] >= size
    del buffer, images
    gc.collect()
    assert pool.get_stats()["allocated_bytes"] == 0
    assert pool.clear() == reserved and pool.get_stats()["reserved_bytes"] == 0


def test_device_memory_is_warmed_up_and_cleared(gpu):
    manager = gpu.get_memory_manager()
    manager.clear_pool()
    before = manager.get_stats()["total_reserved"]
    size = gpu.warmup_memory_pool(batch_size=4, model_size="small")
    assert size == MODEL_SIZES["small"][0] + 4 * MODEL_SIZES["small"][1]
    assert manager.get_stats()["total_reserved"] - before >= size
    manager.reset_stats()
    reserved = manager.get_stats()["total_reserved"]
    x = (gb.rand(200, 200) * 2).eval()
    stats = manager.get_stats()
    assert stats["cache_hits"] > 0 and stats["total_reserved"] - reserved < 65536, "but for numbers it was there"
    assert stats["peak_allocated"] >= stats["total_allocated"] >= 4 * 200 * 200
    free, total = manager.get_memory_info()
    assert 0 < free <= total
    del x
    gc.collect()
    assert manager.clear_pool() >= size
    stats = manager.get_stats()
    assert stats["total_reserved"] - before < 65536 and stats["total_deallocations"] > 0
    for arguments in ({"model_size": "huge"}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="warmup_memory_pool"):
            gpu.warmup_memory_pool(**arguments)


def test_memory_that_is_not_there_is_a_memory_error(gpu):
    with pytest.raises(MemoryError, match="reserving"):
        gpu.get_memory_manager().reserve(1 << 60)
    with pytest.raises(ValueError, match="reserve_memory"):
        gpu.get_memory_manager().reserve(-1)
    with pytest.raises(ValueError, match="pinned_buffer"):
        gpu.get_pinned_pool().acquire(-1)


def test_results_agree_with_the_cpu(gpu, rng):
    a, b = rng.standard_normal((20, 30), "float32"), rng.standard_normal((30, 10), "float32")
    on_gpu = gb.matmul(gb.tensor(a), gb.tensor(b)).numpy()
    gb.set_device("cpu")
    on_cpu = gb.matmul(gb.tensor(a), gb.tensor(b)).numpy()
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-5, atol=1e-5)


def test_every_gpu_in_turn(gpu):
    names = []
    for i in range(gpu.get_device_count()):
        gb.set_device(f"{gpu.name}:{i}")
        info = gb.device_info()
        assert info["device_id"] == i == gpu.get_current_device()
        assert (gb.ones(3) + i).tolist() == [1.0 + i] * 3
        names.append(info["name"])
    assert all(names)


# Methods of a device.


def test_memory_is_counted(gpu):
    device = gb.get_device()
    device.reset_memory_stats()
    before = device.memory_stats()
    x = gb.rand(1000).eval()
    after = device.memory_stats()
    assert after["allocated_bytes"] - before["allocated_bytes"] >= 4000
    assert after["reserved_bytes"] >= after["allocated_bytes"]
    assert after["allocated_bytes_peak"] >= after["allocated_bytes"]
    del x
    gc.collect()
    now = device.memory_stats()
    assert now["allocated_bytes"] <= after["allocated_bytes"] - 4000 and now["frees"] > 0
    assert device.empty_cache() > 0
    now = device.memory_stats()
    assert now["reserved_bytes"] == now["allocated_bytes"]
    assert (gb.ones(1000) + 1).sum().item() == 2000, "the scratch memory of plans comes back"


def test_a_cpu_counts_and_says_what_it_does_not_have():
    cpu = gb.Device("cpu")
    cpu.empty_cache()  # large blocks that earlier tests have freed
    before = cpu.memory_stats()
    x = gb.rand(100_000, device=cpu).eval()
    after = cpu.memory_stats()
    assert after["allocated_bytes"] - before["allocated_bytes"] >= 400_000
    assert after["allocations"] > before["allocations"] and after["pinned_reserved_bytes"] == 0
    del x
    assert cpu.memory_stats()["frees"] > after["frees"]
    cpu.reset_memory_stats()
    assert cpu.memory_stats()["allocations"] == 0
    assert cpu.empty_cache() == 0
    for ask, words in (
        (lambda: cpu.reserve_memory(1000), "keeps no memory"),
        (lambda: cpu.reserve_memory(1000, pinned=True), "keeps no memory"),
        (lambda: cpu.pinned_buffer(1000), "the host's own memory"),
        (lambda: cpu.set_tuning(measure=True), "nothing to tune"),
        (lambda: cpu.tuning_stats(), "nothing to tune"),
        (lambda: cpu.clear_tuning(), "nothing to tune"),
    ):
        with pytest.raises(RuntimeError, match=words):
            ask()
    assert cpu.measured_shapes() == []


# Without a card.

WITHOUT = {
    "rocm": "AMD",
    "cuda": "NVIDIA",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_a_card_the_error_says_what_is_missing(name):
    if GpuBackend(name).is_available():
        pytest.skip(f"this machine has a {name} device")
    assert getattr(gb, f"{name}_is_available")() is False
    assert getattr(gb, f"{name}_device_count")() == 0
    assert getattr(gb, f"{name}_get_device")() == -1
    module = getattr(gb.backend, name)
    assert module.is_available() is False and module.get_device_count() == 0 and module.get_current_device() == -1
    for ask in (
        lambda: gb.set_device(name),
        lambda: gb.set_device(f"{name}:0"),
        lambda: gb.ones(1, device=name),
        lambda: gb.device_info(name),
        lambda: gb.synchronize(name),
        getattr(gb, f"{name}_get_device_info"),
        lambda: getattr(gb, f"{name}_set_device")(0),
        getattr(gb, f"{name}_synchronize"),
        module.get_device_info,
        lambda: module.set_device(1),
        module.synchronize,
        module.get_tuning_cache,
        module.get_pinned_pool,
        module.get_memory_manager,
        module.warmup_memory_pool,
    ):
        with pytest.raises(gb.DeviceError, match=rf"(?s){WITHOUT[name]}|{name}") as caught:
            ask()
        assert isinstance(caught.value, RuntimeError)
        assert "hint: " in str(caught.value)
    assert gb.get_device() == "cpu", "a device that is not there is not chosen"


@pytest.mark.parametrize("visible", ["", "-1"])
def test_the_cpu_computes_where_cards_are_hidden(visible):
    """NVIDIA's driver ended the process that asked it for devices where none was visible."""
    code = "import gabbro as gb; print(gb.ones(3, device='cpu').sum().item(), [d for d in gb.devices() if 'cuda' in d])"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3.0 []\n"), done.stderr


def test_the_names_of_the_document_are_there():
    from gabbro.backend.rocm import get_memory_manager, get_pinned_pool, get_tuning_cache, warmup_memory_pool

    for function in (get_memory_manager, get_pinned_pool, get_tuning_cache, warmup_memory_pool):
        assert function.__doc__
    assert set(gb.backend.rocm.__all__) == set(gb.backend.cuda.__all__)
