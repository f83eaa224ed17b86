"""gabbro.testgen runs its own scripts: only generate() needs the program."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gabbro import testgen

FOLDER = Path(__file__).resolve().parents[1] / "gabbro" / "testgen"


@pytest.fixture(autouse=True)
def without_program(monkeypatch, tmp_path):
    monkeypatch.setenv("GABBRO_PROGRAM", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))


def test_detect_is_the_verdict_of_this_machine():
    direct = subprocess.run([sys.executable, "-B", FOLDER / "detect.py", "--json"], capture_output=True, check=True)
    found = testgen.detect()
    assert found["verdict"] in ("rocm", "cuda", "cpu")
    assert found.keys() == json.loads(direct.stdout).keys()


def test_errors_of_the_runner_are_raised(tmp_path):
    pack = testgen.Pack(tmp_path, "llama", "LlamaForCausalLM", [])
    with pytest.raises(RuntimeError, match=r"holds no pack"):
        pack.run(device="cpu")


@pytest.mark.skipif(not (find_spec("torch") and find_spec("transformers")), reason="needs torch and transformers")
def test_run_returns_the_results(tmp_path):
    (tmp_path / "case.py").write_text("")
    shutil.copy(FOLDER / "machine.py", tmp_path)
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--device')\n    parser.addoption('--limit')\n"
    )
    (tmp_path / "test_a.py").write_text("def test_good():\n    pass\n\n\ndef test_bad():\n    assert 1 == 2\n")
    document = testgen.Pack(tmp_path, "a", "A", []).run(device="cpu")
    assert {row["test"]: row["status"] for row in document["results"]} == {"test_good": "passed", "test_bad": "failed"}


def test_generate_needs_the_program(tmp_path):
    with pytest.raises((FileNotFoundError, RuntimeError)):
        testgen.generate("llama", tmp_path)
