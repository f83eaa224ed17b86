"""The stages of `gabbro testgen --verify` on small packs: each finds the fault that is planted for it, and no other."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "gabbro" / "testgen"
sys.path.insert(0, str(FOLDER))
stages = pytest.importorskip("stages")

CASE = '"""A pack."""\n\nSEED = 0\n'
CONFTEST = """from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="auto")
    parser.addoption("--limit", default="1")
"""
TEST = '''from __future__ import annotations

import case


def test_layers() -> None:
    """Holds."""
    assert case.SEED == 0
'''
STRICT = "[tool.mypy]\nstrict = true\n"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    for name, text in (("case.py", CASE), ("conftest.py", CONFTEST), ("test_layers.py", TEST)):
        (folder / name).write_text(text)
    (folder / "pyproject.toml").write_text(STRICT)
    return folder


def add(pack: Path, text: str, name: str = "test_layers.py") -> None:
    path = pack / name
    path.write_text((path.read_text() if path.exists() else "") + text)


def outcomes(pack: Path) -> dict[str, str]:
    cache = pack.parent / "cache"
    done = {"parse": stages.parse(pack), "types": stages.type_check(pack, cache, 300.0)}
    done["collect"], done["run"] = stages.collect(pack, 60.0), stages.run(pack, [], 60.0)
    return {stage: outcome["status"] for stage, outcome in done.items()}


def test_a_good_pack_passes_all_stages(pack: Path) -> None:
    assert outcomes(pack) == {"parse": "ok", "types": "ok", "collect": "ok", "run": "ok"}


def test_each_fault_is_found_by_its_stage(pack: Path) -> None:
    add(pack, "\n\nCOUNT: int = 'many'\n")
    assert outcomes(pack) == {"parse": "ok", "types": "wrong", "collect": "ok", "run": "ok"}
    assert "test_layers.py:11" in stages.type_check(pack, pack.parent / "cache", 300.0)["lines"][0]


def test_a_file_that_cannot_be_imported_is_not_collected(pack: Path) -> None:
    add(pack, "import a_module_that_is_nowhere  # type: ignore\n", "test_more.py")
    done = stages.collect(pack, 60.0)
    assert done["status"] == "wrong"
    assert "a_module_that_is_nowhere" in done["lines"][0]


def test_a_pack_without_tests_is_not_collected(pack: Path) -> None:
    (pack / "test_layers.py").write_text("")
    assert stages.collect(pack, 60.0) == {"status": "wrong", "lines": ["no test is collected"]}


def test_a_failed_test_is_named_with_its_error(pack: Path) -> None:
    add(pack, "\n\ndef test_end_to_end() -> None:\n    raise ValueError('seven')\n")
    done = stages.run(pack, [], 60.0)
    assert done["status"] == "wrong"
    assert done["lines"] == ["test_end_to_end: ValueError: seven"]


def test_a_missing_library_is_no_fault_of_the_pack(pack: Path) -> None:
    add(
        pack,
        "\n\ndef test_finite() -> None:\n    raise ImportError('X requires the timm library but it was not found')\n",
    )
    assert stages.run(pack, [], 60.0) == {"status": "skipped", "lines": ["needs timm"]}


def test_checks_of_the_machine_run_where_asked(pack: Path) -> None:
    add(pack, "def test_speed() -> None:\n    raise ValueError\n", "test_speed.py")
    assert stages.run(pack, [], 60.0)["counts"] == "1 passed"
    assert stages.run(pack, ["test_speed.py"], 60.0)["status"] == "wrong"
    (pack / "test_speed.py").write_text("def test_speed() -> None:\n    assert False, 'slow'\n")
    done = stages.run(pack, ["test_speed.py"], 60.0)
    assert (done["status"], done["counts"]) == ("ok", "1 passed, 1 failed")
    assert "slow" in done["machine"][0]


def test_a_child_that_crashes_or_hangs_is_one_line() -> None:
    with pytest.raises(RuntimeError, match="did not end in 1 s"):
        stages.in_child(lambda: time.sleep(60), 1.0)
    with pytest.raises(RuntimeError, match="signal 9"):
        stages.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 60.0)
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        stages.in_child(lambda: {}["x"], 60.0)
    assert stages.in_child(lambda: {"a": [1, None]}, 60.0) == {"a": [1, None]}


def test_packs_that_differ_in_words_alone_are_equal(pack: Path) -> None:
    essence = stages.Essence()
    before = essence.of_pack(pack)
    (pack / "case.py").write_text('"""Another."""\n\nSEED = 5\n')
    (pack / "test_layers.py").write_text(TEST.replace("Holds.", "Other words."))
    assert stages.Essence().of_pack(pack) == before
    (pack / "test_layers.py").write_text(TEST.replace("== 0", "== 1"))
    assert essence.of_pack(pack) != before
    (pack / "case.py").write_text('"""Another."""\n\nSEED = "5"\n')
    assert essence.of_pack(pack)["case.py"] != before["case.py"]
