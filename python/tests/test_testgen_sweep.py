"""The jobs of tests/testgen/sweep_cards.py: those whose time is over are named, and no result is lost."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "testgen"))
sweep_cards = pytest.importorskip("sweep_cards")
sweep_report = pytest.importorskip("sweep_report")


def outcomes(folder: Path, seconds: float, pause: float) -> dict[str, str]:
    def work(emit: Any) -> None:
        time.sleep(pause)
        emit({"phase": "done"})

    jobs = [sweep_cards.Job(name, work) for name in ("one", "two", "three")]
    rows = sweep_cards.run_jobs(jobs, 1, time.monotonic() + seconds, folder)
    names = iter([job.name for job in jobs])
    return {row.get("job", next(names, "")): row["phase"] for of_job in rows for row in of_job}


def test_jobs_within_the_time_run(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 60, 0) == {"one": "done", "two": "done", "three": "done"}


def test_jobs_after_the_time_do_not_run(tmp_path: Path) -> None:
    late = {"one": "not run", "two": "not run", "three": "not run"}
    assert outcomes(tmp_path, -1, 0) == late


def test_results_of_a_job_that_is_cut_off_are_kept(tmp_path: Path) -> None:
    def work(emit: Any) -> None:
        emit({"phase": "sweep", "test": "first"})
        time.sleep(60)

    [rows] = sweep_cards.run_jobs([sweep_cards.Job("slow", work)], 1, time.monotonic() + 1, tmp_path, 0.2)
    assert rows[0] == {"phase": "sweep", "test": "first"}
    assert rows[1]["phase"] == "process" and rows[1]["reason"].startswith("did not end in 1 s")


def sweep_of(folder: Path, first: int, types: int) -> Any:
    for name in "abcde":
        (folder / "packs" / name).mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({"types": list("abcde")}))
    paths = {"folder": folder, "out": folder / "out", "work": folder / "work"}
    return sweep_cards.Sweep(argparse.Namespace(**paths, first=first, types=types, parts="types"), {})


def test_two_runs_cover_different_types(tmp_path: Path) -> None:
    assert sweep_of(tmp_path, 0, 2).chosen() == ["a", "b"]
    assert sweep_of(tmp_path, 2, 100).chosen() == ["c", "d", "e"]


def row(test: str, status: str, phase: str = "sweep", reason: str = "wrong", size: str = "tiny") -> dict[str, Any]:
    return {
        "phase": phase,
        "type": "llama",
        "test": test,
        "status": status,
        "reason": reason,
        "size": size,
        "dtype": "f32",
        "check": "layers",
        "seconds": 0.5,
        **({"of": "sweep"} if phase == "control" else {}),
    }


def test_a_known_fault_is_no_alarm() -> None:
    rows = [
        row("test_a[cuda:0-f32]", "failed"),
        row("test_a[cpu-f32]", "passed", "control"),
        row("test_b[cuda:0-f32]", "failed", reason="wrong\nknown: it is (link)"),
        row("test_c[cuda:0-f32]", "failed", reason="other"),
        row("test_c[cpu-f32]", "failed", "control", "other"),
    ]
    found = {failed["test"][:6]: verdict for failed, verdict in sweep_report.compared(rows)}
    assert found == {"test_a": "alarm", "test_b": "known", "test_c": "fails on the CPU too"}


def test_the_line_of_a_type_counts_the_second_size() -> None:
    rows = [
        row("a", "passed"),
        row("b", "timeout"),
        row("c", "passed", size="heads"),
        row("d", "skipped", size="heads"),
    ]
    words = "heads of the real size 1 passed, 0 failed, 1 skipped"
    assert list(sweep_report.lines_of(rows)) == [f"llama: 2 passed, 1 failed, 1 skipped; of these with {words}; 2 s"]
