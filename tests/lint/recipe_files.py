"""The parts that tests of recipes share: a copy of the tree with an addition, and its files against the page's list."""
import fnmatch
import pathlib
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import op_recipe_test as recipe  # noqa: E402

ROOT = recipe.ROOT


def listed(page, heading="The files"):
    """The patterns of the list of files in a section of a recipe."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in section[1].split("\n") if line.startswith("- ")] if section else []
    return re.findall(r"`([\w*./]+)`", "\n".join(lines))


def insert(tree, path, after, text):
    """Writes `text` after the one place of the file that has `after`."""
    whole = (tree / path).read_text(encoding="utf-8")
    if whole.count(after) != 1:
        raise AssertionError(f"{path} has {whole.count(after)} places with {after!r}: tell this test where the addition goes")
    (tree / path).write_text(whole.replace(after, after + text), encoding="utf-8")


class RecipeFiles:
    """Tests of an addition. A subclass has `page`, `heading`, `name`, `most_files` and `add(tree)`, which returns the paths."""

    build = None
    heading = "The files"

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.build / "recipe" / cls.name  # always the same, for a compiler cache
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.tree = cls.folder / "tree"
        recipe.copy_tree(ROOT, cls.tree)
        cls.touched = cls.add(cls.tree)
        cls.builds = recipe.Build(cls.build, cls.tree, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_it_touches_the_files_that_the_recipe_lists_and_no_others(self):
        patterns = listed(self.page, self.heading)
        self.assertTrue(patterns)
        for path in self.touched:
            self.assertTrue(any(fnmatch.fnmatch(path, pattern) for pattern in patterns), f"{self.page} does not list {path}")
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(self.touched, pattern), f"{self.page} lists {pattern}, which need not change")
        self.assertLessEqual(len(self.touched), self.most_files)

    def test_the_tree_keeps_the_rules_of_the_house(self):
        self.assertEqual(recipe.lint_layers.lint(self.tree), [])
