"""The plugin's code images on the emulated HIP runtime: each is plain ELF, and a runtime that refuses the first one gets
kernels that were compiled on this machine, source by source, in child processes."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import support  # noqa: E402

LIB = support.BUILD / "lib"
RUNTIME = LIB / "emulated_hip"
SOURCES = {path.stem for path in (ROOT / "kernels").rglob("*.cc")}
RUN = ("run", support.TINY_F16, "hello", "--raw", "-n", "5", "--temperature", "0", "--device", "rocm:0")


class Images(support.TestCase):
    def setUp(self):
        super().setUp()
        if not (RUNTIME / "libamdhip64.so.7").exists():
            self.skipTest("the build has no emulated HIP runtime")
        os.environ.pop("GABBRO_SYSFS_ROOT", None)

    def on_card(self, *arguments, compiler=False, card="gfx1100", **variables):
        folders = f"{RUNTIME}:{RUNTIME}/hiprtc" if compiler else str(RUNTIME)
        return support.gabbro(*arguments, environment={"LD_LIBRARY_PATH": folders, "EMULATED_GPUS": card,
                                                       "GABBRO_HOME": str(self.folder), **variables})

    def cached(self):
        return {path.stem for path in self.folder.glob("kernels/*/*.hsaco")}

    def test_each_target_has_an_elf_file_of_each_source(self):
        probe = subprocess.run([LIB / "gabbro_probe", "task", LIB / "libgabbro_rocm.so", "", "images"],
                               capture_output=True, text=True, check=True, timeout=support.TIMEOUT)
        counts = dict(re.findall(r"(?m)^(\S+): (\d+) sources, \d+ bytes$", probe.stdout))
        self.assertIn("gfx1100", counts)
        self.assertEqual(set(counts.values()), {str(len(SOURCES))})

    def test_a_refused_image_is_compiled_source_by_source(self):
        native = self.on_card(*RUN)
        self.assertEqual((native.code, self.cached()), (0, set()), native)
        for fault in ("image:1", "image:2"):  # at the start, and for a source that is needed later
            with self.subTest(fault):
                result = self.on_card(*RUN, compiler=True, EMULATED_GPU_FAIL=fault)
                self.assertEqual((result.code, result.out), (0, native.out), result)
        compiled = re.findall(r"(?m)^gabbro: compiling (\w+) for gfx1100$", result.err.decode())
        self.assertLess(self.cached(), SOURCES, "sources that no kernel needs were compiled")
        self.assertIn("rope_kv", self.cached())
        self.assertLessEqual(set(compiled), SOURCES)
        again = self.on_card(*RUN, compiler=True, EMULATED_GPU_FAIL="image:1")
        self.assertEqual((again.code, again.out), (0, native.out), again)
        self.assertNotIn(b"compiling rms_norm", again.err)

    def test_the_doctor_says_why(self):
        found = self.on_card("doctor", "--self-test", compiler=True, EMULATED_GPU_FAIL="image:1").text
        self.assertRegex(found, r"the runtime refuses the plugin's gfx1100 kernels \(.+\); kernels compiled here for gfx1100")
        self.assertRegex(found, r"update ROCm")

    def test_without_a_compiler(self):
        result = self.on_card(*RUN, EMULATED_GPU_FAIL="image:1")
        self.assertIn(result.code, (1, 3), result)
        self.assertRegex(result.err.decode(), r"the runtime refuses the plugin's gfx1100 kernels \(.+\), and there is no libhiprtc")


if __name__ == "__main__":
    unittest.main()
