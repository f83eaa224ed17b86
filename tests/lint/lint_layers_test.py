#!/usr/bin/env python3
"""Each rule of tools/lint_layers.py finds a tree that breaks it, and nothing in a tree that keeps it."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lint_layers  # noqa: E402

HEADER = "// A header.\n#pragma once\n"
GOOD = {
    "include/gabbro/backend_abi.h": HEADER,
    "include/gabbro/quant_traits.h": HEADER,
    "include/gabbro/dtype.h": HEADER + '#include "gabbro/quant_traits.h"\n',
    "kernels/linear/packing.h": HEADER + '#include "include/gabbro/quant_traits.h"\n',
    "include/gabbro/tensor/tensor.h": HEADER + "#include <gabbro/dtype.h>\n",
    "include/gabbro/ops.h": HEADER + '#include "gabbro/ops/reduce.h"\n',
    "include/gabbro/ops/reduce.h": HEADER + '#include "gabbro/dtype.h"\n',
    "include/gabbro/train/clipping.h": HEADER,
    "src/base/error.h": HEADER + "#include <string>\n#define GABBRO_CHECK 1\n",
    "src/base/error.cc": '#include "src/base/error.h"\n',
    "src/tensor/shape.h": HEADER + '#include "src/base/error.h"\n',
    "src/graph/node.cc": '#include "gabbro/tensor/tensor.h"\n#include "src/tensor/shape.h"\n',
    "src/engine/session.cc": '#include "src/graph/node.h"\n#include "src/text/prompt.h"\n',
    "src/graph/node.h": HEADER,
    "src/text/prompt.h": HEADER,
    "src/formats/quant/q4_0.h": HEADER,
    "backends/cpu/gemv.h": HEADER,
    "backends/cpu/gemv.cc": '#include "backends/cpu/gemv.h"\n#include "gabbro/backend_abi.h"\n'
                            '#include "src/formats/quant/q4_0.h"\n#include <immintrin.h>\n',
    "backends/cpu/gemv_test.cc": '#include "src/graph/node.h"\n',
    "backends/gpu/hip_api.cc": "#include <hip/hip_runtime.h>\n",
    "apps/cli/main.cc": '#include "src/engine/session.h"\n',
    "apps/cli/command_line.cc": "#include <CLI/CLI.hpp>\n",
    "src/engine/session.h": HEADER,
    "docs/page.md": "A page.\n",
}

# Additions to a tree, and the finding that the linter must print for each.
BAD = [
    ({"src/base/up.cc": '#include "src/tensor/shape.h"\n'}, "base may not include"),
    ({"src/text/up.cc": '#include "src/graph/node.h"\n'}, "text may not include"),
    ({"src/models/config/up.cc": '#include "src/models/llm/step.h"\n', "src/models/llm/step.h": HEADER}, "src/models/config may not include"),
    ({"src/models/weights/up.cc": '#include "src/models/encoder/batch.h"\n', "src/models/encoder/batch.h": HEADER},
     "src/models/weights may not include"),
    ({"src/formats/side.cc": '#include "src/text/prompt.h"\n'}, "formats may not include"),
    ({"src/tensor/up.h": HEADER + '#include "src/graph/node.h"\n'}, "tensor may not include"),
    ({"src/graph/up.cc": '#include "src/engine/session.h"\n'}, "graph may not include"),
    ({"src/engine/plugin.cc": '#include "backends/cpu/gemv.h"\n'}, "backends are plugins"),
    ({"apps/cli/plugin.cc": '#include "backends/cpu/gemv.h"\n'}, "backends are plugins"),
    ({"backends/cpu/core.cc": '#include "src/graph/node.h"\n'}, "a backend may not include"),
    ({"kernels/gpu/up.h": HEADER + '#include "backends/cpu/gemv.h"\n'}, "kernels may not include"),
    ({"kernels/gpu/up.h": HEADER + '#include "src/base/error.h"\n'}, "kernels may not include"),
    ({"backends/other/twin.cc": '#include "backends/cpu/gemv.h"\n'}, "a backend may not include"),
    ({"src/strange/new.cc": '#include "src/base/error.h"\n'}, "unknown module"),
    ({"include/gabbro/dtype.h": HEADER + '#include "src/graph/node.h"\n'}, "it is installed without src/"),
    ({"include/gabbro/ops/sum.h": HEADER + '#include "src/graph/node.h"\n'}, "it is installed without src/"),
    ({"include/gabbro/ops/sum.h": HEADER + '#include "gabbro/train/clipping.h"\n'}, "ops may not include"),
    ({"src/graph/up.cc": '#include "gabbro/ops.h"\n'}, "graph may not include"),
    ({"src/ops/vendor.cc": "#include <hip/hip_runtime.h>\n"}, "name HIP or CUDA"),
    ({"src/ops/vendor.cc": "#include <cuda_runtime.h>\n"}, "name HIP or CUDA"),
    ({"python/src/part.cc": "auto n = PyTuple_GET_SIZE(tuple);\n"}, "PyTuple_GET_SIZE is not in Python's stable ABI"),
    ({"python/src/part.cc": "auto n = Py_TYPE(x)->tp_name;\n"}, "->tp_name is not in Python's stable ABI"),
    ({"src/base/list.cc": '#include <fmt/format.h>\nauto text = fmt::format("{}", fmt::join(list, " "));\n'},
     "fmt::join needs <fmt/ranges.h>"),
    ({"src/base/local.cc": '#include "error.h"\n'}, "not a path from the root"),
    ({"src/base/once.h": "// A header.\n"}, "no #pragma once"),
    ({"include/gabbro/llm.h": HEADER + "#ifdef __linux__\n#endif\n"}, "conditional compilation"),
    ({"src/base/long.cc": "int x;\n" * 801}, "801 lines"),
    ({"src/base/tab.cc": "\tint x;\n"}, "a tab"),
    ({"docs/space.md": "A page. \n"}, "white space at the end"),
    ({"docs/end.md": "A page."}, "no line end"),
    ({"src/base/macro.cc": "#define MINIMUM 1\n"}, "does not begin with GABBRO_"),
    ({"src/base/many.cc": "".join(f"#define GABBRO_{c} 1\n" for c in "ABCDEFGHI")}, "10 macros"),
    ({"src/base/later.cc": "// TO" + "DO: later\n"}, "unfinished work"),
    ({"docs/host.md": "https://files.python" + "hosted.org/x\n"}, "host name"),
    ({"docs/path.md": "See /wo" + "rk/main.\n"}, "path of one machine"),
    ({"docs/path.md": "See /ho" + "me/user/x.\n"}, "path of one machine"),
]


def findings_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return [f"{path}:{number}: {what}" for path, number, what in lint_layers.lint(root)]


class LintLayers(unittest.TestCase):
    def test_a_good_tree_has_no_findings(self):
        self.assertEqual(findings_of(GOOD), [])

    def test_each_broken_rule_is_found_where_it_is_broken(self):
        for files, expected in BAD:
            with self.subTest(expected, files=list(files)):
                findings = findings_of({**GOOD, **files})
                self.assertEqual(len(findings), 1, findings)
                self.assertIn(expected, findings[0])
                self.assertTrue(findings[0].startswith(next(iter(files))), findings)

    def test_bytes_that_are_not_utf8_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "x.cc").write_bytes(b"\xff\n")
            self.assertEqual(lint_layers.lint(pathlib.Path(folder)), [("x.cc", 1, "is not UTF-8")])

    def test_fixtures_and_generated_tables_are_exempt(self):
        self.assertEqual(findings_of({"tests/data/x.txt": "\tas it came \n"}), [])
        self.assertEqual(findings_of({"src/text/table.cc": "// Generated by make_table.py.\n" + "int x;\n" * 900}), [])

    def test_a_journal_is_as_long_as_its_month(self):
        self.assertEqual(findings_of({"docs/journal/2026-11.md": "A line.\n" * 900}), [])


if __name__ == "__main__":
    unittest.main()
