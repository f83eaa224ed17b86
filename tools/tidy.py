#!/usr/bin/env python3
"""Runs clang-tidy over the project's sources (not the tests), two at a time, and skips what was clean before.

    tidy.py BUILD_FOLDER [--deep] [REGEX]

--deep adds the static analyzer, which takes three times as long as all other checks together. What a file's verdict
depends on (its text, the texts of ours that it includes, its compile command, .clang-tidy and clang-tidy's version) is
hashed; a clean verdict is kept under BUILD_FOLDER/tidy by that hash.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GCC_ONLY = re.compile(r" -f(?:no-)?(?:gnu-unique|tree-reassoc)\b")  # clang does not know these, and stops at them
FORCED_INCLUDE = re.compile(r" -include ([\w/.]+\.h)(?= )")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def texts_of(path, seen):
    """The texts of a file and of everything of ours that it includes."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    text = path.read_text(encoding="utf-8")
    yield text
    for name in INCLUDE.findall(text):
        for base in (ROOT, ROOT / "include"):
            yield from texts_of(base / name, seen)


def key_of(path, command, version, options):
    digest = hashlib.sha256()
    seen = set()
    ahead = [text for name in FORCED_INCLUDE.findall(command) for text in texts_of(ROOT / name, seen)]
    for part in (version, *options, (ROOT / ".clang-tidy").read_text(), command, *ahead, *texts_of(path, seen)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def check(path, commands, options):
    return subprocess.run(["clang-tidy", "--quiet", f"-p={commands}", *options, str(path)], capture_output=True, text=True)


def main():
    words = [word for word in sys.argv[1:] if word != "--deep"]
    options = [] if "--deep" in sys.argv else ["--checks=-clang-analyzer-*"]
    build = pathlib.Path(words[0]).resolve()
    wanted = re.compile(words[1] if len(words) > 1 else "")
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = GCC_ONLY.sub("", entry["command"])
    (cache / "compile_commands.json").write_text(json.dumps(entries))
    pending = {}
    total = 0
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith(("tests/", "build/")) or relative.endswith("_test.cc") or not wanted.search(relative):
            continue
        total += 1
        key = key_of(path, entry["command"], version, options)
        if not (cache / key).exists():
            pending[path] = key
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {pool.submit(check, path, cache, options): path for path in pending}
        for job in concurrent.futures.as_completed(jobs):
            path, result = jobs[job], job.result()
            if result.returncode == 0:
                (cache / pending[path]).touch()
            else:
                failed += 1
                print(f"{path.relative_to(ROOT)}:\n{result.stdout}{result.stderr}", flush=True)
    print(f"clang-tidy: {total} files, {total - len(pending)} known to be clean, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
