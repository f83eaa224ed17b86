"""python -m gabbro.bench: the document, the table and the page, what it refuses, and that both sides do the same."""

import json
import re
import sys

import numpy as np
import pytest

import gabbro as gb
from gabbro.bench import _cases, _measure, _peer, _program, _report

QUICK = ["--device", "cpu", "--size", "tiny", "--iterations", "2", "--warmup", "0"]
GROUPS = ["matmul", "conv", "elementwise", "reduction", "norm", "softmax", "attention", "indexing", "small"]


@pytest.fixture
def bench(capsys):
    def run(*arguments, code=0):
        try:
            actual = _program.main([*QUICK, *map(str, arguments)])
        except SystemExit as end:  # argparse's
            actual = end.code
        assert actual == code
        return capsys.readouterr()

    return run


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed


def document_of(page):
    found = re.findall(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_document(bench, without_torch):
    output = bench("--json", "--threads", 1)
    document = json.loads(output.out)
    assert output.err.startswith("gabbro.bench: note: PyTorch cannot be imported: ")
    assert output.err.count("\n") == 1
    facts = {"version": gb.__version__, "device": "cpu", "threads": 1, "size": "tiny", "warmup": 0, "peer": None}
    assert {key: document[key] for key in facts} == facts
    assert list(dict.fromkeys(row["group"] for row in document["results"])) == GROUPS
    assert len({(row["name"], row["dtype"]) for row in document["results"]}) == len(document["results"])
    for row in document["results"]:
        seconds = row["seconds"]
        assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"]
        assert row["samples"] == 2
        assert row["launches"] == len(row["kernels"]) > 0
        assert row["bytes_per_second"] * seconds["median"] == pytest.approx(row["bytes"])
        assert row["peer_seconds"] is row["ratio"] is None
    product = document["results"][0]
    assert (product["name"], product["flops"]) == ("matmul 17x19 19x23", 2 * 17 * 19 * 23)
    conv = next(row for row in document["results"] if row["name"].startswith("conv2d 1x3"))
    assert conv["name"] == "conv2d 1x3x15x15 5x3x7x7 stride=2 padding=3"


def test_groups_dtypes_and_names_choose(bench):
    def rows(*arguments):
        return json.loads(bench("--json", "--peer", "none", *arguments).out)["results"]

    assert {row["group"] for row in rows("--softmax", "--norm")} == {"softmax", "norm"}
    assert {row["group"] for row in rows("--softmax", "--all", "--dtype", "f32")} == set(GROUPS)
    assert {row["dtype"] for row in rows("--filter", "topk")} == {"f32"}
    assert {row["dtype"] for row in rows("--filter", "layer_norm", "--dtype", "bf16")} == {"bf16"}


def test_the_table(bench):
    lines = bench("--softmax", "--dtype", "f32", "--peer", "none").out.splitlines()
    assert re.fullmatch(r"gabbro \S+ on cpu \(.+\), \d+ threads: 4 cases of size tiny", lines[0])
    assert re.fullmatch(r"softmax +dtype +median us +min us +max us +GB/s +GFLOP/s launches  kernels", lines[2])
    assert re.fullmatch(r"softmax 17x61 +f32( +\d+\.\d\d){3}( +\d+(\.\d+)?){2} +1  softmax f32", lines[3])


def test_the_page(bench, tmp_path):
    path = tmp_path / "report.html"
    printed = json.loads(bench("--small", "--json", "--peer", "none", "--html", path).out)
    page = path.read_text()
    assert document_of(page) == printed
    assert not re.search(r"(?i)\b(src|href)\s*=|@import|url\(", page)  # it needs nothing else
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_names_cannot_break_out_of_the_page():
    document = {"device_name": "</script><script>alert(1)</script><!--", "results": [{"name": "\u2028'\"&"}]}
    page = _report.page(document)
    assert document_of(page) == document
    assert "alert" not in re.sub(r'id="document">.*?</script>', "", page, flags=re.DOTALL)


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(bench, tmp_path):
    for path in (tmp_path, tmp_path / "none" / "x.html", "/dev/null", "", "/proc/x.html"):
        output = bench("--size", "large", "--html", path, code=2)
        assert output.out == ""
        assert re.fullmatch(r"python -m gabbro\.bench: error: --html: .+\n", output.err)
    assert list(tmp_path.iterdir()) == []


def test_bad_usage(bench, without_torch):
    cases = [
        ("--dtype", "f64"), ("--size", "huge"), ("--iterations", "-1"), ("--iterations", "x"), ("--warmup", "100001"),
        ("--threads", "9999"), ("--filter", "nonsense"), ("--peer", "pytorch"), ("extra",), ("--iter", "3"),
    ]  # fmt: skip
    for arguments in cases:
        output = bench(*arguments, code=2)
        assert output.out == ""
        assert re.fullmatch(r"python -m gabbro\.bench: error: .+\n", output.err), arguments
    assert "no usable ROCm device" in bench("--device", "rocm", code=3).err


def test_subjects_take_turns():
    order = []
    subjects = [_measure.Subject(lambda name=name: order.append(name), lambda: None) for name in "ab"]
    for subject in subjects:
        subject.prepare(iterations=10, warmup=0)
        assert subject.samples == 10
        subject.runs = 1
    del order[:]
    _measure.measure(subjects)
    assert "".join(order) == "aaabbb" * 5  # the first of each turn does not count
    assert [len(subject.seconds) for subject in subjects] == [10, 10]


def test_devices_with_other_threads():
    one, two = gb.Device("cpu", threads=1), gb.Device("cpu", threads=2)
    assert one == "cpu" and one != two and one == gb.Device("cpu", threads=1)
    assert (gb.ones(3, device=one) + 1).tolist() == [2.0] * 3
    with pytest.raises(ValueError, match="different devices"):
        (gb.ones(3, device=one) + gb.ones(3, device=two)).eval()
    for threads in (-1, 1025):
        with pytest.raises(ValueError, match="threads"):
            gb.Device("cpu", threads=threads)


@pytest.mark.parametrize("case", _cases.cases("tiny"), ids=lambda case: case.name)
def test_the_peer_does_the_same_work(case):
    pytest.importorskip("torch")
    device = gb.Device("cpu")
    peer, _ = _peer.find("cpu", 1)
    tensors = _cases.inputs(case, "f32", device)
    ours = _cases.results(case, tuple(tensors))
    theirs = peer.function(case, tensors)()
    theirs = list(theirs) if isinstance(theirs, tuple) else [theirs]
    for x, y in zip(ours, theirs, strict=case.op != "sort"):  # PyTorch's gives the indices as well
        assert x.shape == tuple(y.shape)
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-5)


def test_beside_pytorch(bench):
    torch = pytest.importorskip("torch")
    document = json.loads(bench("--softmax", "--small", "--json", "--peer", "pytorch").out)
    assert document["peer"] == {"name": "PyTorch", "version": torch.__version__, "device": "cpu"}
    for row in document["results"]:
        assert row["ratio"] == pytest.approx(row["seconds"]["median"] / row["peer_seconds"]["median"])
    table = bench("--softmax", "--dtype", "f32").out
    assert "PyTorch us  ratio" in table
