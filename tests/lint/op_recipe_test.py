#!/usr/bin/env python3
"""Adds an op to a copy of the tree as docs/recipes/op.md says: it touches the files that the recipe lists and no others, and its tests pass.

    op_recipe_test.py BUILD [--python]

BUILD is a build folder with tests. The op's changes are compiled and linked with the libraries that are in it; with --python
the extension as well (of a build with -DGABBRO_PYTHON=ON), and the op's Python tests run in the Python that runs this.
"""
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import lint_layers  # noqa: E402
from tree_files import copy_tree  # noqa: E402

RECIPE = "docs/recipes/op.md"

OP = """\
// Softsign.
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// y = x / (1 + |x|).
const Op kSoftsign = {
    .name = "softsign",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose = [](const Args& a) { return std::vector{a[0] / (abs(a[0]) + number_like(a[0], 1))}; },
    // (1 - |y|)².
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor &y = a.outputs[0], rest = number_like(y, 1) - abs(y);
      return {a.gradients[0] * rest * rest};
    },
};

Tensor softsign(const Tensor& x) {
  require_dtype("softsign", x, {DType::f32, DType::f16, DType::bf16, DType::f64});
  return record(kSoftsign, {x});
}

}  // namespace gabbro
"""

# File: the line after which something is put in (the only one that has these words), and what.
LINES = {
    "src/ops/op_table.h": ("extern const Op kSilu", "// softsign.cc\nextern const Op kSoftsign;"),
    "src/ops/op_table.cc": ("&kSilu,", "      &kSoftsign,"),
    "include/gabbro/ops/neural.h": ("Tensor silu(", "Tensor softsign(const Tensor& x);  // x / (1 + |x|)"),
    "src/ops/family_rules_test.cc": (
        "{[&] { gelu(flags); }",
        '      {[&] { softsign(flags); }, "[softsign] does not take bool of shape (2, 5) (only f32, f16, bf16, f64)"},'),
    "tests/reference/make_tensor_fixtures.py": (
        'each_dtype("silu"', '    for y in [x, x[:, :0], x[:1, :1]]:\n'
                             '        cases.add("softsign", [y.numpy()], functional.softsign(y).numpy(), 2)'),
    "tests/reference/make_grad_fixtures.py": ('"silu": unary(', '    "softsign": unary(functional.softsign),'),
    "tests/ops/op_calls.cc": (
        "std::map<std::string, OpCall> kOps",
        '      {"softsign", [](const Inputs& i, const json&) { return softsign(i[0]); }},'),
    "tests/grad/op_cases.cc": ("unary(kSilu, silu);", "  unary(kSoftsign, softsign, -1.9, 2.2);"),
    "python/src/ops_elementwise.cc": (
        '{"silu", silu,',
        '    {"softsign", softsign, Kind::kFloat, "x / (1 + abs(x)), element by element.", "[1.0, -3.0]",\n'
        '     "tensor([ 0.5 , -0.75])"},'),
    "python/tests/test_ops.py": ('"silu": lambda', '    "softsign": lambda x: x / (1 + np.abs(x)),'),
    "python/tests/test_errors.py": ('"bilinear": [', '    "softsign": [lambda f: f(FLAGS)],'),
    "docs/site/api/operations.rst": ("   silu", "   softsign"),
    "docs/fused_ops.md": ("- `clamp` (x, lowest", "- `softsign` x / (1 + |x|) of any shape (f32, f16, bf16), with a composition"),
}
FIXTURE = "tests/data/ops/tensor.json"  # make_tensor_fixtures.py writes it with PyTorch; here, its cases come from Python

# The test programs that know of the op, in one.
SOURCES = ["src/ops/softsign.cc", "src/ops/op_table.cc", "src/ops/family_rules_test.cc", "tests/ops/op_calls.cc",
           "tests/ops/array_calls.cc", "tests/ops/op_values_test.cc", "tests/grad/op_cases.cc", "tests/grad/layer_cases.cc",
           "tests/grad/finite_difference_test.cc"]


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def fixture_cases():
    """On 11, no and one element; a tensor is (shape, numbers)."""
    for shape, x in (((11,), [i * 0.375 - 2 for i in range(11)]), ((3, 0), []), ((1, 1), [-0.0])):
        tensor = lambda data: {"dtype": "f32", "shape": list(shape), "data": data}
        yield {"op": "softsign", "inputs": [tensor(x)], "attributes": {},
               "output": tensor([float(f"{single(v / (1 + abs(v))):.9g}") for v in x]), "ulps": 2}


def add_op(tree):
    """Writes the op into the tree. The paths of what changed."""
    (tree / "src/ops/softsign.cc").write_text(OP, encoding="utf-8")
    for path, (words, text) in LINES.items():
        lines = (tree / path).read_text(encoding="utf-8").split("\n")
        found = [number for number, line in enumerate(lines) if words in line]
        if len(found) != 1:
            raise AssertionError(f"{path} has {len(found)} lines with {words}: tell this test after which the op goes")
        # A call that goes on in further lines ends before the next entry.
        end = found[0]
        while lines[end].count("{") > lines[end].count("}") and lines[end + 1].startswith("       "):
            end += 1
        lines.insert(end + 1, text)
        (tree / path).write_text("\n".join(lines), encoding="utf-8")
    cases = (tree / FIXTURE).read_text(encoding="utf-8")
    added = "".join(",\n" + json.dumps(case, separators=(",", ":")) for case in fixture_cases())
    (tree / FIXTURE).write_text(cases.removesuffix("]\n") + added + "]\n", encoding="utf-8")
    return ["src/ops/softsign.cc", *LINES, FIXTURE]


def listed():
    """The patterns of the recipe's list of files."""
    text = (ROOT / RECIPE).read_text(encoding="utf-8")
    section = re.search(r"^## The files\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in section[1].split("\n") if line.startswith("- ")] if section else []
    return re.findall(r"`([\w*./]+)`", "\n".join(lines))


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))[:600]}\nended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


class Build:
    """How a build folder compiles and links, done with the copy's sources: nothing is written but below `folder`."""

    def __init__(self, build, tree, folder):
        self.build, self.tree, self.folder = build, tree, folder
        self.commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))

    def compile(self, sources, target, precompiled=True):
        """Objects of these sources, with the options that `target` is compiled with, but as fast as can be. `precompiled`:
        with its precompiled headers, which are those of this tree."""
        known = next(entry for entry in self.commands if f"/{target}.dir/" in entry["command"])
        words = shlex.split(known["command"])
        options = words[:words.index("-o")]
        copied = {f"-I{ROOT}": f"-I{self.tree}", f"-I{ROOT}/include": f"-I{self.tree}/include",
                  f'-DGABBRO_SOURCE_DIR="{ROOT}"': f'-DGABBRO_SOURCE_DIR="{self.tree}"'}
        options = [copied.get(option, option) for option in options]
        while not precompiled and "-include" in options:
            at = options.index("-include")
            del options[at:at + 2]

        def one(source):
            target = self.folder / (source.replace("/", "_") + ".o")
            run([*options, "-O0", "-g0", "-o", target, "-c", self.tree / source], cwd=known["directory"])
            return str(target)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, sources))

    def link(self, target, objects, keep, output):
        """Links like `target`, with these objects in front, and of its objects those for which `keep` is true."""
        commands = run(["ninja", "-C", self.build, "-t", "commands", target]).splitlines()
        words = shlex.split(next(line for line in reversed(commands) if f" -o {target} " in line))
        words = words[words.index("&&") + 1:] if "&&" in words else words
        words = words[:words.index("&&")] if "&&" in words else words
        at = words.index("-o")
        words = [word for i, word in enumerate(words) if i not in (at, at + 1) and (not word.endswith(".o") or keep(word))]
        first = next(i for i, word in enumerate(words) if word.endswith((".o", ".a", ".so")))
        # A library that has the old op_table.cc in one object with others may bring it along.
        words[first:first] = [*objects, "-Wl,--allow-multiple-definition", "-o", str(output)]
        run(words, cwd=self.build)


class OpRecipe(unittest.TestCase):
    build = python = None

    @classmethod
    def setUpClass(cls):
        # Always the same folder, for a compiler cache.
        cls.folder = cls.build / "recipe"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.tree = cls.folder / "tree"
        copy_tree(ROOT, cls.tree)
        cls.touched = add_op(cls.tree)
        cls.builds = Build(cls.build, cls.tree, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_it_touches_the_files_that_the_recipe_lists_and_no_others(self):
        patterns = listed()
        self.assertTrue(patterns)
        for path in self.touched:
            self.assertTrue(any(fnmatch.fnmatch(path, pattern) for pattern in patterns), f"{RECIPE} does not list {path}")
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(self.touched, pattern), f"{RECIPE} lists {pattern}, which need not change")

    def test_the_tree_keeps_the_rules_of_the_house(self):
        self.assertEqual(lint_layers.lint(self.tree), [])

    def test_its_values_gradients_and_refusals_are_right(self):
        if self.python:
            self.skipTest("CTest runs it")
        program = self.folder / "op_tests"
        self.builds.link("tests/op_values_test", self.builds.compile(SOURCES, "op_values_test"), lambda path: False, program)
        environment = {"GABBRO_DEVICE": "cpu", **os.environ, "GABBRO_BUILD_DIR": str(self.build)}
        tests = "*softsign*:Coverage.EveryOp*:FamilyRules.Elementwise*"
        output = run([program, f"--gtest_filter={tests}"], env=environment)
        # Three cases, each called twice; the gradient; every op has one; refusals.
        self.assertIn("[  PASSED  ] 9 tests", output)

    def test_python_has_it(self):
        if not self.python:
            self.skipTest("./test python runs it")
        package = self.folder / "python" / "gabbro"
        shutil.copytree(self.tree / "python" / "gabbro", package)
        for path in (self.build / "python" / "gabbro").iterdir():
            if path.suffix in (".so", ".pyi") and not path.name.startswith("_core.") or path.name == "gabbro_probe":
                (package / path.name).symlink_to(path.resolve())
        extension = next((self.build / "python" / "gabbro").glob("_core*.so"))
        replaced = "python/src/ops_elementwise.cc"
        objects = self.builds.compile(["src/ops/softsign.cc", "src/ops/op_table.cc", replaced], "gabbro_core")
        self.builds.link(str(extension.relative_to(self.build)), objects,
                         lambda path: not path.endswith("/ops_elementwise.cc.o"), package / extension.name)
        environment = {"GABBRO_DEVICE": "cpu", **os.environ, "PYTHONPATH": str(package.parent)}
        output = run([sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "softsign or lists_everything",
                      "python/tests/test_ops.py", "python/tests/test_errors.py", "python/tests/test_doctests.py"],
                     cwd=self.tree, env=environment)
        for test in ("test_unary[softsign]", "test_values_that_do_not_fit_are_value_errors_with_the_ops_name[softsign-",
                     "test_examples[softsign]", "test_the_site_lists_everything"):
            self.assertRegex(output, re.escape(test) + r".* PASSED")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    OpRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    OpRecipe.python = "--python" in sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
