"""What happens while plans run: other threads, Ctrl-C, forks, memory; and compiled functions."""

import os
import resource
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
    ("", "gb.nn.Linear(2**15, 2**15)"),  # whose initial values the library computes
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


def test_a_forked_process_can_compute_and_is_told_what_it_cannot():
    x = (gb.ones(3) + 1).eval()
    pending = x + 1
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            words = [str(x.tolist()), str((gb.ones(3) * 5).tolist())]
            try:
                pending.eval()
            except gb.DeviceError as error:
                words.append("fork" if "forked" in str(error) else str(error))
            os.write(writer, "|".join(words).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 1000).decode() == "[2.0, 2.0, 2.0]|[5.0, 5.0, 5.0]|fork"
    assert pending.tolist() == [3.0] * 3


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
