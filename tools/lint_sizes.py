#!/usr/bin/env python3
"""Checks the sizes of source files and functions: 400 lines a file, 60 lines a function.

    lint_sizes.py [--root ROOT]

Tables and bindings may be longer, and so may the files and functions that were longer when the limits were set: LONG_FILES
and LONG_FUNCTIONS list them. No further file or function gets on the lists, and one that has become short is taken off.
Functions are checked in C++ outside of tests. Prints one line per finding and exits 1 when there is one.
"""

import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree_files import tree_files  # noqa: E402

MOST_FILE_LINES, MOST_FUNCTION_LINES = 400, 60
CPP = {".h", ".cc", ".cu"}
CODE = CPP | {".py"}

TABLES = {
    "src/models/llm/published_configs.cc",
    "src/text/unicode/category_ranges.cc",
    "src/text/unicode/script_ranges.cc",
    "tests/conformance/family_cases.cc",
    "tests/conformance/op_cases.cc",
}
# Lists in the form of functions.
TABLE_FUNCTIONS = {
    ("src/models/llm/registry.cc", "families"),
    ("src/ops/cases/arrays.cc", "add_views"),
    ("src/ops/cases/reductions.cc", "add_reductions"),
    ("src/text/pipeline/pretokenizer_table.cc", "make_rules"),
    ("src/text/unicode/category_ranges.cc", "category_ranges"),
    ("src/text/unicode/script_ranges.cc", "script_ranges"),
    ("apps/cli/image.cc", "add_image"),
}
BINDINGS = re.compile(r"^python/src/")
LONG_FILES = {
    "backends/cpu/kernels/attention/attention.cc",
    "backends/cpu/kernels/linear/linear_test.cc",
    "backends/gpu/cuda/api_cuda.cc",
    "backends/gpu/sim/ordering_test.cc",
    "kernels/attention/attention_decode_matrix.cc",
    "kernels/linear/convert_f16.cc",
    "src/testgen/templates/locate.py",
    "src/testgen/templates/support.py",
    "tests/cli/random_conversions.py",
    "tests/reference/make_array_fixtures.py",
    "tests/reference/make_encoder_fixtures.py",
    "tests/reference/make_tokenizer_folders.py",
    "tests/server/page/test_page.py",
    "tests/server/test_openai.py",
}
LONG_FUNCTIONS = set()
TESTS = re.compile(r"^tests/|_test\.cc$")
# The beginning of a line that does not begin a function at the top level.
_OTHER = re.compile(
    r"[\s}#/\"]|(?:namespace|class|struct|enum|union|using|constexpr|inline constexpr|const|static const|extern \"C\" \{)\b"
)
_NAME = re.compile(r"([\w~]+)\s*\(")


def functions(lines):
    """(name, first line, lines) of each function at the top level of a file that clang-format has formatted."""
    number = 0
    while number < len(lines):
        head = number
        number += 1
        if not lines[head] or _OTHER.match(lines[head]):
            continue
        last = head
        while last + 1 < len(lines) and not lines[last].rstrip().endswith(("{", ";", "}")):
            last += 1
        signature = "\n".join(lines[head : last + 1])
        if not lines[last].rstrip().endswith("{") or "(" not in signature:
            number = last + 1
            continue
        end = next((i for i in range(last + 1, len(lines)) if lines[i].startswith("}")), len(lines) - 1)
        name = _NAME.search(re.sub(r"^template <.*?>\n", "", signature))
        yield name[1] if name else signature, head + 1, end - head + 1
        number = end + 1


def lint(root, long_files=LONG_FILES, long_functions=LONG_FUNCTIONS):
    """All findings as (file, line, what)."""
    findings, files, long_ones = [], set(), set()
    for file, path in tree_files(root):
        if file.suffix not in CODE:
            continue
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        if len(lines) > MOST_FILE_LINES and path not in TABLES:
            files.add(path)
            if path not in long_files:
                findings.append((path, 1, f"has {len(lines)} lines, more than {MOST_FILE_LINES}"))
        if file.suffix not in CPP or TESTS.search(path) or BINDINGS.search(path):
            continue
        for name, line, count in functions(lines):
            if count <= MOST_FUNCTION_LINES or (path, name) in TABLE_FUNCTIONS:
                continue
            long_ones.add((path, name))
            if (path, name) not in long_functions:
                findings.append((path, line, f"{name} has {count} lines, more than {MOST_FUNCTION_LINES}"))
    findings += [(path, 1, "is short enough: take it off LONG_FILES") for path in sorted(long_files - files)]
    findings += [
        (path, 1, f"{name} is short enough: take it off LONG_FUNCTIONS")
        for path, name in sorted(long_functions - long_ones)
    ]
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    if not args.root.is_dir():
        sys.exit(f"lint_sizes: error: {args.root} is not a folder")
    findings = lint(args.root)
    for path, number, what in findings:
        print(f"{path}:{number}: {what}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
