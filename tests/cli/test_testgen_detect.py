"""`testgen --detect` in imitated situations: builds of torch × recorded machines × variables that hide devices.

The module torch is imitated (tests/testgen/fake_torch.py), the machines are recorded (tests/data/sysfs). Next to it, the
two expressions that other suites take for a detection of ROCm are counted where they are wrong.
"""
import json
import os
import shutil
import subprocess
import sys

import support
from support import TestCase

MACHINE = support.ROOT / "python" / "gabbro" / "testgen" / "machine.py"
sys.path.insert(0, str(MACHINE.parent))
sys.dont_write_bytecode = True
import machine  # noqa: E402

TREES = support.TREES
CUDA = {"version": "2.11.0+cu130", "hip": None, "cuda": "13.0", "arch_list": ["sm_90"], "devices": []}
CPU = {"version": "2.11.0+cpu", "hip": None, "cuda": None, "arch_list": [], "devices": []}
H100 = {"name": "NVIDIA H100", "pci": "0000:01:00.0", "gfx": ""}


def rocm(*devices, arch_list=("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201"), name="AMD Radeon"):
    """A ROCm build with devices "0000:03:00.0 gfx1100"."""
    rows = [{"name": name, "pci": text.split()[0], "gfx": text.split()[1]} for text in devices]
    return {"version": "2.11.0+rocm7.2", "hip": "7.2.53211", "cuda": None, "arch_list": list(arch_list), "devices": rows}


DEVICE = {"apu": "0000:c4:00.0 gfx1151", "rdna2": "0000:03:00.0 gfx1030", "rdna3": "0000:03:00.0 gfx1100",
          "rdna4": "0000:03:00.0 gfx1201", "mi210": "0000:c1:00.0 gfx90a"}
EIGHT = [f"0000:{bus}:00.0 gfx942" for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5")]
BOTH = ["0000:0e:00.0 gfx1036", "0000:03:00.0 gfx1100"]


def address_and_target(tree):
    """"0000:03:00.0 gfx1100" of the recorded tree's first AMD card in the compute driver's order."""
    found = detect(tree, CPU)["cards"]
    card = min((c for c in found if c["gfx"]), key=lambda c: c["node"])
    return f"{card['pci']} {card['gfx']}"


def detect(tree, torch, **variables):
    """machine.examine() of a recorded tree; torch is asked in this process where it is there and does not crash."""
    if torch is None or "crash" in torch:
        return json.loads(run(tree, torch, ["--json"], **variables))
    os.environ["IMITATED_TORCH"] = json.dumps(torch)
    sys.modules.pop("torch", None)
    return machine.examine(TREES / tree, variables, machine.torch_facts())


def run(tree, torch, words, **variables):
    """The output of machine.py as a program."""
    clean = {k: v for k, v in os.environ.items() if "VISIBLE_DEVICES" not in k and not k.startswith("HSA_")}
    environment = {**clean, **variables, "GABBRO_SYSFS_ROOT": str(TREES / tree), "IMITATED_TORCH": json.dumps(torch or {}),
                   "PYTHONPATH": Situations.shim if torch is not None else "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(MACHINE), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Situations(TestCase):
    shim = ""
    count = 0
    wrong_expressions = 0

    def setUp(self):
        super().setUp()
        Situations.shim = str(self.folder)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        shutil.copy(support.ROOT / "tests" / "testgen" / "fake_torch.py", self.folder / "torch.py")

    def expect(self, tree, torch, verdict, link="none", says="", contradiction="", **variables):
        Situations.count += 1
        found = detect(tree, torch, **variables)
        about = (tree, torch and torch["version"] if torch and "version" in torch else torch, variables, found)
        self.assertEqual((found["verdict"], found["link"]), (verdict, link), about)
        self.assertIn(says, found["reason"], about)
        self.assertIn(contradiction, "\n".join(found["contradictions"]), about)
        if torch and "version" in torch:
            # "hasattr(torch.version, 'hip')" holds for every build; a name with AMD or Radeon is not required of a card.
            names = [d["name"] for d in torch["devices"]][:1]
            guesses = (True, any("AMD" in n or "Radeon" in n for n in names))
            Situations.wrong_expressions += sum(guess != (verdict == "rocm") for guess in guesses)

    def test_builds_on_single_cards(self):
        for tree in ("apu", "rdna2", "rdna3", "rdna4", "mi210"):
            device = address_and_target(tree)
            gfx = device.split()[1]
            self.expect(tree, rocm(device), "rocm")
            self.expect(tree, rocm(device, name=""), "rocm")
            self.expect(tree, rocm(device.split()[0] + f" {gfx}:sramecc+:xnack-"), "rocm")
            self.expect(tree, CUDA, "cpu", "build", says="CUDA build", contradiction="CUDA build")
            self.expect(tree, CPU, "cpu", "build", says="CPUs alone")
            self.expect(tree, rocm(), "cpu", "device", says="0 devices")
            self.expect(tree, rocm(device, arch_list=["gfx908"]), "cpu", "architecture", says=gfx)
            self.expect(tree, rocm(device), "cpu", "visibility", says="hides", HIP_VISIBLE_DEVICES="")
        self.expect("rdna3", None, "cpu", "torch", says="torch is not installed")
        self.expect("rdna3", {"crash": 6}, "cpu", "torch", says="signal 6")

    def test_variables(self):
        device = address_and_target("rdna3")
        self.expect("rdna3", rocm(device), "rocm", HIP_VISIBLE_DEVICES="0")
        self.expect("rdna3", rocm(device), "rocm", CUDA_VISIBLE_DEVICES="0")
        self.expect("rdna3", rocm(), "cpu", "visibility", says="CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="-1")
        self.expect("rdna3", rocm(), "cpu", "visibility", says="ROCR_VISIBLE_DEVICES", ROCR_VISIBLE_DEVICES="")
        # Empty is not unset: the second variable does not count.
        self.expect("rdna3", rocm(), "cpu", "visibility", says="HIP_VISIBLE_DEVICES", HIP_VISIBLE_DEVICES="",
                    CUDA_VISIBLE_DEVICES="0")
        self.expect("rdna3", rocm(device), "rocm", contradiction="differ", HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1")
        self.expect("rdna3", rocm(device.replace("gfx1100", "gfx1030")), "rocm", contradiction="HSA_OVERRIDE_GFX_VERSION",
                    HSA_OVERRIDE_GFX_VERSION="10.3.0")
        self.expect("mi300x_8", rocm(*EIGHT), "rocm")
        self.expect("mi300x_8", rocm(*EIGHT[1:3]), "rocm", ROCR_VISIBLE_DEVICES="1,2")
        self.expect("mi300x_8", rocm(EIGHT[3]), "rocm", contradiction="renumbers", ROCR_VISIBLE_DEVICES="2,3",
                    HIP_VISIBLE_DEVICES="1")
        self.expect("mi300x_8", rocm(), "cpu", "visibility", says="hides", ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1")
        self.expect("mi300x_8", rocm(EIGHT[0]), "rocm", HIP_VISIBLE_DEVICES="0,9,1")

    def test_two_cards_of_a_desktop(self):
        self.expect("igpu_and_dgpu", rocm(*BOTH), "rocm")
        self.expect("igpu_and_dgpu", rocm(BOTH[1]), "rocm", HIP_VISIBLE_DEVICES="1")
        self.expect("igpu_and_dgpu", rocm(BOTH[1], name="NVIDIA-like name"), "rocm", ROCR_VISIBLE_DEVICES="1")
        self.expect("igpu_and_dgpu", CUDA, "cpu", "build", says="CUDA build")

    def test_machines_without_a_usable_card(self):
        for tree, link, says in (("no_driver", "driver", "amdgpu is not loaded"), ("no_permission", "permission", "/dev/kfd"),
                                 ("container", "permission", "/dev/kfd"), ("no_gpu", "card", "no AMD or NVIDIA GPU")):
            self.expect(tree, rocm(), "cpu", link, says=says)
            self.expect(tree, CPU, "cpu", link, says=says)

    def test_nvidia_is_not_rocm(self):
        for tree in ("nvidia", "nvidia_h100"):
            card = detect(tree, CPU)["cards"][0]
            device = {**H100, "pci": card["pci"]}
            self.expect(tree, {**CUDA, "devices": [device]}, "cuda")
            self.expect(tree, {**CUDA, "devices": [device]}, "cuda", HIP_VISIBLE_DEVICES="")
            self.expect(tree, rocm(), "cpu", "build", says="ROCm build")
            self.expect(tree, CPU, "cpu", "build", says="CPUs alone")
        self.expect("no_gpu", {**CUDA, "devices": [H100]}, "cuda", contradiction="/sys does not show")

    def test_as_a_program(self):
        device = address_and_target("rdna3")
        self.assertIn("verdict: rocm", run("rdna3", rocm(device), []))
        self.assertIn("verdict: cpu", run("rdna3", CUDA, []))

    def test_zz_enough_situations(self):
        self.assertGreaterEqual(Situations.count, 60)
        self.assertGreaterEqual(Situations.wrong_expressions, 30)


if __name__ == "__main__":
    support.main()
