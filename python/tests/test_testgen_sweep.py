"""The jobs of tests/testgen/sweep_cards.py: those whose time is over are named, and none is lost."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "testgen"))
sweep_cards = pytest.importorskip("sweep_cards")


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
