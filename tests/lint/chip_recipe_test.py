#!/usr/bin/env python3
"""Adds a target of AMD GPUs to a copy of the tree as docs/recipes/chip.md says: it touches the files that the recipe lists
and no others, and its thresholds come from its row.

    chip_recipe_test.py BUILD

BUILD is a build folder with tests. Three files are compiled, and linked with the libraries that are in it.
"""
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from recipe_files import RecipeFiles, insert, recipe  # noqa: E402

TARGETS, TABLE, TEST = "CMakeLists.txt", "backends/gpu/tuning/chip.cc", "backends/gpu/tuning/chip_test.cc"

CASE = """\
#include <gtest/gtest.h>

#include "backends/gpu/tuning/chip.h"

using namespace gabbro::gpu;

TEST(ChipRecipe, ARowNamesOnlyWhatDiffers) {
  for (const char* const target : {"gfx1250", "gfx1251"}) {
    EXPECT_EQ(find_chip(target).target, "gfx125") << target;
    EXPECT_EQ(find_chip(target).small_batch_tokens, 2) << target;
    EXPECT_EQ(find_chip(target).untiled_tokens, Chip().untiled_tokens) << target;
  }
  EXPECT_EQ(find_chip("gfx1201").small_batch_tokens, Chip().small_batch_tokens);
}
"""


class ChipRecipe(RecipeFiles, unittest.TestCase):
    page, name, most_files = "docs/recipes/chip.md", "chip", 3

    @classmethod
    def add(cls, tree):
        insert(tree, TARGETS, "set(GABBRO_ALL_ROCM_TARGETS gfx906", " gfx1250")
        insert(tree, TABLE, '    {.target = ""},', '\n    {.target = "gfx125", .small_batch_tokens = 2},')
        insert(tree, TEST, 'for (const char* const target : {"gfx1100"', ', "gfx1250"')
        return [TARGETS, TABLE, TEST]

    def test_its_thresholds_are_those_of_its_row(self):
        (self.tree / "program.cc").write_text(CASE, encoding="utf-8")
        program = self.folder / "chip_tests"
        objects = self.builds.compile([TABLE, TEST, "program.cc"], "gpu_test", precompiled=False)
        self.builds.link("tests/gpu_test", objects, lambda path: False, program)
        self.assertIn("[  PASSED  ] 3 tests", recipe.run([program]))

    def test_thresholds_are_nowhere_else(self):
        """No rule of the GPU backend compares a number of tokens with a constant of its file."""
        for path in (self.tree / "backends/gpu/ops").glob("*"):
            found = re.findall(r"constexpr int64_t k(?:Few|Many|Most|Some)\w*Tokens", path.read_text(encoding="utf-8"))
            self.assertFalse(found, f"{path.name} has {found}: make it a column of {TABLE}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    ChipRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
