"""Data parallel training: on simulated devices and CPUs, and over processes of mpirun."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gabbro as gb
from conftest import SIMULATOR

PROGRAM = Path(__file__).with_name("distributed") / "training.py"
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-np", "2"]
needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is missing: install openmpi-bin")
needs_simulator = pytest.mark.skipif(not SIMULATOR.exists(), reason=f"{SIMULATOR} is not built")


def environment(devices=3, wave=None):
    variables = dict(os.environ, GABBRO_SIM_DEVICES=str(devices), GABBRO_DEVICE="cpu", OMP_NUM_THREADS="1")
    if SIMULATOR.exists():
        variables["GABBRO_PLUGIN_PATH"] = str(SIMULATOR.parent)
    variables.pop("GABBRO_SIM_WAVE", None)
    if wave is not None:
        variables["GABBRO_SIM_WAVE"] = str(wave)
    return variables


def run(*arguments, **options):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, env=environment(**options), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_ranks(*arguments):
    command = [*MPIRUN, sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda found: found["rank"])


# Waves of 32 and 64 lanes add up in other orders: each part is compared with the same device alone.
@needs_simulator
@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("devices", [("sim:0", "sim:1"), ("sim:0", "sim:1", "sim:2"), ("cpu", "sim:1")])
def test_20_steps_have_the_bits_of_parts_in_turn(kind, devices):
    found = run("equal", kind, 7, *devices)
    assert found["equal"] and found["losses"][-1] < found["losses"][0]


@needs_simulator
@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("count", [2, 3])
def test_20_steps_have_the_bits_of_one_device(kind, count):
    assert run("one", kind, 7, *(f"sim:{number}" for number in range(count)), wave=32)["equal"]


def test_two_cpus_have_the_bits_of_one():
    assert run("one", "adam", 8, "cpu", "cpu/1")["equal"]


@needs_simulator
def test_many_buckets_dropout_and_clipping():
    assert run("equal", "sgd", 8, "sim:0", "sim:1", "bucket=0.001")["equal"]
    assert run("equal", "adam", 8, "sim:0", "sim:1", "sim:2", "dropout=0.5", "clip=0.01")["equal"]


@needs_simulator
def test_an_overflow_on_one_device_skips_the_step():
    found = run("scaled", "sim:0", "sim:1")
    assert found == {"scales": [512.0, 512.0], "unchanged": [True, False]}


@needs_simulator
def test_batch_norm_takes_the_moments_of_the_first_part():
    found = run("moments", "sim:0", "sim:1", "sim:2")
    assert found["result"] < 1e-5 and found["mean"] < 1e-6 and found["tracked"] == 1
    assert found["names"] == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]


@needs_simulator
def test_parameters_are_copied_when_they_change():
    found = run("copies_made", "sim:0", "sim:1", wave=32)
    first, *later = found["counts"]
    assert all(count < first for count in later) and found["changed"] == 0


def linear():
    return gb.nn.Linear(2, 3)


def parallel(*threads):
    return gb.distributed.DataParallel(linear(), devices=[gb.Device("cpu", threads=n) for n in threads])


def test_errors_are_one_exception_each():
    with pytest.raises(ValueError, match=r"\[DataParallel\] cpu is given twice"):
        gb.distributed.DataParallel(linear(), devices=["cpu", "cpu"])
    with pytest.raises(ValueError, match=r"\[DataParallel\] no devices are given"):
        gb.distributed.DataParallel(linear(), devices=[])
    with pytest.raises(gb.DeviceError):
        gb.distributed.DataParallel(linear(), devices=["cpu", "cuda:97"])
    with pytest.raises(TypeError, match="devices is a list of devices, not 'cpu'"):
        gb.distributed.DataParallel(linear(), devices="cpu")
    with pytest.raises(TypeError, match="expected a Module"):
        gb.distributed.DataParallel(3, devices=["cpu"])
    model = parallel(1, 2)
    with pytest.raises(ValueError, match="a batch of 1 is too small for 2 devices"):
        model(gb.ones((1, 2)))
    with pytest.raises(ValueError, match="the call has no tensor to cut"):
        model()
    with pytest.raises(ValueError, match=r"tensors of first lengths \[2, 3\] cannot be cut together"):
        model(gb.ones((2, 2)), gb.ones((3, 2)))


def test_nested_arguments_and_results():
    class Pair(gb.nn.Module):
        def forward(self, pair, *, factor, flag):
            assert flag == "yes"
            return {"sum": pair[0] + pair[1] * factor, "mean": pair[0].mean()}

    model = gb.distributed.DataParallel(Pair(), devices=[gb.Device("cpu", threads=1), gb.Device("cpu", threads=2)])
    x = gb.arange(5, dtype=gb.float32).requires_grad_()
    found = model((x, gb.ones(5)), factor=gb.tensor(2.0), flag="yes")
    assert found["sum"].tolist() == [2, 3, 4, 5, 6] and found["mean"].tolist() == [1, 3.5]
    (found["sum"].sum() + found["mean"].sum()).backward()
    assert [round(g, 5) for g in x.grad.tolist()] == [1.33333, 1.33333, 1.33333, 1.5, 1.5]


def test_the_module_stays_whole_after_an_error():
    class Faulty(gb.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = linear()

        def forward(self, x):
            if x.shape[0] == 2:
                raise RuntimeError("planted")
            return self.inner(x)

    module = Faulty()
    model = gb.distributed.DataParallel(module, devices=[gb.Device("cpu", threads=1), gb.Device("cpu", threads=2)])
    with pytest.raises(RuntimeError, match="planted"):
        model(gb.ones((5, 2)))
    assert all(p.is_leaf and p.device == model.devices[0] for p in module.parameters())


def test_torch_names():
    model = gb.nn.DataParallel(linear(), device_ids=["cpu"])
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert gb.distributed.get_world_size() == 1 and not gb.distributed.is_available()
    gb.distributed.barrier()


@needs_mpi
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_ranks_train_as_parts_in_turn(kind):
    first, second = run_ranks("over_processes", kind, 7)
    assert first["equal"] and second["equal"] and first["size"] == 2
    assert first["drawn"] != second["drawn"]


@needs_mpi
def test_ranks_with_micro_steps_and_unused_parameters():
    first, second = run_ranks("micro_steps")
    assert (first["alone"], second["alone"]) == (1, 2)
    assert first["all"] == second["all"] == 12  # the mean of 1 + 10 and 2 + 11
    assert first["branch"] == second["branch"] == 0.5


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_rank_ends_the_job_within_5_seconds(number, rank):
    # Other work on the machine delays one attempt, a fault delays each of them.
    assert any(seconds_of_a_loss(number, rank) <= 5 for _ in range(4))


def seconds_of_a_loss(number, rank):
    command = [*MPIRUN, sys.executable, str(PROGRAM), "endless", str(rank)]
    job = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        process = json.loads(job.stdout.readline())["process"]
        time.sleep(0.5)
        os.kill(process, number)
        begin = time.monotonic()
        output, _ = job.communicate(timeout=20)
        seconds = time.monotonic() - begin
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode != 0, output
    assert f"rank {rank}" in output, output
    return seconds
