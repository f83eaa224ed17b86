"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a temporary file in the folder of `path` and renames it. Raises OSError if that fails."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
