"""hipBLASLt on the emulated HIP runtime: its first products run in a child process, and a library that crashes or makes
the device fail there is not used."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import support  # noqa: E402

RUNTIME = support.BUILD / "lib" / "emulated_hip"
PROMPT = "abcdefghijklmnopqrstuvwxyz" * 4  # more tokens than the batch kernels take
RUN = ("run", support.TINY_F16, PROMPT, "--raw", "-n", "4", "--temperature", "0", "--device", "rocm:0")


class Products(support.TestCase):
    def setUp(self):
        super().setUp()
        if not (RUNTIME / "hipblaslt" / "libhipblaslt.so.1").exists():
            self.skipTest("the build has no emulated hipBLASLt")
        os.environ.pop("GABBRO_SYSFS_ROOT", None)
        self.verdicts = self.folder / "tuning.txt"

    def on_card(self, *arguments, card="gfx942", **variables):
        return support.gabbro(*arguments, environment={
            "LD_LIBRARY_PATH": f"{RUNTIME}:{RUNTIME}/hipblaslt", "EMULATED_GPUS": card, "GABBRO_HOME": str(self.folder),
            "GABBRO_TUNING_FILE": str(self.verdicts), **variables})

    def texts(self):
        """The verdicts of the tuning file."""
        lines = self.verdicts.read_text().splitlines() if self.verdicts.exists() else []
        return {line.split("\t")[1]: line.split("\t")[2] for line in lines if "check of products: " in line}

    def doctor(self, **variables):
        text = self.on_card("doctor", "--self-test", **variables).text
        return next(line for line in text.splitlines() if " products " in line)

    def test_a_library_that_works(self):
        without = self.on_card(*RUN, GABBRO_ROCM_LIBRARIES="")
        self.assertEqual((without.code, self.texts()), (0, {}), without)
        result = self.on_card(*RUN)
        self.assertEqual((result.code, result.out), (0, without.out), result)
        self.assertIn(b"gabbro: trying hipBLASLt: first product\n", result.err)
        self.assertEqual(set(self.texts().values()), {"works"})
        self.assertGreater(len(self.texts()), 1)
        self.assertNotIn(b"trying", self.on_card(*RUN).err, "verdicts are kept")
        self.assertRegex(self.doctor(), r"^ok +products +rocm:0: hipBLASLt [\d.]+ may multiply matrices; not rocBLAS: there is no")

    def test_a_library_that_fails_is_dropped(self):
        without = self.on_card(*RUN, GABBRO_ROCM_LIBRARIES="")
        for fault, why in (("gemm:crash", "crashed: signal"), ("gemm:fault", "waiting for the device")):
            with self.subTest(fault):
                self.verdicts.unlink(missing_ok=True)
                result = self.on_card(*RUN, EMULATED_GPU_FAIL=fault)
                self.assertEqual((result.code, result.out), (0, without.out), result)
                self.assertIn(why, self.texts()["check of products: any shape"])
                again = self.on_card(*RUN)  # also where the library would work: it is the same file
                self.assertEqual((again.code, again.out), (0, without.out), again)
                self.assertNotIn(b"trying", again.err)
                self.assertIn(why, self.doctor())

    def test_rdna_does_without_until_it_is_tuned(self):
        result = self.on_card(*RUN, card="gfx1201")
        self.assertEqual(result.code, 0, result)
        self.assertNotIn(b"trying", result.err)
        chosen = self.on_card(*RUN, card="gfx1201", GABBRO_ROCM_LIBRARIES="hipblaslt")
        self.assertIn(b"trying hipBLASLt", chosen.err)


if __name__ == "__main__":
    unittest.main()
