"""Tests of Hugging Face models on the user's own device, as with `gabbro testgen`.

The program `gabbro` writes the tests; this package runs them.

>>> from gabbro import testgen
>>> pack = testgen.generate("llama", "tests")  # doctest: +SKIP
>>> pack.run()["results"]  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

__all__ = ["Pack", "detect", "generate"]


def _program() -> str:
    """The program gabbro: $GABBRO_PROGRAM, or the one on the path."""
    found = os.environ.get("GABBRO_PROGRAM") or shutil.which("gabbro")
    if not found:
        raise FileNotFoundError("the program gabbro is not on the path, and GABBRO_PROGRAM does not name it")
    return found


def _document_of(command: list[str], fine: tuple[int, ...]) -> dict[str, Any]:
    """The JSON document that a command prints. Raises RuntimeError for another exit code than `fine`."""
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in fine:
        raise RuntimeError(done.stderr.strip() or f"{pathlib.Path(command[0]).name} ended with code {done.returncode}")
    return dict(json.loads(done.stdout))


def _run_script(name: str, words: list[str]) -> dict[str, Any]:
    """Runs a script of this package in a separate process, where no device is in use yet. Returns its document."""
    script = pathlib.Path(__file__).resolve().parent / name
    return _document_of([sys.executable, "-B", str(script), *words], fine=(0, 1))


@dataclasses.dataclass(frozen=True)
class Pack:
    """A folder with the tests of one model."""

    folder: pathlib.Path
    model_type: str
    model_class: str
    checks: list[str]

    def run(self, device: str = "auto") -> dict[str, Any]:
        """Runs the tests; the document has `results`, `versions` and `machine`. A failed test does not raise."""
        return _run_script("runner.py", [str(self.folder), "--device", device])


def generate(
    model: str, out: str | os.PathLike[str], *, task: str = "", size: str = "tiny", force: bool = False
) -> Pack:
    """Writes the tests of a model type, a config.json, a model folder or a downloaded model to the folder `out`."""
    words = [model, "-o", os.fspath(out), "--size", size]
    words += ["--task", task] if task else []
    words += ["--force"] if force else []
    made = _document_of([_program(), "testgen", *words], fine=(0,))["types"][0]
    return Pack(pathlib.Path(made["folder"]), made["type"], made["class"], made["checks"])


def detect(run_model: bool = False) -> dict[str, Any]:
    """Verdict ("rocm", "cuda", "cpu"), reason, cards and contradictions of this machine."""
    return _run_script("detect.py", ["--run-model"] if run_model else [])
