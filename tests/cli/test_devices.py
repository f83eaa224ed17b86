"""`devices`, `doctor` and --device on recorded machines (tests/data/sysfs), which GABBRO_SYSFS_ROOT puts in the place of
this one. No backend plugin for GPUs takes part: what is tested is what the library knows without one."""
import json
import os
import shutil
import subprocess
import sys
import unittest.mock

import support
import sysfs_trees
from support import ROOT, TINY_F16, TREES, TestCase

MACHINES = sysfs_trees.NAMES
# Faults of AMD's own tool, and those it does not know, by the checks that look for them.
KNOWN_FAULTS = ["architecture", "gfx-override", "runtime-kernel-pair", "permissions", "amdgpu-driver", "rocm-path",
                "package-repositories", "python-packages", "integrated-and-discrete", "container", "iommu", "installer",
                "windows-hip-sdk", "windows-adrenalin", "windows-msvc-runtime"]
OTHER_FAULTS = ["kernels", "peer-copies", "apu-memory", "miopen-search", "allocator", "host-copies", "idle-power",
                "hang-recovery", "bandwidth", "pcie-atomics"]
VARIABLES = ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
             "HSA_OVERRIDE_GFX_VERSION", "GABBRO_DEVICE", "ROCM_PATH", "HIP_PATH", "GABBRO_HIP_PATH", "MIOPEN_FIND_ENFORCE", "VIRTUAL_ENV",
             "CONDA_PREFIX"]


class Recorded(TestCase):
    def setUp(self):
        super().setUp()
        # Only the CPU's plugin, wherever the build has others.
        plugin = support.BUILD / "lib" / "libgabbro_cpu.so"
        (self.folder / "plugins").mkdir()
        (self.folder / "plugins" / plugin.name).symlink_to(plugin)
        clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        patch = unittest.mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def on(self, tree, **variables):
        return {"GABBRO_SYSFS_ROOT": str(TREES / tree if isinstance(tree, str) else tree),
                "GABBRO_PLUGIN_PATH": str(self.folder / "plugins"), **variables}

    def devices(self, tree, **variables):
        return json.loads(self.succeeds("devices", "--json", environment=self.on(tree, **variables)).out)["devices"]

    def doctor(self, tree, *options, **variables):
        out = self.succeeds("doctor", "--json", *options, environment=self.on(tree, **variables)).out
        return {check["id"]: check for check in json.loads(out)["checks"]}


class PluginFolders(TestCase):
    def test_plugins_of_all_folders_count_the_first_of_each_name(self):
        plugin = support.BUILD / "lib" / "libgabbro_cpu.so"
        for folder in ("bin", "lib/gabbro"):
            (self.folder / folder).mkdir(parents=True)
        program = shutil.copy(support.PROGRAM, self.folder / "bin" / "gabbro")
        shutil.copy(plugin, self.folder / "lib" / "gabbro")
        skipped = shutil.copy(plugin, self.folder / "lib")
        (self.folder / "lib" / "libgabbro_other.so").write_text("not a library")
        environment = {name: value for name, value in os.environ.items() if name != "GABBRO_PLUGIN_PATH"}
        done = subprocess.run([program, "devices", "--log-level", "debug"], env=environment, capture_output=True, text=True,
                              check=True)
        self.assertIn(f"plugin {skipped} is skipped: an earlier folder has cpu", done.stderr)
        self.assertIn("libgabbro_other.so", done.stdout)
        quiet = subprocess.run([program, "devices"], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(quiet.stderr, "")


class Devices(Recorded):
    def test_cards_that_no_plugin_can_use_are_listed_with_the_reason(self):
        cpu, card = self.devices("rdna3")
        self.assertTrue(cpu["usable"])
        self.assertEqual((cpu["reason"], cpu["fix"]), ("", ""))
        self.assertEqual(card["id"], "pci:0000:03:00.0")
        self.assertEqual(card["backend"], "rocm")
        self.assertEqual(card["architecture"], "gfx1100")
        self.assertEqual((card["compute_units"], card["wave_size"]), (96, 32))
        self.assertEqual(card["memory_total"], 24 << 30)
        self.assertEqual(card["driver"], "amdgpu of Linux 6.8.0-45-generic")
        self.assertFalse(card["usable"])
        self.assertIn("libgabbro_rocm.so", card["reason"])

    def test_the_broken_link_of_each_machine(self):
        for tree, word in (("no_permission", "/dev/kfd exists, but this user may not open it"),
                           ("container", "/dev/kfd exists, but this user may not open it"),
                           ("no_driver", "the amdgpu kernel driver is not loaded"), ("nvidia", "no CUDA backend")):
            card = self.devices(tree)[1]
            self.assertIn(word, card["reason"], tree)
            self.assertTrue(card["fix"], tree)

    def test_how_many(self):
        for tree, count in (("no_gpu", 0), ("mi300x_8", 8), ("igpu_and_dgpu", 2), ("apu", 1)):
            self.assertEqual(len(self.devices(tree)) - 1, count, tree)

    def test_an_integrated_gpu_has_a_budget_and_no_sum(self):
        apu = self.devices("apu")[1]
        self.assertTrue(apu["integrated"])
        # carve-out + min(GTT, MemTotal - MemTotal / 16); the sum of the pools would be the same here, free is not:
        self.assertEqual(apu["memory_total"], (1 << 29) + (96 << 30))
        self.assertEqual(apu["memory_free"], (1 << 29) - (128 << 20) + (80 << 30) - (124 << 30) // 16)

    def test_units_have_their_names(self):
        text = self.succeeds("devices", environment=self.on("rdna3")).text
        self.assertRegex(text, r"(?m)^cpu .* \d+ cores, ")
        self.assertRegex(text, r"(?m)^pci:0000:03:00\.0 .* 96 compute units, ")
        self.assertNotIn("threads", text)

    def test_the_table_names_the_remedy(self):
        text = self.succeeds("devices", environment=self.on("no_permission")).text
        self.assertRegex(text, r"(?m)^pci:0000:03:00\.0 AMD Radeon RX 7900 .*gfx1100")
        self.assertIn("not usable: /dev/kfd exists", text)
        self.assertIn("fix: sudo usermod -aG render,video $USER", text)


class Asked(Recorded):
    def test_a_gpu_that_cannot_be_had_is_exit_code_3_with_the_remedy(self):
        for tree, device, reason, hint in (
                ("no_permission", "rocm", "no usable ROCm device: /dev/kfd exists", "hint: sudo usermod -aG render,video"),
                ("container", "hip:0", "no usable ROCm device: /dev/kfd", "--device /dev/dri --group-add 109"),
                ("no_driver", "gfx1100", "there is no device 'gfx1100'", "hint: this machine has: cpu"),
                ("no_driver", "pci:03:00.0", "the amdgpu kernel driver is not loaded", "hint: sudo modprobe amdgpu"),
                ("no_gpu", "rocm", "no usable ROCm device: this machine has no AMD GPU", "hint: gabbro devices"),
                ("no_gpu", "gpu", "no usable GPU device", "hint: "),
                ("nvidia", "cuda", "no usable CUDA device: no CUDA backend is installed", "libgabbro_cuda.so")):
            self.fails(3, "run", TINY_F16, "hi", "--device", device, environment=self.on(tree), says=[reason, hint])

    def test_wsl(self):
        tree = self.folder / "tree"
        shutil.copytree(TREES / "no_gpu", tree)
        (tree / "proc/sys/kernel/osrelease").write_text("6.6.87.2-microsoft-standard-WSL2\n")
        for hints in (("run Gabbro on Linux itself",) * 2, ("ROCm for WSL lacks", "run Gabbro on Linux itself")):
            for device, hint in zip(("rocm", "cuda"), hints):
                self.fails(3, "run", TINY_F16, "hi", "--device", device, environment=self.on(tree), says=["WSL shows no", hint])
            (tree / "dev").mkdir(exist_ok=True)
            (tree / "dev/dxg").touch()

    def test_a_name_that_cannot_be_a_device(self):
        self.fails(2, "run", TINY_F16, "hi", "--device", "pci:xyz", environment=self.on("no_gpu"), says="pci:0000:03:00.0")

    def test_auto_falls_back_to_the_cpu_and_says_so_in_one_line(self):
        done = self.succeeds("run", TINY_F16, "hi", "-n", "2", "--raw", environment=self.on("no_permission"))
        notes = [line for line in done.err.decode().splitlines() if "is not used" in line]
        self.assertEqual(len(notes), 1, done)
        self.assertRegex(notes[0], r"^gabbro: note: AMD Radeon .*\(pci:0000:03:00\.0\) is not used: /dev/kfd exists, .*"
                                   r"; running on the CPU$")
        for device in ([], ["--device", "cpu"]):
            done = self.succeeds("run", TINY_F16, "hi", "-n", "2", "--raw", *device,
                                 environment=self.on("no_permission" if device else "no_gpu"))
            self.assertNotIn(b"is not used", done.err)


class Doctor(Recorded):
    def test_the_document(self):
        for tree in MACHINES:
            checks = self.doctor(tree)
            self.assertGreaterEqual(set(checks), set(KNOWN_FAULTS + OTHER_FAULTS))
            for check in checks.values():
                self.assertEqual(list(check), ["id", "status", "summary", "fix"])
                self.assertIn(check["status"], ("ok", "warning", "error", "skipped"))
                self.assertTrue(check["summary"])
                self.assertEqual(bool(check["fix"]), check["status"] in ("warning", "error"), check)

    def test_what_needs_the_hardware_is_skipped_and_says_why(self):
        for check in ("code-objects", "kernels", "peer-copies", "graphs", "host-copies", "allocator", "bandwidth",
                      "products"):
            for options in ((), ("--self-test",)):
                found = self.doctor("mi300x_8", *options)[check]
                self.assertEqual((found["status"], found["summary"]), ("skipped", "no GPU backend is installed"))

    def test_the_exact_remedies(self):
        self.assertEqual(self.doctor("no_permission")["permissions"]["fix"],
                         "sudo usermod -aG render,video $USER, then log in again")
        self.assertIn("--device /dev/kfd --device /dev/dri --group-add 109", self.doctor("container")["container"]["fix"])
        self.assertEqual(self.doctor("no_driver")["amdgpu-driver"]["fix"], "sudo modprobe amdgpu")

    def test_variables(self):
        hidden = self.doctor("mi300x_8", ROCR_VISIBLE_DEVICES="4,5", HIP_VISIBLE_DEVICES="4")["visible-devices"]
        self.assertEqual(hidden["status"], "warning")
        self.assertIn("0 AMD and 0 NVIDIA GPUs are visible", hidden["summary"])
        override = self.doctor("rdna3", HSA_OVERRIDE_GFX_VERSION="10.3.0")["gfx-override"]
        self.assertEqual(override["status"], "warning")
        self.assertIn("gfx1030", override["summary"])

    def test_the_table(self):
        text = self.succeeds("doctor", environment=self.on("no_permission")).text
        self.assertRegex(text, r"(?m)^error    permissions +/dev/kfd exists")
        self.assertRegex(text, r"(?m)^ +fix: sudo usermod")
        self.assertRegex(text, r"(?m)^1 errors, \d+ warnings$")

    def test_this_machine_ends_in_time(self):
        self.assertIn("gpus", {c["id"] for c in json.loads(self.succeeds("doctor", "--json").out)["checks"]})


class Trees(Recorded):
    def test_the_script_makes_what_is_committed(self):
        (self.folder / "made").mkdir()
        subprocess.run([sys.executable, ROOT / "tools" / "make_sysfs_trees.py", self.folder / "made"], check=True)
        read = lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
        self.assertEqual(read(self.folder / "made"), read(sysfs_trees.FOLDER))

    def test_a_recording_of_a_recording_says_the_same(self):
        for tree in MACHINES:
            target = self.folder / "recorded" / tree
            subprocess.run([sys.executable, ROOT / "tools" / "record_sysfs", "--root", TREES / tree, target], check=True,
                           stdout=subprocess.DEVNULL)
            self.assertEqual(self.devices(target)[1:], self.devices(tree)[1:], tree)  # the first is this CPU
            self.assertEqual(self.doctor(target), self.doctor(tree), tree)

    def test_hostile_trees(self):
        tree = self.folder / "tree"
        shutil.copytree(TREES / "rdna3", tree)
        node = tree / "sys/class/kfd/kfd/topology/nodes"
        (node / "1" / "properties").write_bytes(b"simd_count " + b"9" * 1000000 + b"\n\x00\xff gfx_target_version -1")
        (node / "2").symlink_to(node)
        (tree / "sys/class/drm").mkdir()
        (tree / "sys/class/drm/card0").symlink_to(tree / "sys/class/drm/card0")
        os.mkfifo(tree / "sys/class/drm/card1")
        (tree / "proc/meminfo").unlink()
        (tree / "proc/meminfo").mkdir()
        (tree / "facts").write_bytes(bytes(range(256)) * 1000)
        self.devices(tree)
        self.doctor(tree)
        self.devices(self.folder / "no such tree")
        self.doctor(TREES / "rdna3" / "facts")  # a file


if __name__ == "__main__":
    support.main()
