"""The document as a table, and as a page with plots."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import tempfile
from typing import Any

from gabbro._whole_file import write_whole

PLACE_OF_DOCUMENT = "__DOCUMENT__"


def _rate(work: float | None, seconds: float) -> str:
    """Billions per second, with three digits that mean something."""
    if not work:
        return "-"
    billions = work / seconds * 1e-9
    return f"{billions:.{0 if billions >= 100 else 1 if billions >= 10 else 2 if billions >= 1 else 3}f}"


def _line(row: dict[str, Any], width: int, peer: bool) -> str:
    start = f"{row['name']:<{width}} {row['dtype']:<5} "
    if row["seconds"] is None:
        return f"{start}skipped: {row['skipped']}"
    seconds, theirs = row["seconds"], row["peer_seconds"]
    columns = [f"{seconds[key] * 1e6:>11.2f}" for key in ("median", "min", "max")]
    columns += [f"{_rate(row['bytes'], seconds['median']):>8}", f"{_rate(row['flops'], seconds['median']):>9}"]
    if peer:
        columns += [f"{theirs['median'] * 1e6:>11.2f}" if theirs else f"{'-':>11}"]
        columns += [f"{row['ratio']:>6.2f}" if theirs else f"{'-':>6}"]
    return start + " ".join([*columns, f"{row['launches']:>8}", " " + ", ".join(dict.fromkeys(row["kernels"]))])


def table(document: dict[str, Any]) -> str:
    """One line for each case, in groups; microseconds. The ratio is our median by the peer's: less than 1 is faster."""
    rows, peer = document["results"], document["peer"]
    width = max(len(row["name"]) for row in rows)
    threads = f", {document['threads']} threads" if document["threads"] else ""
    compared = f", compared with {peer['name']} {peer['version']}" if peer else ""
    lines = [
        f"gabbro {document['version']} on {document['device']} ({document['device_name']}){threads}{compared}: "
        f"{len(rows)} cases of size {document['size']}"
    ]
    theirs = f"{peer['name'] + ' us':>11} {'ratio':>6} " if peer else ""
    group = None
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            lines.append(
                f"\n{group:<{width}} dtype {'median us':>11} {'min us':>11} {'max us':>11} {'GB/s':>8} "
                f"{'GFLOP/s':>9} {theirs}launches  kernels"
            )
        lines.append(_line(row, width, peer is not None))
    return "\n".join(lines)


def require_path(path: str) -> None:
    """Raises ValueError where no file can be written at this path, before minutes of measuring."""
    if not path:
        raise ValueError("--html: the name of the file is empty")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"--html: {path} is not a regular file")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ValueError(error if str(error).startswith("--html") else f"--html: {path}: {error}") from error
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or "."):
            pass
    except OSError as error:
        raise ValueError(f"--html: {path} cannot be written: {error.strerror}") from error


def page(document: dict[str, Any]) -> str:
    """The report: one HTML file with everything in it."""
    template = pathlib.Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    # Whatever a device calls itself cannot end the script element: `<` stands in strings alone.
    return template.replace(PLACE_OF_DOCUMENT, json.dumps(document).replace("<", "\\u003c"))


def write_page(path: str, document: dict[str, Any]) -> None:
    """Writes the whole page or nothing. Raises OSError where that cannot be done."""
    write_whole(path, page(document).encode())
