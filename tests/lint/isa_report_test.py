#!/usr/bin/env python3
"""tools/isa_report reads what LLVM's tools print, and counts waves as AMD's compilers do."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/isa_report"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("isa_report", str(TOOL))
isa_report = importlib.util.module_from_spec(importlib.util.spec_from_loader("isa_report", loader))
loader.exec_module(isa_report)

# Output of llvm-readelf --notes, shortened.
NOTES = """    AMDGPU Metadata:
        ---
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           48
        .value_kind:     by_value
    .group_segment_fixed_size: 128
    .max_flat_workgroup_size: 256
    .name:           quantize_rows
    .private_segment_fixed_size: 0
    .sgpr_count:     24
    .vgpr_count:     21
    .vgpr_spill_count: 0
    .wavefront_size: 32
  - .args:
      - .offset:         0
    .group_segment_fixed_size: 0
    .max_flat_workgroup_size: 256
    .name:           linear_q4_k_1
    .private_segment_fixed_size: 16
    .vgpr_count:     47
    .vgpr_spill_count: 3
    .wavefront_size: 32
amdhsa.target:   amdgcn-amd-amdhsa--gfx1100
"""
# Output of llvm-objdump -d.
CODE = """
lq.o:\tfile format elf64-amdgpu

000000000003c800 <linear_q4_k_1>:
\ts_clause 0x1                                               // 00000003C800: BF850001
\tglobal_load_b128 v[2:5], v[0:1], off                       // 00000003C804: DC5E0000 027C0000
\tglobal_load_b32 v6, v[0:1], off                            // 00000003C80C: DC520000 067C0000
\tglobal_load_d16_u8 v7, v[0:1], off                         // 00000003C814: DC7A0000 077C0000
\tglobal_load_dwordx4 v[2:5], v[0:1], off                    // 00000003C81C: DC5C8000 027F0000
\tv_dot4_i32_iu8 v8, v2, v3, v8 neg_lo:[1,1,0]               // 00000003C824: CC164008 7C220702
\tscratch_store_b32 off, v8, s32                             // 00000003C82C: DC690000 00200800

0000000000040000 <attention_f16>:
\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]  // 000000040000: CC404000 1C022108
\tds_load_b128 v[84:87], v2 offset:32                         // 000000040008: DBFC0020 54000002
\tds_read2_b64 v[2:5], v0 offset1:4                           // 000000040010: D8EE0400 02000000
\tds_store_b128 v2, v[84:87]                                  // 000000040018: DB7C0000 00005402
"""


class Parsing(unittest.TestCase):
    def test_notes(self):
        kernels = isa_report.parse_notes(NOTES)
        self.assertEqual(set(kernels), {"quantize_rows", "linear_q4_k_1"})
        self.assertEqual(kernels["quantize_rows"]["vgpr_count"], 21)
        self.assertEqual(kernels["linear_q4_k_1"]["vgpr_spill_count"], 3)
        self.assertEqual(kernels["linear_q4_k_1"]["private_segment_fixed_size"], 16)

    def test_instructions(self):
        counts = isa_report.count_instructions(CODE)
        product = counts["linear_q4_k_1"]
        self.assertEqual([product[name] for name in ("instructions", "dot4", "load 16 B", "load 4 B", "load less", "scratch")],
                         [7, 1, 2, 1, 1, 1])
        self.assertEqual(counts["attention_f16"]["matrix"], 1)
        self.assertEqual(counts["attention_f16"]["LDS loads"], 2)

    def test_spills_and_missing_instructions_are_complaints(self):
        kernel = isa_report.parse_notes(NOTES)["linear_q4_k_1"]
        found = list(isa_report.complaints("gfx1100", "linear_q4_k_1", kernel))
        self.assertEqual(len(found), 3, found)
        kernel.update(private_segment_fixed_size=0, vgpr_spill_count=0, **isa_report.count_instructions(CODE)["linear_q4_k_1"])
        kernel["scratch"] = 0
        self.assertEqual(list(isa_report.complaints("gfx1100", "linear_q4_k_1", kernel)), [])

    def test_products_of_few_tokens_load_16_bytes(self):
        kernel = {"private_segment_fixed_size": 0, "vgpr_spill_count": 0, "dot4": 96}
        for name in ("linear_f16_1_4", "linear_q4_k_1_paired", "linear_q6_k_8"):
            self.assertEqual(list(isa_report.complaints("gfx90a", name, kernel)), [f"gfx90a: {name} does not load 16 bytes at a time"])
            self.assertEqual(list(isa_report.complaints("gfx90a", name, {**kernel, "load 16 B": 4})), [])
        self.assertEqual(list(isa_report.complaints("gfx90a", "linear_f16_2_any", kernel)), [])

    def test_what_a_target_cannot_have_is_not_missed(self):
        kernel = {"private_segment_fixed_size": 0, "vgpr_spill_count": 0, "load 16 B": 4}
        self.assertEqual(list(isa_report.complaints("gfx10-1-generic", "linear_q4_k_1", kernel)), [])
        self.assertEqual(list(isa_report.complaints("gfx10-3-generic", "linear_q4_k_1", kernel)),
                         ["gfx10-3-generic: linear_q4_k_1 has no dot4 or matrix instruction"])
        spilled = {**kernel, "private_segment_fixed_size": 292, "dot4": 8, "matrix": 8}
        self.assertEqual(list(isa_report.complaints("gfx906", "attention_f16_tiled_128", spilled)), [])
        for target, name in (("gfx906", "linear_q4_k_8"), ("gfx1100", "attention_f16_tiled_128")):
            self.assertEqual(list(isa_report.complaints(target, name, spilled)), [f"{target}: {name} uses scratch memory"])

    def test_blocks_release_their_results_once(self):
        code = "\n0 <attention_f16_1>:\n" + "\tbuffer_wbl2 sc1   // 0: E0A48000\n" * 2 + "\tbuffer_wbl2 sc0 sc1   // 8: E0A48000\n"
        kernel = {"private_segment_fixed_size": 0, "vgpr_spill_count": 0, **isa_report.count_instructions(code)["attention_f16_1"]}
        self.assertEqual(list(isa_report.complaints("gfx942", "attention_f16_1", kernel)),
                         ["gfx942: attention_f16_1 writes the L2 cache back 2 times for other blocks"])
        self.assertEqual(list(isa_report.complaints("gfx942", "attention_f16_1", {**kernel, "L2 write-backs": 1})), [])

    def test_a_page_keeps_its_words_and_gets_new_tables(self):
        kernel = isa_report.parse_notes(NOTES)["quantize_rows"]
        kernel["occupancy"] = 16
        report = {"gfx1100": {"quantize_rows": kernel, "convert_rows_f16": kernel, "linear_q4_1_2": kernel, "add_f32": kernel}}
        page = isa_report.page_with("# Head\n\nWords.\n\n## gfx1100\n\n| old |\n| --- |\n| row |\n\n## gfx1201\n\n| kept |\n\n"
                                    "## Kernels of a prompt\n\nMore.\n\n### gfx1100\n\n| old |\n", report)
        rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("|")]
        self.assertEqual(rows, ["| kernel", "| ---", "| quantize_rows", "| kept |", "| kernel", "| ---", "| convert_rows_f16"])
        self.assertTrue(page.startswith("# Head\n\nWords.\n\n## gfx1100\n\n| kernel |"), page)
        self.assertIn("## Kernels of a prompt\n\nMore.\n\n### gfx1100\n\n", page)

    def test_kernels_of_many_tokens_need_matrix_instructions_where_there_are_any(self):
        kernel = {"private_segment_fixed_size": 0, "vgpr_spill_count": 0, "matrix": 0}
        for name in ("linear_q4_k_tiled_128", "attention_f16_tiled_64"):
            self.assertEqual(list(isa_report.complaints("gfx1201", name, kernel)), [f"gfx1201: {name} has no matrix instruction"])
            self.assertEqual(list(isa_report.complaints("gfx1030", name, kernel)), [])
            self.assertEqual(list(isa_report.complaints("gfx942", name, {**kernel, "matrix": 8})), [])
            self.assertEqual(len(list(isa_report.complaints("gfx942", name, {**kernel, "matrix": 8, "vgpr_spill_count": 1}))), 1)


class Occupancy(unittest.TestCase):
    def check(self, target, wave, registers, shared, waves):
        kernel = {"wavefront_size": wave, "vgpr_count": registers, "group_segment_fixed_size": shared,
                  "max_flat_workgroup_size": 256}
        self.assertEqual(isa_report.occupancy(target, kernel), waves, (target, registers, shared))

    def test_registers(self):  # computed by hand from the sizes of the register files
        self.check("gfx90a", 64, 128, 0, 4)
        self.check("gfx90a", 64, 129, 0, 3)
        self.check("gfx906", 64, 64, 0, 4)
        self.check("gfx906", 64, 24, 0, 10)
        self.check("gfx1100", 32, 96, 0, 16)
        self.check("gfx1100", 32, 97, 0, 12)
        self.check("gfx1030", 32, 64, 0, 16)
        self.check("gfx1030", 32, 128, 0, 8)

    def test_shared_memory(self):
        self.check("gfx90a", 64, 32, 32 << 10, 2)   # two blocks of four waves on four units
        self.check("gfx1100", 32, 32, 64 << 10, 4)  # two blocks of eight


class Times(unittest.TestCase):
    """Against figures of AMD's data sheets, and arithmetic by hand."""

    def test_rates(self):
        for target, teraflops in (("gfx942", 1307.4), ("gfx90a", 181), ("gfx908", 184.6), ("gfx1100", 122.8), ("gfx1201", 195),
                                  ("gfx906", 26.5), ("gfx950", 2516)):
            self.assertAlmostEqual(isa_report.chip_times.half_rate(target) / 1e12 / teraflops, 1, delta=0.01, msg=target)

    def test_bandwidth_is_that_of_the_card(self):
        for target, gigabytes in (("gfx942", 5300), ("gfx1100", 960), ("gfx1030", 512), ("gfx1151", 256)):
            self.assertEqual(isa_report.chip_times.bandwidth(target), gigabytes * 1e9)

    def test_every_target_of_its_own_has_a_chip(self):
        text = (TOOL.parents[1] / "CMakeLists.txt").read_text()
        targets = set(text.split("set(GABBRO_ALL_ROCM_TARGETS")[1].split(")")[0].split())
        self.assertEqual({target for target in targets if "generic" not in target}, set(isa_report.chip_times.CHIPS))
        for target in isa_report.chip_times.CHIPS:
            self.assertGreater(isa_report.chip_times.bandwidth(target), 0)

    def test_kernels(self):
        times = isa_report.chip_times.kernel_times
        # 14336 · 4096 weights of 144/256 bytes at 960 GB/s; a quarter of them by 64 · 96 a clock.
        found = times("gfx1100", "linear_q4_k_1", {"dot4": 96})
        self.assertAlmostEqual(found["us memory"], 34.41, places=2)
        self.assertAlmostEqual(found["us compute"], 0.9557, places=4)
        self.assertEqual(times("gfx1100", "linear_f16_1_2_paired", {})["us compute"], 0)
        self.assertAlmostEqual(times("gfx942", "linear_q8_0_tiled_128", {})["us compute"], 184, delta=1)
        self.assertEqual(times("gfx1100", "rms_norm", {}), {})
        self.assertEqual(times("gfx11-generic", "linear_q4_k_1", {"dot4": 96}), {})

    def test_models(self):
        model_times = isa_report.chip_times.model_times
        shape = isa_report.chip_times.shapes()["llama-8b"]
        # Llama 3.1 8B: 8.03 billion weights; a token reads all but the 0.53 billion of the embedding.
        self.assertAlmostEqual(model_times("gfx942", shape, "f16")[0], 7.504e9 * 2 / 5.3e12 * 1e3, delta=0.005)
        self.assertIsNone(model_times("gfx1102", shape, "f16"))


class Usage(unittest.TestCase):
    def test_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, TOOL, "--code", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^isa_report: error: there are no code objects in .*\nhint: .*\n$")


if __name__ == "__main__":
    unittest.main()
