#!/usr/bin/env python3
"""Checks the pages of the repository: line lengths, links and anchors, and the paths that they name.

    lint_docs.py [ROOT]

Prints one line per finding, `file:line: message`, and exits 1 when there is one. A page is a *.md file; fixtures are
not checked. A path in backticks is checked if it begins with a folder of FOLDERS; a `*` in it matches as in a shell.
Pages of docs/journal name files as they were on the day, so their paths are not checked.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree_files import tree_files  # noqa: E402

MAX_LENGTH = 100
FOLDERS = ("src", "include", "backends", "kernels", "apps", "python", "tests", "bench", "docs", "examples", "tools",
           "cmake")
FIXTURES = re.compile(r"^tests/(data/|fuzz/corpus/|.*/fixtures/)")
JOURNAL = re.compile(r"^docs/journal/")

FENCE = re.compile(r"^\s*(```+|~~~+|:::+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE = re.compile(r"`+([^`]+)`+")
PATH = re.compile(r"^(?:" + "|".join(FOLDERS) + r")/[\w./*-]+$")


def anchor_of(heading):
    """The anchor of a heading, as GitHub and MyST make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(lines):
    """The lines outside of code fences, each with its number. A fence of colons holds prose."""
    fence = None
    for number, line in enumerate(lines, 1):
        mark = FENCE.match(line)
        if mark and not mark[1].startswith(":"):
            if fence is None:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = None
            continue
        if fence is None:
            yield number, line


def anchors(lines):
    """The anchors of a page; a heading that is there again gets a number."""
    found, counts = set(), {}
    for _, line in prose(lines):
        heading = HEADING.match(line)
        if not heading:
            continue
        anchor = anchor_of(heading[1])
        count = counts.get(anchor, 0)
        counts[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def check_link(root, file, target):
    """The reason why a link is broken, or None."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None  # another host, or mail
    name, _, anchor = target.partition("#")
    path = file.parent / name if name else file
    if name.startswith("/"):
        return f"{target}: a link is relative to its page"
    if not path.exists():
        return f"{name} does not exist"
    if root not in path.resolve().parents and path.resolve() != root:
        return f"{name} is not in the repository"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8").split("\n")):
        return f"{name or file.name} has no heading #{anchor}"
    return None


def path_exists(root, name):
    return any(root.glob(name)) if "*" in name else (root / name).exists()


def lint_page(root, file, path, report):
    lines = file.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LENGTH:
            report(path, number, f"{len(line)} characters are more than {MAX_LENGTH}")
    for number, line in prose(lines):
        for code in CODE.findall(line) if not JOURNAL.match(path) else ():
            if PATH.match(code) and not path_exists(root, code):
                report(path, number, f"{code} does not exist")
        for target in LINK.findall(CODE.sub("", line)):
            reason = check_link(root, file, target)
            if reason:
                report(path, number, reason)


def lint(root):
    """All findings as (file, line, message)."""
    findings = []
    for file, path in tree_files(root):
        if file.suffix == ".md" and not FIXTURES.match(path):
            lint_page(root, file, path, lambda *finding: findings.append(finding))
    return findings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    if not root.is_dir():
        sys.exit(f"lint_docs: error: {root} is not a folder")
    findings = lint(root)
    for path, number, message in findings:
        print(f"{path}:{number}: {message}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
