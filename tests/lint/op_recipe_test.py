#!/usr/bin/env python3
"""Adds an op of other ops, and an elementwise primitive, to copies of the tree as docs/recipes/op.md says: each touches the
files that its list there has and no others, at most 6 and 10, and its tests pass.

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
    .infer = like_first,
    .compose = [](const Args& a) { return std::vector{a[0] / (abs(a[0]) + number_like(a[0], 1))}; },
    // (1 - |y|)².
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor &y = a.outputs[0], rest = number_like(y, 1) - abs(y);
      return {a.gradients[0] * rest * rest};
    },
};

Tensor softsign(const Tensor& x) {
  require_dtype("softsign", x, kFloating);
  return record(kSoftsign, {x});
}

}  // namespace gabbro
"""

# The op of other ops. File: lines, as the words that only the line before has, and the text.
SOFTSIGN = {
    "src/ops/op_table.h": [("extern const Op kSilu", "// softsign.cc\nextern const Op kSoftsign;"),
                           ("    &kSilu, ", "    &kSoftsign,")],
    "include/gabbro/ops/neural.h": [("Tensor silu(", "Tensor softsign(const Tensor& x);  // x / (1 + |x|)")],
    "src/ops/cases/elementwise.cc": [(
        "const Unary kUnary[] = {",
        '    {.name = "softsign", .op = &kSoftsign, .call = softsign,\n'
        '     .reference = [](double x) { return x / (1 + std::abs(x)); }, .low = -1.9, .high = 2.2,\n'
        '     .refusal = "[softsign] does not take bool of shape (2, 5) (only f32, f16, bf16, f64)"},')],
    "python/src/ops_elementwise.cc": [(
        '{"silu", silu,',
        '    {"softsign", softsign, Kind::kFloat, "x / (1 + abs(x)), element by element.", "[1.0, -3.0]",\n'
        '     "tensor([ 0.5 , -0.75])"},')],
    "docs/site/api/operations.rst": [("   silu", "   softsign")],
}

# The primitive: x³.
CUBE = {
    "src/ops/elementwise_math.cc": [
        ('const Op kTrunc = elementwise_op(', """\
const Op kCube = elementwise_op("cube", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * x * x * number_like(x, 3); });
});"""),
        ("Tensor expm1(const Tensor& x) {", "Tensor cube(const Tensor& x) { return of_float(kCube, x); }")],
    "src/ops/op_table.h": [("extern const Op kCeil,", "extern const Op kCube;"), ("    &kCeil, ", "    &kCube,")],
    "include/gabbro/ops/elementwise.h": [("Tensor expm1(", "Tensor cube(const Tensor& x);  // x³")],
    "src/ops/cases/elementwise.cc": [(
        "const Unary kUnary[] = {",
        '    {.name = "cube", .op = &kCube, .call = cube, .reference = [](double x) { return x * x * x; },\n'
        '     .kernel = {{-20, 20, 3}}},')],
    "backends/cpu/kernels/elementwise/typed_unary.cc": [(
        "constexpr Unary kUnary[] = {", '    unary<[](auto x) { return x * x * x; }>("cube"),')],
    "kernels/elementwise/elementwise.h": [("namespace gabbro::gpu::GABBRO_GPU {", """\
struct Cube {
  GPU_FUNCTION static float of(float x) { return x * x * x; }
};""")],
    "kernels/elementwise/op_list.h": [("  X(neg, Neg)", "  X(cube, Cube) \\")],
    "python/src/ops_elementwise.cc": [(
        "constexpr Function kFunctions[] = {",
        '    {"cube", cube, Kind::kFraction, "x · x · x, element by element.", "[2.0]", "tensor([8.])"},')],
    "docs/site/api/operations.rst": [("   square", "   cube")],
    "docs/design/fused_ops.md": [("- unary, of floats: ", "  `cube` (x³), and")],
}

# The test programs that know of the op, in one.
TESTS = ["src/ops/cases/elementwise.cc", "tests/ops/entries_test.cc", "tests/ops/op_values_test.cc",
         "tests/grad/finite_difference_test.cc"]


def add_op(tree, changes):
    """Writes the lines into the files of the tree."""
    for path, insertions in changes.items():
        for words, text in insertions:
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


def listed(heading):
    """The patterns of the list of files in a section of the recipe."""
    text = (ROOT / RECIPE).read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
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

    def targets(self, source):
        """The targets that a source is compiled for."""
        commands = [entry["command"] for entry in self.commands if entry["file"].endswith(source)]
        return [re.search(r"/CMakeFiles/(\w+)\.dir/", command)[1] for command in commands]

    def compile(self, sources, target, precompiled=True):
        """Objects of these sources, with the options that `target` is compiled with, but as fast as can be. `precompiled`:
        with its precompiled headers, made from this tree."""
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
            path = self.folder / f"{target}_{source.replace('/', '_')}.o"
            run([*options, "-O0", "-g0", "-o", path, "-c", self.tree / source], cwd=known["directory"])
            return str(path)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, sources))

    def join(self, target, objects, replaced):
        """The one object that `target` is, with these objects instead of the one with this end: as the build joins them,
        since a function of a header that is compiled for an instruction set must stay local."""
        output = self.folder / pathlib.Path(target).name
        command = run(["ninja", "-C", self.build, "-t", "commands", target]).splitlines()[-1]
        words = shlex.split(command)
        made = str(self.build / target)
        at = words.index("-o") + 1
        inputs = [word for word in words[at + 1:words.index("&&", at)] if not word.endswith(replaced)]
        head = words[words.index("&&") + 1 if words[0] == "cd" else 0:at]
        run([*head, output, *objects, *inputs], cwd=self.build)
        tail = words[words.index("&&", at) + 1:]
        run([str(output) if word in (made, target) else word for word in tail], cwd=self.build)
        return str(output)

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


class Recipe:
    """What the recipes of both kinds of ops have in common."""

    build = python = None

    @classmethod
    def setUpClass(cls):
        # Always the same folder, for a compiler cache.
        cls.folder = cls.build / "recipe" / cls.op
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.tree = cls.folder / "tree"
        copy_tree(ROOT, cls.tree)
        add_op(cls.tree, cls.changes)
        if cls.source:
            (cls.tree / cls.source).write_text(OP, encoding="utf-8")
        cls.touched = [*cls.changes, *([cls.source] if cls.source else [])]
        cls.builds = Build(cls.build, cls.tree, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        if self.python and "python" not in self._testMethodName:
            self.skipTest("CTest runs it")

    def test_it_touches_the_files_that_the_recipe_lists_and_no_others(self):
        patterns = listed(self.heading)
        self.assertTrue(patterns)
        for path in self.touched:
            self.assertTrue(any(fnmatch.fnmatch(path, pattern) for pattern in patterns), f"{RECIPE} does not list {path}")
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(self.touched, pattern), f"{RECIPE} lists {pattern}, which need not change")
        self.assertLessEqual(len(self.touched), self.most_files)

    def test_the_tree_keeps_the_rules_of_the_house(self):
        self.assertEqual(lint_layers.lint(self.tree), [])

    def values_and_gradients(self, plugins):
        """The output of the op's tests with the plugins of a folder."""
        sources = [self.source or self.rule, *TESTS]
        program = self.folder / "op_tests"
        self.builds.link("tests/op_values_test", self.builds.compile(sources, "op_values_test"), lambda path: False, program)
        environment = {"GABBRO_DEVICE": "cpu", **os.environ, "GABBRO_PLUGIN_PATH": str(plugins)}
        return run([program, f"--gtest_filter=*{self.op}*:Coverage.EveryOp*"], env=environment)


class OpOfOtherOps(Recipe, unittest.TestCase):
    op, source, changes, heading, most_files = "softsign", "src/ops/softsign.cc", SOFTSIGN, "The files", 6

    def test_its_values_gradients_and_refusals_are_right(self):
        # Values, refusals, the gradient, and every op has one.
        self.assertIn("[  PASSED  ] 4 tests", self.values_and_gradients(self.build / "lib"))

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
        objects = self.builds.compile(["src/ops/softsign.cc", replaced], "gabbro_core")
        self.builds.link(str(extension.relative_to(self.build)), objects,
                         lambda path: not path.endswith("/ops_elementwise.cc.o"), package / extension.name)
        environment = {"GABBRO_DEVICE": "cpu", **os.environ, "PYTHONPATH": str(package.parent)}
        output = run([sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "softsign or lists_everything",
                      "python/tests/test_errors.py", "python/tests/test_doctests.py"],
                     cwd=self.tree, env=environment)
        for test in ("test_dtypes_that_a_docstring_does_not_name_are_refused[softsign]", "test_examples[softsign]",
                     "test_the_site_lists_everything"):
            self.assertRegex(output, re.escape(test) + r".* PASSED")


class ElementwisePrimitive(Recipe, unittest.TestCase):
    op, source, changes, heading, most_files = "cube", None, CUBE, "Elementwise primitives", 10
    rule = "src/ops/elementwise_math.cc"

    def plugin(self, name, objects, replaced):
        """A folder with libgabbro_<name>.so, in which these objects replace those with the ends."""
        library = f"libgabbro_{name}.so"
        (self.folder / "lib").mkdir(exist_ok=True)
        self.builds.link(f"lib/{library}", objects, lambda path: not path.endswith(replaced), self.folder / "lib" / library)
        return self.folder / "lib"

    def test_it_is_right_on_the_cpu(self):
        kernel = "backends/cpu/kernels/elementwise/typed_unary.cc"
        sets = []
        for target in self.builds.targets("backends/cpu/kernel_table.cc"):
            objects = self.builds.compile([kernel], target)
            sets.append(self.builds.join(f"backends/cpu/{target}.o", objects, "/typed_unary.cc.o"))
        plugins = self.plugin("cpu", sets, ())
        # Values, (no) refusals, the gradient, and every op has one.
        self.assertIn("[  PASSED  ] 4 tests", self.values_and_gradients(plugins))
        self.assert_kernels_are_exact(plugins, "cpu")

    def test_it_is_right_on_gpus(self):
        if not (self.build / "lib/libgabbro_sim.so").exists():
            self.skipTest("the simulator is not built")
        kernels = "kernels/elementwise/elementwise.cc"
        objects = self.builds.compile(["backends/gpu/ops/elementwise.cc"], "gabbro_gpu_host")
        objects += self.builds.compile([kernels], "gabbro_sim_kernels_32")
        self.assert_kernels_are_exact(self.plugin("sim", objects, "_sim_kernels_32.dir/__/__/" + kernels + ".o"), "sim:0")

    def assert_kernels_are_exact(self, plugins, device):
        sources = [self.rule, "src/ops/cases/elementwise.cc", "tests/kernels/elementwise_test.cc",
                   "tests/kernels/device_target.cc"]
        program = self.folder / "kernel_tests"
        self.builds.link("tests/kernel_test", self.builds.compile(sources, "kernel_test"), lambda path: False, program)
        environment = {**os.environ, "GABBRO_DEVICE": device, "GABBRO_PLUGIN_PATH": str(plugins)}
        self.assertIn("[  PASSED  ] 2 tests", run([program, "--gtest_filter=Elementwise.Unary*"], env=environment))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    Recipe.build = pathlib.Path(sys.argv[1]).resolve()
    Recipe.python = "--python" in sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
