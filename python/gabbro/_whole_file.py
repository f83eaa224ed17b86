"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file beside `path` and puts it in its place. Raises OSError where that cannot be done."""
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
