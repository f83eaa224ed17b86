#!/usr/bin/env python3
"""Adds a quantization format to a copy of the tree as docs/recipes/quantization_format.md says: it touches the files that
the recipe lists and no others, and gives right numbers by being dequantized.

    quant_recipe_test.py BUILD

BUILD is a build folder with tests. What reads the table of formats is compiled again, for one instruction set of the CPU,
and linked with the libraries that are in it.
"""
import fnmatch
import pathlib
import re
import shutil
import struct
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import op_recipe_test as recipe  # noqa: E402

ROOT = recipe.ROOT
RECIPE = "docs/recipes/quantization_format.md"
TABLE = "include/gabbro/quant_traits.h"
SOURCE = "src/formats/quant/qx7.cc"

ROW = """\
  X(qx7, .ggml_name = "QX7", .ggml_type = 50, .file_type = 50, .block_elements = 32, .block_bytes = 29, \\
             .scale = ScaleCode::kE8M0)
"""
FORMAT = """\
// QX7, 32 elements in 29 bytes: an E8M0 exponent e, 28 bytes of 7-bit codes, low bits first;
// value = 2^(e - 128) · (q - 64) / 8.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void dequantize(const std::byte* block, float* out) {
  const float scale = e8m0_half(byte_at(block, 0));
  for (int i = 0; i < 32; ++i) {
    const int bit = 8 + 7 * i, low = byte_at(block, bit / 8), high = bit / 8 < 28 ? byte_at(block, bit / 8 + 1) : 0;
    out[i] = scale * (static_cast<float>(((low | high << 8) >> (bit % 8) & 127) - 64) / 8);
  }
}

}  // namespace

constinit const QuantFormat decoders::qx7 = {.dequantize = dequantize};

}  // namespace gabbro::quant
"""
SCRIPT = "tests/reference/make_quant_fixtures.py"
MOST_FILES = 3  # and the fixtures that the script writes
FIXTURES = ["tests/data/formats/quant/qx7.blocks", "tests/data/formats/quant/qx7.f32"]

# Sources that are made from the table, and their tests: of the formats, and of `linear` on the CPU.
FORMATS = [SOURCE, "src/formats/quant/quant.cc", "src/formats/quant/finite.cc", "src/formats/quant/random_blocks.cc",
           "src/formats/gguf/ggml_type.cc", "src/formats/file_type.cc", "src/formats/quant/quant_test.cc",
           "src/formats/quant/random_blocks_test.cc", "src/formats/file_type_test.cc"]
KERNELS = ["backends/cpu/kernels/linear/linear.cc", "backends/cpu/kernels/linear/linear_make.cc", "backends/cpu/kernels/linear/linear_few.cc",
           "backends/cpu/kernels/linear/linear_small_batch.cc", "backends/cpu/kernels/linear/linear_many.cc", "backends/cpu/kernels/linear/linear_plain.cc", "backends/cpu/kernels/index/embedding.cc",
           "backends/cpu/pack/pack.cc", "backends/cpu/kernel_table.cc"]
CPU_TESTS = ["backends/cpu/kernels/linear/linear_test.cc"]
SHARED = ["backends/common/dequantized.cc", "backends/common/linear_request.cc", "backends/common/request.cc"]
GPU = ["backends/gpu/pack.cc", "backends/gpu/pack_test.cc"]


def fixture():
    """Blocks of all exponents around 1, and their values."""
    blocks, values = b"", []
    for number in range(40):
        codes = [(31 * number + 17 * i + i * i) % 128 for i in range(32)]
        exponent = 128 + number % 13 - 6
        packed = sum(code << (7 * i) for i, code in enumerate(codes))
        blocks += bytes([exponent]) + packed.to_bytes(28, "little")
        values += [2.0 ** (exponent - 128) * (code - 64) / 8 for code in codes]
    return blocks, struct.pack(f"<{len(values)}f", *values)


def add_format(tree):
    """Writes the format into the tree. The paths of what changed."""
    text = (tree / TABLE).read_text(encoding="utf-8")
    end = text.index("// clang-format on\n")
    rows = text[:end].removesuffix("\n")
    (tree / TABLE).write_text(rows + " \\\n" + ROW + text[end:], encoding="utf-8")
    (tree / SOURCE).write_text(FORMAT, encoding="utf-8")
    script = (tree / SCRIPT).read_text(encoding="utf-8")
    (tree / SCRIPT).write_text(script.replace('"NVFP4": None}', '"NVFP4": None, "QX7": None}'), encoding="utf-8")
    for path, data in zip(FIXTURES, fixture()):
        (tree / path).write_bytes(data)
    return [TABLE, SOURCE, SCRIPT, *FIXTURES]


def listed():
    """The patterns of the recipe's list of files."""
    text = (ROOT / RECIPE).read_text(encoding="utf-8")
    section = re.search(r"^## The files\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in section[1].split("\n") if line.startswith("- ")] if section else []
    return re.findall(r"`([\w*./]+)`", "\n".join(lines))


class QuantRecipe(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.build / "quant_recipe"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.tree = cls.folder / "tree"
        recipe.copy_tree(ROOT, cls.tree)
        cls.touched = add_format(cls.tree)
        cls.builds = recipe.Build(cls.build, cls.tree, cls.folder)

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
        self.assertLessEqual(len(set(self.touched) - set(FIXTURES)), MOST_FILES)

    def test_the_tree_keeps_the_rules_of_the_house(self):
        self.assertEqual(recipe.lint_layers.lint(self.tree), [])

    def test_nothing_else_names_all_formats(self):
        """No switch takes a format by default: `default:` never stands in a file that names formats case by case."""
        for path in [*self.tree.rglob("*.cc"), *self.tree.rglob("*.h")]:
            text = path.read_text(encoding="utf-8")
            cases = re.findall(r"case DType::(?:i?q|t?q|mx|nv)\w+:", text)
            self.assertFalse(cases, f"{path.relative_to(self.tree)} has {cases}: make it a column of {TABLE}")

    def compile(self, sources, target):
        return self.builds.compile(sources, target, precompiled=False)

    def test_its_numbers_are_right(self):
        objects = self.compile(FORMATS, "formats_test") + self.compile(SHARED, "gabbro_backend_common")
        objects += self.compile(KERNELS, "gabbro_cpu_scalar") + self.compile(CPU_TESTS, "cpu_test")
        kernels = self.build / "backends/cpu/CMakeFiles/gabbro_cpu_scalar.dir"
        compiled = {source.removeprefix("backends/cpu/") + ".o" for source in KERNELS}
        objects += [str(path) for path in sorted(kernels.rglob("*.cc.o"))
                    if path.relative_to(kernels).as_posix() not in compiled]
        program = self.folder / "format_tests"
        self.builds.link("tests/cpu_test", objects, lambda path: False, program)
        tests = "*qx7*:FileType.*:*LinearTest.*scalar*"
        output = recipe.run([program, f"--gtest_filter={tests}"])
        for test in ("DequantizesAsGgufPyDoes/qx7", "HasBlocksAsItsTraitsSay/qx7", "AreFiniteWithTheMeanAndTheDeviation",
                     "EmbeddingAndDequantizeGiveTheFileValues/scalar", "EveryFormatAndTokenCount/scalar"):
            self.assertRegex(output, r"\[       OK \] .*" + re.escape(test))
        self.assertNotIn("FAILED", output)

    def test_gpus_get_its_weights_as_f16(self):
        objects = self.compile(FORMATS[:4], "formats_test") + self.compile(SHARED, "gabbro_backend_common")
        objects += self.compile(GPU[:1], "gabbro_gpu_host") + self.compile(GPU[1:], "gpu_test")
        program = self.folder / "gpu_tests"
        self.builds.link("tests/formats_test", objects, lambda path: False, program)
        self.assertIn("[  PASSED  ] 2 tests", recipe.run([program, "--gtest_filter=Pack.*"]))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    QuantRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
