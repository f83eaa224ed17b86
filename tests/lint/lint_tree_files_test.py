#!/usr/bin/env python3
"""tools/tree_files.py names the sources of a tree, and no output of other tools."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from tree_files import tree_files  # noqa: E402


class TreeFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name in ("a.cc", "docs/new page.md", "docs/generated/api.md", "build/b.cc"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("\n")
        (self.root / "link.cc").symlink_to("a.cc")

    def paths(self):
        return [path for _, path in tree_files(self.root)]

    def test_a_work_tree_has_what_git_would_add(self):
        subprocess.run(["git", "init", "--quiet", self.root], check=True)
        (self.root / ".gitignore").write_text("/docs/generated/\n")
        self.assertEqual(self.paths(), [".gitignore", "a.cc", "docs/new page.md"])
        subprocess.run(["git", "-C", self.root, "add", "a.cc"], check=True)
        (self.root / "a.cc").unlink()
        self.assertEqual(self.paths(), [".gitignore", "docs/new page.md"])

    def test_an_archive_has_all_files_outside_of_build_folders(self):
        self.assertEqual(self.paths(), ["a.cc", "docs/generated/api.md", "docs/new page.md"])


if __name__ == "__main__":
    unittest.main()
