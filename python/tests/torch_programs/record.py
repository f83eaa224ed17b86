"""Runs the programs with PyTorch and stores their losses: python torch_programs/record.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PROGRAMS = ("dqn", "gan", "gpt", "word2vec")


def with_torch(name: str) -> list[float]:
    """The losses of the program with its import replaced, from another process."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    text = text.replace("import gabbro as torch", "import torch").replace("gabbro", "torch").split("if __name__")[0]
    text += "\nimport json\nprint(json.dumps(losses()))"
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    rounded = {name: [float(f"{loss:.7g}") for loss in with_torch(name)] for name in PROGRAMS}
    (FOLDER / "losses.json").write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
