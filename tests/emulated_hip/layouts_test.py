"""The emulated HIP runtime as ROCm 10 installs its own: in /opt/rocm/core-10.0/lib, with no link and no search path of
the loader."""
import os
import shutil
import sys
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import support  # noqa: E402

RUNTIME = support.BUILD / "lib" / "emulated_hip"
RUN = ("run", support.TINY_F16, "Once", "--raw", "-n", "6", "--temperature", "0", "--device", "rocm:0")


class Layouts(support.TestCase):
    def setUp(self):
        super().setUp()
        os.environ.pop("GABBRO_SYSFS_ROOT", None)
        self.library = self.folder / "opt" / "rocm" / "core-10.0" / "lib" / "libamdhip64.so.7"
        self.library.parent.mkdir(parents=True)

    def gabbro(self, *arguments, **variables):
        return support.gabbro(*arguments, environment={
            "EMULATED_GPUS": "gfx1100", "EMULATED_GPU_STRICT": "10.0", "GABBRO_HOME": str(self.folder),
            "GABBRO_TUNING_FILE": "", **variables})

    def test_rocm_10(self):
        shutil.copy(RUNTIME / "libamdhip64.so.7", self.library)
        expected = self.gabbro(*RUN, LD_LIBRARY_PATH=str(RUNTIME))
        self.assertEqual(expected.code, 0, expected)
        variables = {"LD_LIBRARY_PATH": "", "GABBRO_TOOLCHAIN_ROOT": str(self.folder)}
        result = self.gabbro(*RUN, **variables)
        self.assertEqual((result.code, result.out), (0, expected.out), result)
        self.assertRegex(self.gabbro("devices", **variables).text, r"rocm:0 .*gfx1100, native")
        doctor = self.gabbro("doctor", **variables).text
        self.assertRegex(doctor, rf"ok +hip-runtime +{self.library} 10\.0\.\d+ sees 1 GPU")


if __name__ == "__main__":
    unittest.main()
