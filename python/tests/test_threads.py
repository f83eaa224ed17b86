"""How many threads compute on the CPU, and the names of the machine's GPU."""

import os
import subprocess
import sys

import pytest

import gabbro as gb


@pytest.mark.parametrize(
    ("environment", "call", "expected"),
    [
        ("1", "pass", "1"),
        ("3,2", "pass", "3"),
        ("none", "pass", None),
        ("2", "gb.set_num_threads(3)", "3"),
        (None, "pass", None),
    ],
)
def test_numbers_of_threads(environment, call, expected):
    text = f"import gabbro as gb; {call}; gb.ones(2).sum().item(); print(gb.get_num_threads())"
    variables = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if environment is not None:
        variables["OMP_NUM_THREADS"] = environment
    done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (expected or str(gb._core.device_info("cpu")["cores"]))


def test_another_number_of_threads_comes_too_late():
    count = gb.get_num_threads()
    gb.set_num_threads(count)
    with pytest.raises(ValueError, match=f"already computes with {count} threads"):
        gb.set_num_threads(count + 1)
    with pytest.raises(ValueError, match=r"0 is not in 1\.\.1024"):
        gb.set_num_threads(0)


def test_the_accelerator_is_the_gpu_of_cuda():
    has_gpu = gb.cuda.is_available()
    assert gb.accelerator.is_available() == has_gpu and gb.accelerator.device_count() == gb.cuda.device_count()
    assert (gb.accelerator.current_accelerator() is not None) == has_gpu
    if not has_gpu:
        with pytest.raises(gb.DeviceError):
            gb.accelerator.set_device_index(0)
