"""The emulated HIP runtime as ROCm 10 installs its own: in /opt/rocm/core-10.0/lib, with no link and no search path of
the loader. The plugin, the probe and the doctor take the same library, and a model on its card gives the CPU's tokens."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import support  # noqa: E402

RUNTIME = support.BUILD / "lib" / "emulated_hip" / "libamdhip64.so.7"
PROBE = support.BUILD / "lib" / "gabbro_probe"
CORE = "opt/rocm/core-10.0/lib"
RUN = ("run", support.TINY_F16, "Once", "--raw", "-n", "6", "--temperature", "0", "--json", "--device")
# A separate name space whose /opt holds nothing but ROCm: $0 is the library, the rest a command.
IN_OPT = f'mount -t tmpfs tmpfs /opt && mkdir -p /{CORE} && cp "$0" /{CORE} && exec "$@"'
NAME_SPACE = ("unshare", "--mount", "--map-root-user", "sh", "-c")


class Layouts(support.TestCase):
    def setUp(self):
        super().setUp()
        if not RUNTIME.exists():
            self.skipTest("the build has no emulated HIP runtime")
        self.environment = {**os.environ, "EMULATED_GPUS": "gfx1100", "EMULATED_GPU_STRICT": "10.0", "LD_LIBRARY_PATH": "",
                            "GABBRO_HOME": str(self.folder), "GABBRO_TUNING_FILE": ""}
        for name in ("GABBRO_SYSFS_ROOT", "GABBRO_DEVICE", "GABBRO_HIP_PATH", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV",
                     "CONDA_PREFIX"):
            self.environment.pop(name, None)

    def output(self, *command, **variables):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.TIMEOUT,
                              env={**self.environment, **variables})
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def check(self, library, *start, **variables):
        """`start`: what begins each command."""
        def tokens(device, **more):
            return json.loads(self.output(*start, support.PROGRAM, *RUN, device, **variables, **more))["token_ids"]
        log = self.folder / "loaded"
        self.assertEqual(tokens("rocm:0", LD_DEBUG="files", LD_DEBUG_OUTPUT=str(log)), tokens("cpu"))
        loaded = "".join(path.read_text() for path in self.folder.glob("loaded.*"))
        self.assertEqual(set(re.findall(r"calling init: (\S*/libamdhip64\S*)", loaded)), {library})
        probe = self.output(*start, PROBE, "hip", **variables)
        self.assertRegex(probe, rf"(?m)^path={re.escape(library)}$")
        self.assertIn("state=ok", probe)
        self.assertRegex(self.output(*start, support.PROGRAM, "devices", **variables), r"rocm:0 .*gfx1100, native")
        doctor = subprocess.run([*start, support.PROGRAM, "doctor"], capture_output=True, text=True,
                                timeout=support.TIMEOUT, env={**self.environment, **variables}).stdout
        self.assertRegex(doctor, rf"ok +hip-runtime +{re.escape(library)} 10\.0\.\d+ sees 1 GPU")

    def test_rocm_10_in_a_root_folder(self):
        (self.folder / CORE).mkdir(parents=True)
        library = shutil.copy(RUNTIME, self.folder / CORE)
        self.check(str(library), GABBRO_TOOLCHAIN_ROOT=str(self.folder))

    def test_rocm_10_in_opt(self):
        if shutil.which("unshare") is None or subprocess.run(
                [*NAME_SPACE, IN_OPT, RUNTIME, "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine allows no name spaces of mounts")
        if str(support.BUILD.resolve()).startswith("/opt/"):
            self.skipTest("the build is in /opt")
        self.check(f"/{CORE}/libamdhip64.so.7", *NAME_SPACE, IN_OPT, RUNTIME)


if __name__ == "__main__":
    unittest.main()
