#!/usr/bin/env python3
"""Makes the machines of tests/data/sysfs as discovery reads them, one file each (tests/sysfs_trees.py unpacks them).

    make_sysfs_trees.py [FOLDER]

Each is described here by the cards it has; the values are from the kernel's documentation and AMD's published
data sheets (compute units, memory, PCI ids). tools/record_sysfs records a real machine in the same form.
"""
import pathlib
import sys

GIB = 1 << 30
RENDER_GROUP, VIDEO_GROUP = 109, 44

# device id, product, gfx_target_version, SIMDs, SIMDs a compute unit, lanes, VRAM, class
CARDS = {
    "rx6800xt": dict(device=0x73BF, name="Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", gfx=100300, simds=144, per_cu=2,
                     wave=32, vram=16 * GIB),
    "rx7900xtx": dict(device=0x744C, name="Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", gfx=110000, simds=192,
                      per_cu=2, wave=32, vram=24 * GIB),
    "rx9070xt": dict(device=0x7550, name="Navi 48 [Radeon RX 9070/9070 XT/9070 GRE]", gfx=120001, simds=128, per_cu=2,
                     wave=32, vram=16 * GIB),
    "mi210": dict(device=0x740F, name="Aldebaran/MI200 [Instinct MI210]", gfx=90010, simds=416, per_cu=4, wave=64,
                  vram=64 * GIB, kind=0x038000),
    "mi300x": dict(device=0x74A1, name="Aqua Vanjaram [Instinct MI300X]", gfx=90402, simds=1216, per_cu=4, wave=64,
                   vram=192 * GIB, kind=0x120000),
    "strix_halo": dict(device=0x1586, name="Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]",
                       gfx=110501, simds=80, per_cu=2, wave=32, vram=GIB // 2, gtt=96 * GIB, kind=0x038000),
    "raphael": dict(device=0x164E, name="Raphael", gfx=100306, simds=4, per_cu=2, wave=32, vram=GIB // 2,
                    gtt=15 * GIB),
}
NVIDIA = dict(device=0x2684, name="AD102 [GeForce RTX 4090]")
H100 = dict(device=0x2330, name="GH100 [H100 SXM5 80GB]", kind=0x030200)


class Tree:
    def __init__(self, memory=64 * GIB, available=48 * GIB, kernel="6.8.0-45-generic", groups=(1000, 44, 109)):
        self.files, self.facts, self.pci_ids, self.minor = {}, [], {}, 128
        self.write("proc/sys/kernel/osrelease", kernel)
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt")
        self.write("proc/meminfo", f"MemTotal: {memory // 1024} kB\nMemFree: 1024 kB\nMemAvailable: {available // 1024} kB")
        self.write("proc/self/status", "Name:\tgabbro\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n"
                   f"Groups:\t{' '.join(map(str, groups))} ")
        self.write("proc/self/uid_map", "         0          0 4294967295")
        self.write("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope")
        self.write("etc/passwd", "root:x:0:0:root:/:/bin/sh\nada:x:1000:1000::/:/bin/sh")
        self.write("etc/group", f"root:x:0:\nvideo:x:{VIDEO_GROUP}:\nrender:x:{RENDER_GROUP}:\nada:x:1000:")

    def write(self, path, text):
        self.files[path] = str(text) + "\n"

    def node(self, path, group=RENDER_GROUP, open="ok", mode="0660"):
        self.facts.append(f"node {path} uid=0 gid={group} mode={mode} open={open}")

    def runtime(self, name, **fields):
        self.facts.append(" ".join([f"runtime {name}"] + [f"{key}={value}" for key, value in fields.items()]))

    def amdgpu(self, version=None):
        self.write("sys/module/amdgpu/parameters/gpu_recovery", -1)
        self.write("sys/module/ttm/parameters/pages_limit", 8 * GIB // 4096)
        if version:
            self.write("sys/module/amdgpu/version", version)

    def cpu_node(self):
        self.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", 0)
        self.write("sys/class/kfd/kfd/topology/nodes/0/properties",
                   "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\ngfx_target_version 0\nlocation_id 0\ndomain 0")

    def kfd_node(self, number, card, address, minor, unique_id, link_flags=1):
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
        domain, bus, rest = address.split(":")
        slot, function = rest.split(".")
        location = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)
        self.write(f"{folder}/gpu_id", 1000 + number)
        self.write(f"{folder}/name", "gpu")
        self.write(f"{folder}/properties", "\n".join(f"{key} {value}" for key, value in {
            "cpu_cores_count": 0, "simd_count": card["simds"], "mem_banks_count": 1, "wave_front_size": card["wave"],
            "simd_per_cu": card["per_cu"], "gfx_target_version": card["gfx"], "vendor_id": 4098,
            "device_id": card["device"], "location_id": location, "domain": int(domain, 16),
            "drm_render_minor": minor, "unique_id": unique_id}.items()))
        self.write(f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {card['vram']}\nflags 0")
        self.write(f"{folder}/io_links/0/properties", f"type 2\nnode_from {number}\nnode_to 0\nflags {link_flags}")

    def pci(self, vendor, card, address, driver):
        folder = f"sys/bus/pci/devices/{address}"
        lines = [f"DRIVER={driver}"] if driver else []
        self.write(f"{folder}/uevent", "\n".join(lines + [f"PCI_SLOT_NAME={address}"]))
        self.write(f"{folder}/vendor", f"0x{vendor:04x}")
        self.write(f"{folder}/device", f"0x{card['device']:04x}")
        self.write(f"{folder}/class", f"0x{card.get('kind', 0x030000):06x}")
        self.write(f"{folder}/max_link_speed", "16.0 GT/s PCIe")
        self.write(f"{folder}/max_link_width", 16)
        self.write(f"{folder}/current_link_speed", "16.0 GT/s PCIe")
        self.write(f"{folder}/current_link_width", 16)
        self.pci_ids.setdefault(vendor, {})[card["device"]] = card["name"]
        return folder

    def amd(self, kind, address, driver="amdgpu", node=None, used=GIB // 2, unique_id=None, **link):
        card = CARDS[kind]
        folder = self.pci(0x1002, card, address, driver)
        if driver != "amdgpu":
            return
        minor, self.minor = self.minor, self.minor + 1
        self.write(f"{folder}/drm/renderD{minor}/dev", f"226:{minor}")
        self.write(f"{folder}/mem_info_vram_total", card["vram"])
        self.write(f"{folder}/mem_info_vram_used", min(used, card["vram"] // 2))
        self.write(f"{folder}/mem_info_gtt_total", card.get("gtt", 31 * GIB))
        self.write(f"{folder}/mem_info_gtt_used", 64 << 20)
        self.write(f"{folder}/gpu_busy_percent", 0)
        self.write(f"{folder}/hwmon/hwmon3/power1_average", 17000000)
        self.write(f"{folder}/iommu_group/type", "identity")
        if node is not None:
            self.kfd_node(node, card, address, minor, unique_id or 0x1000000000000000 + node, **link)
        self.node(f"/dev/dri/renderD{minor}")

    def finish(self):
        ids = "# The part of the list of PCI devices that this machine needs.\n"
        for vendor, devices in self.pci_ids.items():
            ids += f"{vendor:04x}  {'Advanced Micro Devices, Inc. [AMD/ATI]' if vendor == 0x1002 else 'NVIDIA Corporation'}\n"
            ids += "".join(f"\t{device:04x}  {name}\n" for device, name in sorted(devices.items()))
        self.write("usr/share/misc/pci.ids", ids.rstrip())
        self.write("facts", "\n".join(["# What plain files cannot hold (docs/guides/rocm_guide.md)."] + self.facts))
        return "".join(f"==> {path}\n{text}" for path, text in sorted(self.files.items()))


def hip(tree, *addresses):
    tree.runtime("hip", status="ok", path="/opt/rocm/lib/libamdhip64.so.7", version="7.2.53211",
                 devices=",".join(addresses))


def discrete(kind, **facts):
    tree = Tree(**facts)
    tree.amdgpu()
    tree.cpu_node()
    tree.amd(kind, "0000:03:00.0", node=1)
    tree.node("/dev/kfd")
    hip(tree, "0000:03:00.0")
    return tree


def mi300x_8():
    tree = Tree(memory=2048 * GIB, available=2000 * GIB)
    tree.amdgpu("6.12.12")
    tree.cpu_node()
    addresses = [f"0000:{bus:02x}:00.0" for bus in (0x05, 0x15, 0x65, 0x75, 0x85, 0x95, 0xE5, 0xF5)]
    for i, address in enumerate(addresses):
        # The kernel numbers the nodes 10 and 11 after 9, whatever a folder's listing says.
        tree.amd("mi300x", address, node=i + 4, used=i * 8 * GIB)
    tree.node("/dev/kfd")
    hip(tree, *addresses)
    return tree


def apu():
    tree = Tree(memory=124 * GIB, available=80 * GIB, kernel="6.18.4-generic")
    tree.amdgpu()
    tree.cpu_node()
    tree.amd("strix_halo", "0000:c4:00.0", node=1, used=128 << 20)
    tree.node("/dev/kfd")
    hip(tree, "0000:c4:00.0")
    return tree


def igpu_and_dgpu():
    tree = Tree()
    tree.amdgpu()
    tree.cpu_node()
    tree.amd("rx7900xtx", "0000:03:00.0", node=2)
    tree.amd("raphael", "0000:0e:00.0", node=1)
    tree.node("/dev/kfd")
    hip(tree, "0000:0e:00.0", "0000:03:00.0")
    return tree


def no_permission():
    tree = Tree(groups=(1000,))
    tree.amdgpu()
    tree.cpu_node()
    tree.amd("rx7900xtx", "0000:03:00.0", node=1)
    tree.facts = [fact.replace("open=ok", "open=EACCES") for fact in tree.facts]
    tree.node("/dev/kfd", open="EACCES")
    hip(tree)
    return tree


def container():
    """/dev/kfd was passed on, but not the group: what `docker run --device` alone gives."""
    tree = no_permission()
    tree.write(".dockerenv", "")
    tree.write("proc/self/cgroup", "0::/")
    tree.write("etc/group", "root:x:0:")
    return tree


def no_driver():
    tree = Tree()
    tree.amd("rx7900xtx", "0000:03:00.0", driver=None)
    tree.runtime("hip", status="missing", message="libamdhip64.so.7: cannot open shared object file: No such file or directory")
    return tree


def nvidia():
    tree = Tree()
    tree.pci(0x10DE, NVIDIA, "0000:01:00.0", "nvidia")
    tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan  7 2025")
    tree.write("proc/driver/nvidia/gpus/0000:01:00.0/information",
               "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 120\nGPU UUID: \t GPU-1c2d3e4f-0000-1111-2222-333344445555")
    tree.node("/dev/nvidiactl", group=0, mode="0666")
    tree.runtime("cuda", status="ok", path="/lib/x86_64-linux-gnu/libcuda.so.1", version="12.8", devices="0000:01:00.0")
    return tree


def nvidia_h100():
    tree = Tree()
    tree.pci(0x10DE, H100, "0000:1b:00.0", "nvidia")
    tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025")
    tree.write("proc/driver/nvidia/gpus/0000:1b:00.0/information",
               "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 120\nGPU UUID: \t GPU-2c2d3e4f-0000-1111-2222-333344445555")
    tree.node("/dev/nvidiactl", group=0, mode="0666")
    tree.runtime("cuda", status="ok", path="/lib/x86_64-linux-gnu/libcuda.so.1", version="13.0", devices="0000:1b:00.0")
    return tree


TREES = {
    "rdna2": lambda: discrete("rx6800xt"),
    "rdna3": lambda: discrete("rx7900xtx"),
    "rdna4": lambda: discrete("rx9070xt", kernel="6.14.0-27-generic"),
    "mi210": lambda: discrete("mi210"),
    "mi300x_8": mi300x_8,
    "apu": apu,
    "igpu_and_dgpu": igpu_and_dgpu,
    "no_permission": no_permission,
    "container": container,
    "no_driver": no_driver,
    "nvidia": nvidia,
    "nvidia_h100": nvidia_h100,
    "no_gpu": Tree,
}


def main():
    here = pathlib.Path(__file__).resolve().parents[1]
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "tests" / "data" / "sysfs"
    for name, make in TREES.items():
        (target / f"{name}.tree").write_text(make().finish())


if __name__ == "__main__":
    main()
