#!/usr/bin/env python3
"""Findings of tools/lint_language.py: refused words, spelling, comments that begin with a relative clause."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lint_language


def findings(path, text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return [f"{number}: {what}" for _, number, what in lint_language.lint(pathlib.Path(folder))]


class Language(unittest.TestCase):
    def test_private_words(self):
        self.assertEqual(findings("src/a.cc", "// A tile.\nbool turned;\n"), ['2: "turned": transposed; of RoPE: rotated'])
        self.assertEqual(len(findings("src/a.cc", 'fail("the context is absurd");\n')), 1)
        self.assertEqual(len(findings("docs/a.md", "The rows lie in order.\n")), 1)

    def test_ordinary_uses_pass(self):
        for text in ("turned on", "has returned", "turned into", "std::endian::little", "too little memory", "a little-endian file",
                     "halves the size"):
            self.assertEqual(findings("src/a.cc", f"// The {text}.\n"), [], text)

    def test_american_spelling(self):
        self.assertEqual(findings("python/a.py", "optimiser = 1\n"), ['1: "optimiser": American spelling'])
        self.assertEqual(len(findings("src/a.h", "struct QuantiseRows;\n")), 1, "also within an identifier")
        self.assertEqual(findings("src/a.h", "bool otherwise, precise, promised;\n"), [])
        self.assertEqual(findings("src/a.cc", 'return "cancelled";\n'), [], "a value of a stable JSON field")

    def test_comments_begin_with_a_noun(self):
        self.assertEqual(findings("src/a.cc", "int x;  // What holds.\n"), ['1: "What ...": a comment begins with a noun or a verb'])
        self.assertEqual(findings("src/a.cc", "// The row and\n// Where the rest is.\n"), [], "the comment continues")
        self.assertEqual(findings("src/a.cc", "// Where is it?\n"), [], "a question")

    def test_sentences(self):
        for text in ("// It shows what it has.\n", "// Rows, each of which is whole.\n", "// The rows are those of x.\n",
                     'fail("axis is no letter");\n', "// Null where there is none.\n", "// Kept as it is.\n", "// One after the other.\n",
                     "int x;  // By one thread.\n", "// A row. Those that follow are zeros.\n", "// The same for rows.\n"):
            self.assertEqual(len(findings("src/a.cc", text)), 1, text)
        for text in ("// There is no row, and it is no longer than that.\n", "// Rows are stored as they are read.\n",
                     "// Rows\n// By column.\n", "// Standby.\n"):
            self.assertEqual(findings("src/a.cc", text), [], text)

    def test_names_of_several_words(self):
        self.assertEqual(findings("src/a.cc", "TEST(Pool, GivesBackMemory) {}\n"), ['1: "GivesBackMemory": release, free, return'])
        self.assertEqual(findings("src/a.cc", "Sideways, AlwaysOn;\n"), [])

    def test_fixtures_are_not_checked(self):
        self.assertEqual(findings("tests/data/a.cc", "bool turned;\n"), [])


if __name__ == "__main__":
    unittest.main()
