"""Runs a pack's own search for the operation behind a failed test, in the pack's folder.

    bisection.py PACK TEST [--output DIR] [--limit SECONDS] [--json]

Exit codes: 0 where an operation was found, 1 where none was, 2 for a folder without a pack.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import runner


def main(words: list[str]) -> int:
    pack, test, *rest = words
    folder = pathlib.Path(pack).resolve()
    if not (runner.shared_of(folder) / "locate.py").is_file():
        print(f"gabbro: error: {pack}: holds no pack with a locate.py", file=sys.stderr)
        return 2
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            print(f"gabbro: error: {sys.executable} has no {name} (--python names another)", file=sys.stderr)
            return 1
    out = pathlib.Path(rest[rest.index("--output") + 1]).resolve() if "--output" in rest else pathlib.Path.cwd()
    if "--output" in rest:
        rest[rest.index("--output") + 1] = str(out)
    runner.enter(folder)
    import locate

    return int(locate.main([test, *rest]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
