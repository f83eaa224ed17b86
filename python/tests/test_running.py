"""What happens while plans run: other threads, Ctrl-C, forks, memory; and compiled functions."""

import multiprocessing
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gabbro as gb


def heavy(size=512, products=60):
    x = gb.ones((size, size))
    for _ in range(products):
        x = x @ gb.ones((size, size)) * (1 / size)
    return x


def test_other_threads_go_on_while_a_plan_runs():
    ticks, done = 0, threading.Event()

    def compute():
        heavy().eval()
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    assert ticks > 3


def test_threads_share_tensors():
    x = gb.ones((64, 64))
    shared = [x * i for i in range(50)]
    results, errors = [], []

    def work():
        try:
            results.append([float((y + 1).sum(axis=-1)[0].item()) for y in shared])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(result == [64.0 * (i + 1) for i in range(50)] for result in results)


def in_a_process(program, **options):
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **options})  # fmt: skip


@pytest.mark.parametrize("prepare, run", [
    ("x = gb.ones((2048, 2048))\nfor _ in range(200): x = x @ gb.ones((2048, 2048))", "x.eval()"),
    ("", "gb.nn.Linear(2**15, 2**15).parameters()"),  # whose initial values the library computes
])  # fmt: skip
def test_ctrl_c_stops_a_plan(prepare, run):
    process = in_a_process(f"""
import gabbro as gb
{prepare}
print("running", flush=True)
try:
    {run}
    print("done")
except KeyboardInterrupt:
    print("interrupted", (gb.ones(2) + 1).tolist())
""")
    assert process.stdout.readline() == "running\n"
    time.sleep(1)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert output == "interrupted [2.0, 2.0]\n", errors
    assert time.monotonic() - started < 30  # the first takes minutes


def test_a_signal_whose_handler_does_not_raise_changes_nothing():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        result = heavy()
        np.testing.assert_allclose(result.numpy(), 1, rtol=1e-3)
        timer.join()
        time.sleep(0.01)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def in_a_fork(function, seconds=60):
    """What a function gives in a forked child, as text; fails where the child does not end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                text = str(function())
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], seconds)
        if not ready:
            os.kill(child, signal.SIGKILL)
        return os.read(reader, 10000).decode() if ready else "the child hangs"
    finally:
        os.close(reader)
        os.waitpid(child, 0)


def test_tensors_of_the_cpu_go_on_in_a_forked_process():
    x = (gb.ones(3) + 1).eval()
    pending = x + 1
    large = gb.ones((256, 256)).eval()
    fast = gb.compile(lambda y: y @ large)
    fast(large)

    def child():
        results = [x.tolist(), pending.tolist(), (gb.ones(3) * 5).tolist()]
        results += [(large @ large).sum().item(), fast(large).sum().item(), float(gb.exp(large).numpy().sum())]
        model = gb.nn.Linear(4, 4)
        model(gb.ones((2, 4))).sum().backward()
        gb.optim.SGD(model.parameters(), lr=0.1).step()
        results.append(gb.rand(3).shape)
        return results

    grown = 256.0**2 * np.exp(np.float32(1))
    for _ in range(2):
        numbers = eval(in_a_fork(child))  # a list of numbers that we have written
        assert numbers[:3] == [[2.0] * 3, [3.0] * 3, [5.0] * 3]
        assert numbers[3:5] == [256.0**3] * 2 and abs(numbers[5] / grown - 1) < 1e-5
        assert numbers[6] == (3,)
    assert pending.tolist() == [3.0] * 3 and (large @ large).sum().item() == 256.0**3


def test_forks_of_forks_and_of_threads():
    large = gb.ones((256, 256)).eval()
    assert in_a_fork(lambda: in_a_fork(lambda: (large @ large).sum().item())) == str(256.0**3)
    results = []
    thread = threading.Thread(target=lambda: results.append(in_a_fork(lambda: (large @ large).sum().item())))
    thread.start()
    thread.join()
    assert results == [str(256.0**3)]


def test_a_child_that_is_forked_while_others_compute_does_not_hang():
    stop, large = threading.Event(), gb.ones((256, 256)).eval()

    def compute(size):
        x = gb.ones((size, size)).eval()
        count = 0
        while not stop.is_set():
            count += 1
            gb.eval(x @ x, x * count)  # plans, too: each number of rows makes another one
            (x[: 1 + count % size] + 1).eval()

    threads = [threading.Thread(target=compute, args=(size,)) for size in (64, 300)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert in_a_fork(lambda: (large @ large + 1).sum().item()) == str(256.0**3 + 256.0**2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_multiprocessing_with_fork_reads_tensors():
    context = multiprocessing.get_context("fork")
    x = gb.ones((3, 3))
    with context.Pool(2, initializer=None) as pool:
        assert pool.map(_row_sum, [(x, i) for i in range(3)]) == [3.0] * 3


def _row_sum(item):
    x, i = item
    return (x @ x)[i].sum().item() / 3


def test_tensors_of_a_gpu_say_that_they_are_of_another_process(device_named):
    device_named("sim:0")
    x = (gb.ones(3) + 1).eval()
    assert "forked" in in_a_fork(lambda: (x + 1).tolist())
    assert in_a_fork(lambda: (gb.ones(2, device="cpu") + 1).tolist()) == "[2.0, 2.0]"


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_synchronize_computes_what_was_assigned_to_one_name():
    x = gb.rand(700, 700).eval()

    def as_written():
        for _ in range(8):
            y = gb.matmul(x, x)  # noqa: F841
        gb.synchronize()

    def evaluated():
        for _ in range(8):
            gb.eval(gb.matmul(x, x))

    evaluated()
    ratios = [seconds(as_written) / seconds(evaluated) for _ in range(3)]
    assert sorted(ratios)[1] > 0.5, ratios


def test_synchronize_computes_what_is_held_and_nothing_twice():
    gb.synchronize()
    pending = gb._core._pending_work()  # of other devices
    x = gb.rand(256, 256).eval()
    products = [x @ x for _ in range(3)]
    chain = gb.relu(products[0] + 1).sum()
    gb.synchronize()
    assert "0 launches" in gb.explain(lambda: [chain, *products[1:]])
    before = seconds(gb.synchronize)
    y = (x @ x).eval()
    inner = x @ x
    gb.exp(inner).eval()
    del y, inner
    assert gb._core._pending_work() == pending and seconds(gb.synchronize) < before + 0.05


def test_dropped_results_keep_nothing_alive():
    device = gb.get_device()
    gb.synchronize()
    pending = gb._core._pending_work()  # of other devices
    before = device.memory_stats()["allocated_bytes"]
    for _ in range(20):
        x = gb.rand(512, 512).eval()
        y = x @ x
        del x, y
    assert device.memory_stats()["allocated_bytes"] <= before + 2**16
    gb.synchronize()
    assert gb._core._pending_work() == pending
    for _ in range(3000):
        gb.ones((64, 64)) @ gb.ones((64, 64))
    assert gb._core._pending_work()[1] <= 1024
    gb.synchronize()


def test_memory_does_not_grow_with_the_operations():
    x = gb.ones((16, 16))

    def work(count):
        nonlocal x
        for i in range(count):
            x = (x * 0.5 + i % 7)[:, ::-1].T.eval()
            np.from_dlpack(x)
            gb.from_dlpack(x.numpy())

    work(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(10000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048  # KiB


def test_long_graphs_neither_overflow_the_stack_nor_leak():
    x = gb.zeros(4)
    for _ in range(5000):
        x = x + 1
    assert x.tolist() == [5000.0] * 4


def test_compiled_functions_replay_with_other_arguments():
    calls = []

    @gb.compile
    def step(x, weights, *, scale=1.0, names=("a",)):
        calls.append(1)
        return {name: (x @ weights["w"] * scale, [x]) for name in names}

    weights = {"w": gb.tensor(np.eye(3, dtype="float32") * 2)}
    for i in range(5):
        x = gb.ones((2, 3)) * i
        result = step(x, weights, names=("b",))
        assert result["b"][0].tolist() == [[2.0 * i] * 3] * 2
        assert result["b"][1][0].tolist() == x.tolist()
    assert len(calls) == 1
    step(gb.ones((4, 3)), weights)
    step(gb.ones((4, 3)), weights, scale=True)
    step(gb.ones((4, 3)), weights, scale=1)
    step(gb.rand(3, 4).T, weights)
    assert len(calls) == 5


def test_compiled_functions_of_tensors_alone_are_traced_for_each_layout_once():
    calls = []

    @gb.compile
    def product(x, y=None):
        calls.append(1)
        return x @ (x.T if y is None else y)

    rng = np.random.default_rng(0)
    for _ in range(2):
        for rows in range(1, 40):  # more than are found directly
            x = rng.random((rows, 3), dtype=np.float32)
            np.testing.assert_allclose(product(gb.tensor(x) + 0).numpy(), x @ x.T, rtol=1e-5)
    assert len(calls) == 39
    x, y = rng.random((4, 3), dtype=np.float32), rng.random((3, 4), dtype=np.float32)
    for other in (gb.tensor(y), gb.tensor(y.T.copy()).T):
        for _ in range(2):
            np.testing.assert_allclose(product(gb.tensor(x), other).numpy(), x @ y, rtol=1e-5)
    assert len(calls) == 39 + 2
    with pytest.raises(ValueError, match="matmul"):
        product(gb.tensor(x), gb.tensor(x))
    assert product(gb.tensor(x), y=gb.tensor(y)).shape == (4, 4)
    assert product(gb.tensor(x).astype(gb.float16), gb.tensor(y).astype(gb.float16)).dtype == gb.float16


def test_results_of_compiled_functions_do_not_change():
    double = gb.compile(lambda x: x * 2)
    first = double(gb.ones(4))
    second = double(gb.ones(4) * 5)
    assert first.tolist() == [2.0] * 4 and second.tolist() == [10.0] * 4


def test_compiled_functions_may_call_each_other():
    double = gb.compile(lambda x: x * 2)
    both = gb.compile(lambda x: double(x) + 1)
    assert both(gb.ones(2)).tolist() == both(gb.ones(2)).tolist() == [3.0, 3.0]


def test_compiled_functions_draw_new_random_numbers():
    noise = gb.compile(lambda x: x + gb.rand(4))
    assert noise(gb.zeros(4)).tolist() != noise(gb.zeros(4)).tolist()


def test_compiled_functions_may_not_read_values():
    with pytest.raises(ValueError, match="compile"):
        gb.compile(lambda x: x if x.sum().item() > 0 else -x)(gb.ones(3))
    assert (gb.ones(2) + 1).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="compile"):
        gb.compile(lambda x: None)(gb.ones(3))


def test_a_plan_is_drawn(tmp_path):
    plan = gb.explain(lambda x: gb.softmax(x @ x.T), gb.rand(4, 4))
    plan.save(tmp_path / "plan.dot")
    assert (tmp_path / "plan.dot").read_text() == plan.dot
    assert plan.dot.count(" -> ") == 4  # the input twice, the product, the result
    if shutil.which("dot") is None:
        with pytest.raises(RuntimeError, match="Graphviz is not installed"):
            plan.save(tmp_path / "plan.svg")
    else:
        plan.save(tmp_path / "plan.svg")
        assert "softmax" in (tmp_path / "plan.svg").read_text()
        with pytest.raises(RuntimeError, match="cannot draw a file of kind 'xyz'"):
            plan.save(tmp_path / "plan.xyz")
    assert not list(tmp_path.glob("*.part")) and not (tmp_path / "plan.xyz").exists()


def test_explain_names_kernels_and_memory():
    text = gb.explain(lambda x: gb.softmax(x) @ x, gb.rand(64, 64))
    for word in ("softmax", "matmul", "(64, 64)", "2 launches", "arena", "flops"):
        assert word in text
    assert "0 launches" in gb.explain(lambda x: x, gb.ones(3))


def test_eval_takes_nested_tensors():
    x = [gb.ones(2) + 1, {"a": (gb.ones(3) * 2, "text", 3)}]
    gb.eval(x, None, 5)
    assert x[1]["a"][0].tolist() == [2.0] * 3


def test_the_interpreter_ends_with_tensors_alive():
    process = in_a_process("""
import gabbro as gb, numpy as np
x = gb.asarray(np.ones(100, "float32"))
y = (x + 1).numpy()
pending = x * 2
""")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")
