"""Which GPUs there are, and the first broken link for each that torch cannot use. Nothing here is imitated.

    python machine.py [--json]

Three sources are compared: the kernel (/sys and /dev), the variables that hide devices, by the rules of the runtimes
that read them, and torch, asked in a child process. Cards are joined by their PCI address.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

AMD, NVIDIA = "0x1002", "0x10de"
# Variables that change which device computes, or how: a report without them cannot be repeated.
VARIABLES = [
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HSA_OVERRIDE_GFX_VERSION",
    "TORCH_BLAS_PREFER_HIPBLASLT",
    "PYTORCH_TUNABLEOP_ENABLED",
    "MIOPEN_FIND_MODE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",
    "NVIDIA_TF32_OVERRIDE",
]


@dataclasses.dataclass
class Card:
    """A GPU as the kernel shows it, and what is found out about it."""

    pci: str
    vendor: str
    driver: str
    render: str = ""  # "/dev/dri/renderD128"
    gfx: str = ""  # of the compute driver's topology; empty: it does not offer the card
    node: int = -1  # number in that topology: the order of the runtime's devices
    uuid: str = ""
    index: int = -1  # torch's number of it
    link: str = ""  # the broken link; "none" where the card can be used
    reason: str = ""

    @property
    def amd(self) -> bool:
        return self.vendor == AMD


def text_of(path: pathlib.Path) -> str:
    """The file's text without the line's end; empty where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def fields_of(path: pathlib.Path) -> dict[str, str]:
    """Lines "name value" or "NAME=value"."""
    return dict(re.split(r"[ =]", line, maxsplit=1) for line in text_of(path).splitlines() if re.search(r"[ =]", line))


def gfx_name(version: int) -> str:
    """ "gfx90a" for 90010; empty for a CPU's 0."""
    if version <= 0:
        return ""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_cards(root: pathlib.Path) -> list[Card]:
    """Display controllers of AMD and NVIDIA on the PCI bus, joined with the compute driver's nodes."""
    cards = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, kind = text_of(folder / "vendor"), text_of(folder / "class")
        if vendor not in (AMD, NVIDIA) or not kind.startswith(("0x03", "0x12")):
            continue
        link = folder / "driver"
        driver = link.resolve().name if link.exists() else fields_of(folder / "uevent").get("DRIVER", "")
        renders = sorted(path.name for path in (folder / "drm").glob("renderD*"))
        cards.append(Card(folder.name, vendor, driver, f"/dev/dri/{renders[0]}" if renders else ""))
    for folder in (root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*"):
        fields = fields_of(folder / "properties")
        place = int(fields.get("location_id", "0"))
        pci = f"{int(fields.get('domain', '0')):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
        for card in cards:
            if card.pci == pci and int(fields.get("gfx_target_version", "0")) > 0:
                card.gfx, card.node = gfx_name(int(fields["gfx_target_version"])), int(folder.name)
                card.uuid = f"GPU-{int(fields.get('unique_id', '0')):016x}"
    return cards


def open_error(root: pathlib.Path, path: str) -> str:
    """Why a device node cannot be opened: "missing", "permission", or empty. A recorded tree has a file `facts`."""
    if root != pathlib.Path("/"):
        row = next((line for line in text_of(root / "facts").splitlines() if line.startswith(f"node {path} ")), "")
        return "missing" if not row else "" if "open=ok" in row else "permission"
    if not os.path.exists(path):
        return "missing"
    return "" if os.access(path, os.R_OK | os.W_OK) else "permission"


def pick(cards: list[Card], name: str, value: str, notes: list[str]) -> list[Card]:
    """The cards that a list of numbers and UUIDs names; an entry that names none ends the list."""
    left: list[Card] = []
    for entry in (part.strip() for part in value.split(",")):
        named = [c for c in cards if entry.lower().startswith("gpu-") and c.uuid.lower().startswith(entry.lower())]
        if entry.isdecimal() and int(entry) < len(cards):
            named = [cards[int(entry)]]
        if len(named) != 1:
            break
        left += [c for c in named if c not in left]
    if not left and cards:
        notes.append(f"{name}={value!r} hides every one of the {len(cards)} GPUs")
    return left


def visible(cards: list[Card], environment: Mapping[str, str], notes: list[str]) -> list[Card]:
    """The cards that the runtimes show, in their order. A variable that is set but empty hides all."""
    amd = sorted((c for c in cards if c.amd and c.gfx), key=lambda c: c.node)
    nvidia = [c for c in cards if not c.amd and c.driver == "nvidia"]
    rocr, hip, cuda = (environment.get(f"{n}_VISIBLE_DEVICES") for n in ("ROCR", "HIP", "CUDA"))
    if amd and rocr is not None:
        amd = pick(amd, "ROCR_VISIBLE_DEVICES", rocr, notes)
    if amd and hip is not None and cuda is not None and hip != cuda:
        notes.append(f"HIP_VISIBLE_DEVICES={hip!r} and CUDA_VISIBLE_DEVICES={cuda!r} differ: AMD GPUs follow the first")
    second = hip if hip is not None else cuda
    if amd and second is not None:
        name = "HIP_VISIBLE_DEVICES" if hip is not None else "CUDA_VISIBLE_DEVICES"
        amd = pick(amd, name, second, notes)
        if rocr is not None and rocr != "0":
            notes.append(f"ROCR_VISIBLE_DEVICES={rocr!r} renumbers the cards before {name} picks from them: set one")
    if nvidia and cuda is not None:
        nvidia = pick(nvidia, "CUDA_VISIBLE_DEVICES", cuda, notes)
    return amd + nvidia


def torch_facts() -> dict[str, Any]:
    """What torch says of itself and of its devices. Initializes the GPU: call it in a child process."""
    import torch

    facts: dict[str, Any] = {"version": torch.__version__, "hip": torch.version.hip, "cuda": torch.version.cuda}
    facts["available"] = torch.cuda.is_available()
    facts["arch_list"] = torch.cuda.get_arch_list() if facts["available"] else []
    facts["devices"] = []
    for index in range(torch.cuda.device_count() if facts["available"] else 0):
        about = torch.cuda.get_device_properties(index)
        address = [getattr(about, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
        pci = "" if None in address else f"{address[0]:04x}:{address[1]:02x}:{address[2]:02x}.0"
        gfx = getattr(about, "gcnArchName", "").split(":")[0] if torch.version.hip is not None else ""
        memory = int(about.total_memory)
        capability = f"sm_{about.major}{about.minor}"
        facts["devices"].append({"name": about.name, "pci": pci, "gfx": gfx, "sm": capability, "memory": memory})
    return facts


def ask_torch(limit: float = 60.0) -> dict[str, Any]:
    """torch_facts() of a child process, or {"error": why}: a driver may crash it, or hang."""
    command = [sys.executable, __file__, "--torch"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"torch did not answer in {limit:.0f} s: the driver may hang"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    if done.returncode < 0:
        return {"error": f"asking torch for its devices ended with signal {-done.returncode}"}
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"error": "torch is not installed" if "No module named 'torch'" in last else last}


def covers(arch_list: list[str], gfx: str) -> bool:
    """Whether a build with code for `arch_list` runs on gfx1103, also by a generic target such as gfx11-generic."""
    names = {name.split(":")[0] for name in arch_list}
    major = gfx[3:-2]
    generic = {f"gfx{major}-generic", f"gfx{major}-{gfx[-2]}-generic"}
    return not names or gfx in names or bool(generic & names)


def judge_kernel(root: pathlib.Path, card: Card) -> tuple[str, str]:
    """(broken link, reason) by the kernel alone."""
    right = "amdgpu" if card.amd else "nvidia"
    if card.driver != right:
        held = f"the driver {card.driver} has the card" if card.driver else f"the driver {right} is not loaded"
        return "driver", held
    for path in ("/dev/kfd", card.render) if card.amd else ("/dev/nvidiactl",):
        error = open_error(root, path) if path else "missing"
        if error == "missing":
            return "node", f"{path or 'its /dev/dri/renderD*'} is missing (in a container: --device)"
        if error:
            return "permission", f"no permission to open {path}: add the user to its group"
    if card.amd and not card.gfx:
        return "compute driver", "the kernel's compute driver (KFD) does not offer the card"
    return "none", ""


def judge_torch(card: Card, facts: dict[str, Any], shown: list[Card]) -> tuple[str, str]:
    """(broken link, reason) by torch, for a card that the kernel offers and no variable hides."""
    if "error" in facts:
        return "torch", str(facts["error"])
    wanted, other = ("hip", "CUDA") if card.amd else ("cuda", "ROCm")
    if facts[wanted] is None:
        if facts["hip"] is None and facts["cuda"] is None:
            return "build", f"torch {facts['version']} is a build for CPUs alone"
        return "build", f"torch {facts['version']} is a {other} build: it cannot use this card"
    same = [c for c in shown if c.amd == card.amd]
    devices = facts["devices"]
    by_address = [i for i, d in enumerate(devices) if d["pci"] == card.pci]
    card.index = by_address[0] if by_address else -1
    if card.index < 0 and not any(d["pci"] for d in devices) and len(devices) == len(same):
        card.index = same.index(card)
    if card.index < 0:
        return "device", f"torch finds {len(devices)} devices, and not this one"
    if card.amd and not covers(facts["arch_list"], str(devices[card.index]["gfx"] or card.gfx)):
        return "architecture", f"torch {facts['version']} has no code for {devices[card.index]['gfx'] or card.gfx}"
    return "none", ""


def contradictions(cards: list[Card], facts: dict[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Where two sources disagree, one line each."""
    lines = []
    amd = [c for c in cards if c.amd]
    override = environment.get("HSA_OVERRIDE_GFX_VERSION")
    if override and amd:
        lines.append(
            f"HSA_OVERRIDE_GFX_VERSION={override}: the runtime takes {amd[0].gfx or 'the card'} for another target"
        )
    if "error" not in facts and amd and facts["hip"] is None and facts["cuda"] is not None:
        lines.append(f"torch {facts['version']} is a CUDA build on a machine with an AMD GPU")
    for card in cards:
        named = facts.get("devices", [])[card.index]["gfx"] if card.index >= 0 else ""
        if card.amd and named and card.gfx and named != card.gfx:
            lines.append(f"{card.pci} is {card.gfx} for the kernel and {named} for torch")
    return lines


def unlisted(cards: list[Card], facts: dict[str, Any], notes: list[str]) -> list[Card]:
    """Devices that torch finds and /sys does not show, as in some containers: torch is believed, with a note."""
    vendor = AMD if facts.get("hip") is not None else NVIDIA
    found = []
    for index, device in enumerate(facts.get("devices", [])):
        if not any(card.index == index or card.pci == device["pci"] for card in cards):
            notes.append(f"torch finds {device['name'] or 'a device'}, which /sys does not show")
            found.append(Card(device["pci"], vendor, "", gfx=device["gfx"], index=index, link="none"))
    return found


def examine(root: pathlib.Path, environment: Mapping[str, str], facts: dict[str, Any]) -> dict[str, Any]:
    """The whole: every card with its broken link, the verdict ("rocm", "cuda" or "cpu"), its reason, contradictions."""
    cards, notes = read_cards(root), list[str]()
    shown = visible(cards, environment, notes)
    for card in cards:
        card.link, card.reason = judge_kernel(root, card)
        if card.link == "none" and card not in shown:
            card.link, card.reason = "visibility", next((n for n in notes if "hides" in n), "a variable hides the card")
        if card.link == "none":
            card.link, card.reason = judge_torch(card, facts, shown)
    cards += unlisted(cards, facts, notes)
    usable = [c for c in cards if c.link == "none"]
    verdict = "cpu" if not usable else "rocm" if any(c.amd for c in usable) else "cuda"
    first = next((c for c in cards if c.amd), cards[0] if cards else None)
    reason = (
        "" if usable else f"{first.pci}: {first.reason}" if first else "there is no AMD or NVIDIA GPU on the PCI bus"
    )
    return {
        "verdict": verdict,
        "link": "none" if usable else first.link if first else "card",
        "reason": reason,
        "contradictions": notes + contradictions(cards, facts, environment),
        "cards": [dataclasses.asdict(card) for card in cards],
        "torch": facts,
        "environment": {name: environment[name] for name in VARIABLES if name in environment},
    }


def root_folder() -> pathlib.Path:
    """/, or the recorded tree that GABBRO_SYSFS_ROOT names."""
    return pathlib.Path(os.environ.get("GABBRO_SYSFS_ROOT") or "/")


@functools.cache
def detect() -> dict[str, Any]:
    """examine() of this machine."""
    return examine(root_folder(), os.environ, ask_torch())


@functools.cache
def detect_here() -> dict[str, Any]:
    """detect() that asks torch in this process, which may be used for nothing else on a broken device."""
    return examine(root_folder(), os.environ, torch_facts())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--torch", action="store_true", help="print what torch says, in this process")
    options = parser.parse_args()
    if options.torch:
        print(json.dumps(torch_facts()))
        return 0
    found = detect()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"verdict: {found['verdict']}" + (f" ({found['reason']})" if found["reason"] else ""))
    for card in found["cards"]:
        print(f"{card['pci']} {card['gfx']}: {'usable' if card['link'] == 'none' else card['reason']}")
    for line in found["contradictions"]:
        print(f"note: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
