"""Tests of Hugging Face models on the user's own device: what `gabbro testgen` does, from Python.

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


def _ask(words: list[str], fine: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The document of `gabbro testgen WORDS --json`."""
    done = subprocess.run([_program(), "testgen", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in fine:
        raise RuntimeError(done.stderr.strip() or f"gabbro testgen ended with code {done.returncode}")
    return dict(json.loads(done.stdout))


@dataclasses.dataclass(frozen=True)
class Pack:
    """A folder with the tests of one model."""

    folder: pathlib.Path
    model_type: str
    model_class: str
    checks: list[str]

    def run(self, device: str = "auto") -> dict[str, Any]:
        """Runs the tests; the document has `results`, `versions` and `machine`. A failed test does not raise."""
        words = [str(self.folder), "--run", "--devices", device, "--python", sys.executable]
        return _ask(words, fine=(0, 1))


def generate(
    model: str, out: str | os.PathLike[str], *, task: str = "", size: str = "tiny", force: bool = False
) -> Pack:
    """Writes the tests of a model type, a config.json, a model folder or a downloaded model to the folder `out`."""
    words = [model, "-o", os.fspath(out), "--size", size]
    words += ["--task", task] if task else []
    words += ["--force"] if force else []
    made = _ask(words)["types"][0]
    return Pack(pathlib.Path(made["folder"]), made["type"], made["class"], made["checks"])


def detect(run_model: bool = False) -> dict[str, Any]:
    """Verdict ("rocm", "cuda", "cpu"), reason, cards and contradictions of this machine."""
    return _ask(["--detect", "--python", sys.executable] + (["--run-model"] if run_model else []), fine=(0, 1))
