"""`./quickstart --plan` on the recorded machines of tests/data/sysfs, with compilers that are scripts: nothing is built."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import sysfs_trees  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
TREES = sysfs_trees.unpacked()
# The plan for each machine with both tool chains: device and targets.
PLANS = {
    "apu": ("rocm", "gfx1151"),
    "container": ("cpu", None),
    "igpu_and_dgpu": ("rocm", "gfx1036 gfx1100"),
    "mi210": ("rocm", "gfx90a"),
    "mi300x_8": ("rocm", "gfx942"),
    "no_driver": ("cpu", None),
    "no_gpu": ("cpu", None),
    "no_permission": ("cpu", None),
    "nvidia": ("cuda", "89"),
    "nvidia_h100": ("cuda", "90"),
    "rdna2": ("rocm", "gfx1030"),
    "rdna3": ("rocm", "gfx1100"),
    "rdna4": ("rocm", "gfx1201"),
}
ROCM_HEADERS = ["hip/hip_runtime_api.h", "rocblas/rocblas.h", "hipblaslt/hipblaslt.h", "hipblas-common/hipblas-common.h"]
CUDA_HEADERS = ["cuda.h", "nvrtc.h", "cublasLt.h"]
VARIABLES = ["ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "GABBRO_ROCM_TARGETS", "GABBRO_CUDA_TARGETS"]
# All that the script runs; the machine's own compilers are out of sight.
TOOLS = ["bash", "cat", "cut", "dirname", "env", "grep", "id", "realpath", "sed", "sh", "sort", "tr"]
DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\n'


class QuickStart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)  # stands for / of tool chains and of /etc/os-release
        self.system(DEBIAN_12)
        (self.root / "tools").mkdir()
        for name in TOOLS:
            (self.root / "tools" / name).symlink_to(shutil.which(name))

    def script(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(0o755)

    def headers(self, folder, names):
        for name in names:
            (self.root / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / folder / name).touch()

    def hipcc(self, prefix="opt/rocm", version="7.2.53211-9999"):
        self.script(f"{prefix}/bin/hipcc", f"echo 'HIP version: {version}'\necho 'AMD clang version 22.0.0git'\n")
        self.headers(f"{prefix}/include", ROCM_HEADERS)

    def nvcc(self, prefix="usr/local/cuda", version="13.0", code="sm_75 sm_80 sm_86 sm_89 sm_90"):
        self.script(f"{prefix}/bin/nvcc", f"""case $1 in
--version) echo 'nvcc: NVIDIA (R) Cuda compiler driver'; echo 'Cuda compilation tools, release {version}, V{version}.48' ;;
--list-gpu-code) printf '%s\\n' {code} ;;
esac
""")
        self.headers(f"{prefix}/include", CUDA_HEADERS)

    def system(self, text):
        (self.root / "etc").mkdir(exist_ok=True)
        (self.root / "etc/os-release").write_text(text)

    def apt(self, **candidates):
        lines = "\n".join(f"{name.replace('_', '-')}) echo '  Candidate: {version}' ;;" for name, version in candidates.items())
        self.script("bin/apt-cache", f'case $2 in\n{lines}\n*) echo "  Candidate: (none)" ;;\nesac\n')

    def run_plan(self, tree, *options, path="", **variables):
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        environment |= {"PATH": ":".join(filter(None, [path, f"{self.root}/bin", f"{self.root}/tools"])), "GABBRO_SYSFS_ROOT": str(TREES / tree),
                        "GABBRO_TOOLCHAIN_ROOT": str(self.root), "GABBRO_SURVEY": str(BUILD / "lib" / "gabbro_survey"), **variables}
        return subprocess.run([ROOT / "quickstart", "--plan", *options], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)

    def plan(self, tree, *options, **variables):
        """(device, targets, lines of standard error)"""
        done = self.run_plan(tree, *options, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        self.options = fields.get("options", "")
        return fields["device"], fields.get("targets"), done.stderr.splitlines()


class Plans(QuickStart):
    def test_every_recorded_machine_has_a_plan(self):
        self.assertEqual(set(PLANS), set(sysfs_trees.NAMES))
        self.hipcc()
        self.nvcc()
        for tree, (device, targets) in PLANS.items():
            with self.subTest(tree):
                self.assertEqual(self.plan(tree)[:2], (device, targets))

    def test_cmake_gets_the_compiler_and_the_targets(self):
        self.hipcc()
        self.plan("mi300x_8")
        self.assertEqual(self.options, f"-DGABBRO_ROCM=ON -DGABBRO_ROCM_TARGETS=gfx942 -DHIPCC={self.root}/opt/rocm/bin/hipcc")
        self.nvcc()
        self.plan("nvidia_h100")
        self.assertEqual(self.options, f"-DGABBRO_CUDA=ON -DGABBRO_CUDA_TARGETS=90 -DNVCC={self.root}/usr/local/cuda/bin/nvcc")

    def test_cards_are_those_that_gabbro_devices_lists(self):
        plugins = self.root / "plugins"
        plugins.mkdir()
        (plugins / "libgabbro_cpu.so").symlink_to(BUILD / "lib" / "libgabbro_cpu.so")
        for tree in PLANS:
            with self.subTest(tree):
                environment = {**os.environ, "GABBRO_SYSFS_ROOT": str(TREES / tree), "GABBRO_PLUGIN_PATH": str(plugins)}
                run = lambda *words: subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
                listed = [d for d in json.loads(run(BUILD / "bin" / "gabbro", "devices", "--json"))["devices"] if d["backend"] != "cpu"]
                found = [line.split("|") for line in run(BUILD / "lib" / "gabbro_survey").splitlines()]
                # Without a plugin, a card that the kernel offers lacks the plugin alone.
                expected = {d["id"]: (d["backend"], d["name"], "" if "backend is installed" in d["reason"] else d["reason"])
                            for d in listed}
                self.assertEqual({fields[1]: (fields[0], fields[3], fields[4]) for fields in found}, expected)
                for fields in found:
                    if fields[0] == "rocm":
                        self.assertIn((fields[1], fields[2]), [(d["id"], d["architecture"]) for d in listed])

    def test_a_device_that_is_asked_for_is_taken_or_an_error(self):
        self.hipcc()
        self.assertEqual(self.plan("rdna3", "--device", "cpu")[:2], ("cpu", None))
        self.assertEqual(self.plan("rdna3", "--device=rocm")[:2], ("rocm", "gfx1100"))
        for tree, device, reason in (("no_gpu", "rocm", "there is no AMD GPU"), ("rdna3", "cuda", "there is no NVIDIA GPU"),
                                     ("no_permission", "rocm", "this user may not open it"), ("nvidia", "cuda", "needs nvcc")):
            with self.subTest(f"{tree} {device}"):
                done = self.run_plan(tree, "--device", device)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                error, hint = done.stderr.splitlines()
                self.assertTrue(error.startswith("quickstart: error: ") and reason in error, error)
                self.assertTrue(hint.startswith("hint: ") and len(hint) > 10, hint)

    def test_a_card_that_cannot_be_used_has_the_line_of_gabbro_devices(self):
        self.hipcc()
        device, _, notes = self.plan("no_permission")
        self.assertEqual(device, "cpu")
        self.assertEqual(len(notes), 1)
        self.assertIn("/dev/kfd exists, but this user may not open it", notes[0])
        self.assertIn("sudo usermod -aG render,video", notes[0])

    def test_targets_can_be_named(self):
        self.nvcc()
        self.hipcc()
        self.assertEqual(self.plan("nvidia", GABBRO_CUDA_TARGETS="80;90")[1], "80 90")
        self.assertEqual(self.plan("rdna3", GABBRO_ROCM_TARGETS="gfx11-generic")[1], "gfx11-generic")

    def test_the_driver_knows_the_compute_capability(self):
        self.nvcc(code="sm_89 sm_90 sm_100")
        self.script("bin/nvidia-smi", "echo 9.0\necho 10.0\necho 9.0\n")
        self.assertEqual(self.plan("nvidia")[1], "90 100")
        self.script("bin/nvidia-smi", "echo 'NVIDIA-SMI has failed'\nexit 9\n")
        self.assertEqual(self.plan("nvidia")[1], "89")


class ToolChains(QuickStart):
    def test_places_of_hipcc(self):
        self.hipcc("somewhere")
        self.assertEqual(self.plan("rdna3")[0], "cpu")
        self.assertEqual(self.plan("rdna3", ROCM_PATH=f"{self.root}/somewhere")[0], "rocm")
        self.assertEqual(self.plan("rdna3", path=f"{self.root}/somewhere/bin")[0], "rocm")
        self.assertEqual(self.plan("rdna3", HIP_PATH=f"{self.root}/somewhere")[0], "rocm")
        # The highest number comes first, and /opt/rocm/bin, if it exists, before all.
        for prefix in ("opt/rocm-7.1.0", "opt/rocm/core-7.14", "opt/rocm/core-10.0", "opt/rocm"):
            self.hipcc(prefix)
            self.assertEqual(self.plan("rdna3")[0], "rocm")
            self.assertIn(f"-DHIPCC={self.root}/{prefix}/bin/hipcc", self.options)

    def test_places_of_nvcc(self):
        self.nvcc("somewhere")
        self.assertEqual(self.plan("nvidia")[0], "cpu")
        self.assertEqual(self.plan("nvidia", CUDA_HOME=f"{self.root}/somewhere")[0], "cuda")
        self.assertEqual(self.plan("nvidia", path=f"{self.root}/somewhere/bin")[0], "cuda")
        self.nvcc("usr/local/cuda-12.8")
        self.assertEqual(self.plan("nvidia")[0], "cuda")

    def test_an_old_compiler_is_passed_over(self):
        self.hipcc("old", version="5.2.21153")
        device, _, notes = self.plan("rdna3", path=f"{self.root}/old/bin")
        self.assertEqual(device, "cpu")
        self.assertIn("old/bin/hipcc is of version 5.2", notes[0])
        self.hipcc("opt/rocm")
        self.assertEqual(self.plan("rdna3", path=f"{self.root}/old/bin")[0], "rocm")

    def test_missing_headers_are_named(self):
        self.hipcc()
        (self.root / "opt/rocm/include/hipblaslt/hipblaslt.h").unlink()
        device, _, notes = self.plan("rdna3")
        self.assertEqual(device, "cpu")
        self.assertIn("hipblaslt/hipblaslt.h", notes[0])

    def test_a_card_that_nvcc_does_not_know(self):
        self.nvcc(code="sm_75 sm_80")
        device, _, notes = self.plan("nvidia_h100")
        self.assertEqual(device, "cpu")
        self.assertIn("compute capability 90", notes[0])

    def test_one_line_says_what_to_install_on_this_distribution(self):
        amd, nvidia = "AMD's package repository", "NVIDIA's package repository"
        new, old = dict(hipcc="7.2.0-1", nvidia_cuda_toolkit="12.4.1-3"), dict(hipcc="5.2.3-1", nvidia_cuda_toolkit="11.8.89-1")
        for system, apt, rocm, cuda in (
                (DEBIAN_12, old, ("sudo apt-get install rocm-hip-sdk", amd), ("sudo apt-get install cuda-toolkit", nvidia)),
                (DEBIAN_12, {}, ("sudo apt-get install rocm-hip-sdk", amd), ("sudo apt-get install cuda-toolkit", nvidia)),
                ("ID=debian\n", new, ("sudo apt-get install hipcc", ""), ("sudo apt-get install nvidia-cuda-toolkit", "")),
                ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"26.04\"\n", new, ("sudo apt-get install hipcc", ""),
                 ("sudo apt-get install nvidia-cuda-toolkit", "")),
                ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", old, ("sudo apt-get install rocm-hip-sdk", amd),
                 ("sudo apt-get install cuda-toolkit", nvidia)),
                ("ID=fedora\nVERSION_ID=44\n", {}, ("sudo dnf install rocm-hip-devel", ""), ("sudo dnf install cuda-toolkit", nvidia)),
                ("ID=fedora\nVERSION_ID=42\n", {}, ("sudo dnf install rocm-hip-sdk", amd), ("sudo dnf install cuda-toolkit", nvidia)),
                ("ID=rocky\nID_LIKE=\"rhel centos fedora\"\n", {}, ("sudo dnf install rocm-hip-sdk", amd),
                 ("sudo dnf install cuda-toolkit", nvidia)),
                ("ID=arch\n", {}, ("sudo pacman -S --needed rocm-hip-sdk", ""), ("sudo pacman -S --needed cuda", "")),
                ("ID=opensuse-tumbleweed\nID_LIKE=\"opensuse suse\"\n", {}, ("sudo zypper install rocm-hip-devel", ""),
                 ("sudo zypper install cuda-toolkit", nvidia)),
                ("ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n", {}, ("sudo zypper install rocm-hip-sdk", amd),
                 ("sudo zypper install cuda-toolkit", nvidia)),
                ("ID=something\n", {}, ("install ROCm 7", ""), ("install the CUDA tool kit", ""))):
            self.system(system)
            self.apt(**apt)
            for tree, words in (("rdna3", rocm), ("nvidia", cuda)):
                with self.subTest(f"{system} {tree}"):
                    device, _, notes = self.plan(tree)
                    self.assertEqual((device, len(notes)), ("cpu", 1), notes)
                    for word in words:
                        self.assertIn(word, notes[0])


class Usage(QuickStart):
    def test_wrong_options_end_with_one_clear_line_and_code_2(self):
        for words, text in ((["--device", "gpu"], "--device 'gpu' is not one of auto, cpu, rocm and cuda"), (["--device"], "--device needs"),
                            (["--device", ""], "--device ''"), (["--quick"], "unknown option --quick"), (["-x"], "unknown option -x"),
                            (["--max-tokens", "0"], "'0' is not a number"), (["one", "two"], "put it in quotes"), ([""], "question is empty")):
            with self.subTest(words):
                done = self.run_plan("no_gpu", *words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(len(done.stderr.splitlines()), 2)
                self.assertTrue(done.stderr.startswith("quickstart: error: ") and text in done.stderr, done.stderr)

    def test_a_question_may_begin_with_a_dash_after_two(self):
        self.assertEqual(self.plan("no_gpu", "--", "--what is this?")[0], "cpu")

    def test_help(self):
        done = self.run_plan("no_gpu", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--device auto|cpu|rocm|cuda", done.stdout)


if __name__ == "__main__":
    unittest.main()
