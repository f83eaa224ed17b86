"""Programs as PyFlame's page about ROCm writes them: the names, arguments and results of each of its sections.

`pyflame` is this package. On a machine without a card the simulator answers to ROCm's names.
"""

import os
import sys
import types
from pathlib import Path

import pytest

import gabbro as gb
from gabbro.backend.gpu import GpuBackend

PROGRAMS = Path(__file__).with_name("data") / "pyflame.txt"


def programs():
    """The programs of a file: lines of three hyphens part them."""
    path = Path(os.environ.get("GABBRO_PYFLAME_PROGRAMS", PROGRAMS))
    return path.read_text(encoding="utf-8").split("\n---\n")


def renamed(name, kind):
    """A device of ROCm's under the name that it has on this machine."""
    text = str(name)
    return kind + text.removeprefix("rocm") if text == "rocm" or text.startswith("rocm:") else name


@pytest.fixture(params=["sim", *(name for name in ("rocm", "cuda") if GpuBackend(name).is_available())])
def pyflame(request, device_named, monkeypatch, tmp_path):
    """The package as `pyflame`, whose ROCm devices are the parameter's."""
    kind = request.param
    device = device_named(f"{kind}:0")
    backend = GpuBackend(kind)
    package, backends = types.ModuleType("pyflame"), types.ModuleType("pyflame.backend")
    vars(package).update(vars(gb))
    backends.rocm = types.ModuleType("pyflame.backend.rocm")
    for name in gb.backend.rocm.__all__:
        setattr(backends.rocm, name, getattr(backend, name, getattr(gb.backend.rocm, name)))
    package.backend = backends
    package.set_device = lambda name: gb.set_device(renamed(name, kind))
    package.rocm_is_available = backend.is_available
    package.rocm_device_count = backend.get_device_count
    package.rocm_get_device_info = backend.get_device_info
    for name, module in {
        "pyflame": package,
        "pyflame.nn": gb.nn,
        "pyflame.backend": backends,
        "pyflame.backend.rocm": backends.rocm,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GABBRO_TUNING_FILE", str(tmp_path / "default.txt"))
    gb.set_device("cpu")
    yield backend
    device.set_tuning(measure=False, search=False, file="")
    device.clear_tuning()
    device.empty_cache()
    device.empty_cache(pinned=True)


@pytest.mark.parametrize("number", range(len(programs())))
def test_programs_run_as_written(pyflame, number):
    exec(compile(programs()[number], f"program {number}", "exec"), {"batch_size": 32})


def test_each_function_of_the_page_is_used():
    text = "\n".join(programs())
    for name in (
        "rocm_is_available", "rocm_device_count", "rocm_get_device_info", "set_device", "get_device", "device_info",
        "synchronize", "get_tuning_cache", "enable_exhaustive_search", "set_cache_file", "get_pinned_pool",
        "warmup_memory_pool", "get_memory_manager", "clear_pool", "conv2d", "cross_entropy",
    ):  # fmt: skip
        assert f"{name}(" in text
