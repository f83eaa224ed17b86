#!/usr/bin/env python3
"""Findings of tools/lint_sizes.py: long files, long functions, and entries of its lists that are not needed any more."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lint_sizes  # noqa: E402


def function(name, lines):
    return f"template <class T>\nint {name}(int a,\n{' ' * 8}int b) {{\n" + "  a;\n" * (lines - 4) + "}\n"


def findings(files, long_files=frozenset(), long_functions=frozenset()):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (pathlib.Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / path).write_text(text)
        return [f"{path}:{line}: {what}" for path, line, what in
                lint_sizes.lint(pathlib.Path(folder), set(long_files), set(long_functions))]


class Sizes(unittest.TestCase):
    def test_files(self):
        self.assertEqual(findings({"src/a.cc": "\n" * 400, "docs/a.md": "\n" * 900}), [])
        self.assertEqual(findings({"tools/a.py": "\n" * 401}), ["tools/a.py:1: has 401 lines, more than 400"])
        self.assertEqual(findings({"src/a.cc": "\n" * 401}, {"src/a.cc"}), [])
        self.assertEqual(findings({"src/a.cc": "\n" * 400}, {"src/a.cc"}), ["src/a.cc:1: is short enough: take it off LONG_FILES"])

    def test_functions(self):
        long, short = function("f", 61), function("g", 60)
        before = 'namespace a {\n\nstruct B {\n  int c;\n};\nint d(int);\nconstexpr int e[] = {\n    1,\n};\n'
        self.assertEqual(findings({"src/a.cc": before + short + "\n" + short}), [])
        self.assertEqual(findings({"src/a.cc": before + short + long}), ["src/a.cc:70: f has 61 lines, more than 60"])
        self.assertEqual(findings({"src/a.cc": long}, long_functions={("src/a.cc", "f")}), [])
        self.assertEqual(findings({"src/a.cc": short}, long_functions={("src/a.cc", "g")}),
                         ["src/a.cc:1: g is short enough: take it off LONG_FUNCTIONS"])
        self.assertEqual(findings({"src/a_test.cc": long, "tests/b.cc": long, "python/src/c.cc": long, "a.py": long}), [])


if __name__ == "__main__":
    unittest.main()
