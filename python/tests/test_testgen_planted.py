"""tests/testgen/planted_faults.py: only a test that ran has found a fault."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "testgen"))
planted_faults = pytest.importorskip("planted_faults")


def row(test: str, status: str, reason: str = "") -> dict[str, str]:
    return {"test": test, "status": status, "reason": reason}


def test_a_pack_that_cannot_be_collected_has_found_nothing(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    assert planted_faults.verdict(out)[::2] == ([], "no results")
    out.write_text(json.dumps([row("test_devices.py", "failed", "AttributeError: facts")]))
    assert planted_faults.verdict(out)[::2] == ([], "AttributeError: facts")
    found = row("test_layers[cpu-f32-tiny-lively]", "failed", "error 30 times the limit")
    out.write_text(json.dumps([found, row("test_repeat[cpu-f32-tiny]", "passed")]))
    assert planted_faults.verdict(out)[::2] == ([found], "")


def test_a_broken_run_is_not_good(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"fault": "gelu", "pack": "bert", "red": [], "named": True, "seconds": 1.0, "broken": "no results"}]
    assert planted_faults.summarize(rows, on_card=True) == 1
    assert "did not run: gelu (bert): no results" in capsys.readouterr().out


def test_the_packs_know_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_pack(pack: Path, options: argparse.Namespace, out: str) -> None:
        import machine

        Path(out).write_text(json.dumps(machine.detect()))

    (tmp_path / "machine.py").write_text("def detect():\n    return {}\n")
    monkeypatch.setattr(planted_faults.runner, "run_pack", run_pack)
    options: Any = argparse.Namespace(facts={"verdict": "cuda"}, device="cuda:0")
    process = planted_faults.run(tmp_path, lambda: None, tmp_path / "out", None, [], options)
    assert os.waitpid(process, 0)[1] == 0
    assert json.loads((tmp_path / "out").read_text()) == {"verdict": "cuda"}
