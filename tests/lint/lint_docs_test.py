#!/usr/bin/env python3
"""Each rule of tools/lint_docs.py finds a page that breaks it, and nothing in pages that keep it."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lint_docs  # noqa: E402

PAGE = """\
# The page
`src/base/error.h`, `src/base/`, `src/*/error.h`, `src/<module>/x.cc`, `tokens/s`, `[x](gone.md)`.
[itself](page.md), [a heading](#two-words-and-code), [the second](#again-1),
[elsewhere](../README.md#top),
[out](https://example.org/gone.md), [code](../src/base/error.h#L3)
## Two words, and `code`
## Again
## Again
```
[in a transcript](gone.md) `src/gone.h`
```
"""
GOOD = {
    "docs/page.md": PAGE,
    "README.md": "# Top\n[the page](docs/page.md)\n" + "x" * 100 + "\n",
    "src/base/error.h": "// Errors.\n",
    "docs/journal/2026-11.md": "`src/base/gone.h` was slow.\n",
    "tests/data/page.md": "x" * 200 + "\n",
}

# Additions to a tree, and the finding that the linter must print for each.
BAD = [
    ({"docs/long.md": "x" * 101 + "\n"}, "docs/long.md:1: 101 characters are more than 100"),
    ({"docs/long.md": "```\n" + "x" * 101 + "\n```\n"}, "docs/long.md:2: 101 characters"),
    ({"docs/gone.md": "See `src/base/gone.h`.\n"}, "docs/gone.md:1: src/base/gone.h does not exist"),
    ({"docs/gone.md": "See `src/*/gone.h`.\n"}, "docs/gone.md:1: src/*/gone.h does not exist"),
    ({"docs/gone.md": "\nSee [this](gone/page.md).\n"}, "docs/gone.md:2: gone/page.md does not exist"),
    ({"docs/gone.md": "See [this](/docs/page.md).\n"}, "a link is relative to its page"),
    ({"docs/gone.md": "See [this](../..).\n"}, "../.. is not in the repository"),
    ({"docs/gone.md": "See [this](#nothing).\n"}, "gone.md has no heading #nothing"),
    ({"docs/gone.md": "See [this](page.md#again-2).\n"}, "page.md has no heading #again-2"),
    ({"docs/journal/2026-12.md": "[gone](2026-10.md)\n"}, "2026-10.md does not exist"),
]


def findings_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return [f"{path}:{number}: {message}" for path, number, message in lint_docs.lint(root)]


class LintDocs(unittest.TestCase):
    def test_good_pages_have_no_findings(self):
        self.assertEqual(findings_of(GOOD), [])

    def test_each_broken_rule_is_found_where_it_is_broken(self):
        for files, expected in BAD:
            with self.subTest(expected, files=list(files)):
                findings = findings_of({**GOOD, **files})
                self.assertEqual(len(findings), 1, findings)
                self.assertIn(expected, findings[0])

    def test_anchors_are_those_of_github(self):
        self.assertEqual(lint_docs.anchor_of("Cards, and `gabbro doctor`"), "cards-and-gabbro-doctor")
        self.assertEqual(lint_docs.anchor_of("[Links](x.md) & more"), "links--more")


if __name__ == "__main__":
    unittest.main()
