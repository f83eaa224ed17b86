#!/usr/bin/env python3
"""Adds a command to a copy of the tree as docs/recipes/command.md says: it touches the files that the recipe lists and no
others, help and the manual page have it, and its test passes.

    command_recipe_test.py BUILD

BUILD is a build folder with the program. Two files are compiled, and linked with what is in it.
"""
import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from recipe_files import RecipeFiles, insert, recipe  # noqa: E402

SOURCE, TABLE, TEST = "apps/cli/count.cc", "apps/cli/commands.h", "tests/cli/test_count.py"

COMMAND = """\
// `count`: the bytes of a text.
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

struct CountOptions {
  CommonOptions common;
  std::string text;
};

int count(const CountOptions& options) {
  if (options.common.json) {
    print_json(nlohmann::ordered_json{{"bytes", options.text.size()}});
  } else {
    print(fmt::format("{} bytes\\n", options.text.size()));
  }
  return 0;
}

}  // namespace

void add_count(Command root) {
  Command command = root.subcommand("count", "Count the bytes of a text");
  const auto options = std::make_shared<CountOptions>();
  command.option("TEXT", options->text, "The text").required().takes_text();
  add_output_options(command, options->common);
  command.runs([options] { return count(*options); });
}

}  // namespace gabbro::cli
"""
CASES = '''\
"""`count`: the bytes of a text."""
import json
import unittest

from support import gabbro


class Count(unittest.TestCase):
    def test_bytes(self):
        self.assertEqual(gabbro("count", "abc").text, "3 bytes\\n")
        self.assertEqual(json.loads(gabbro("count", "abc", "--json").text), {"bytes": 3})

    def test_missing_text(self):
        self.assertEqual(gabbro("count").code, 2)


if __name__ == "__main__":
    unittest.main()
'''


class CommandRecipe(RecipeFiles, unittest.TestCase):
    page, name, most_files = "docs/recipes/command.md", "command", 3

    @classmethod
    def add(cls, tree):
        (tree / SOURCE).write_text(COMMAND, encoding="utf-8")
        (tree / TEST).write_text(CASES, encoding="utf-8")
        insert(tree, TABLE, "void add_list(Command root);\n", "void add_count(Command root);\n")
        insert(tree, TABLE, "kCommands[])(Command) = {", "\n    add_count,")
        return [SOURCE, TABLE, TEST]

    def test_it_runs_and_is_in_help(self):
        objects = self.builds.compile([SOURCE, "apps/cli/main.cc"], "gabbro", precompiled=False)
        program = self.folder / "gabbro"
        self.builds.link("bin/gabbro", objects, lambda path: True, program)
        environment = {**os.environ, "GABBRO_PROGRAM": str(program), "GABBRO_BUILD_DIR": str(self.build),
                       "GABBRO_PLUGIN_PATH": str(self.build / "lib"), "GABBRO_DEVICE": "cpu"}
        self.assertIn("Ran 2 tests", recipe.run([sys.executable, self.tree / TEST], env=environment))
        for words in (["--help"], ["man"], ["completion", "bash"]):
            self.assertIn("count", recipe.run([program, *words], env=environment))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    CommandRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
