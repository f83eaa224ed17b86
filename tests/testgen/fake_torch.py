"""A module torch of a given build and machine, for tests of the detection alone: only what machine.py asks.

IMITATED_TORCH is JSON: {"version", "hip", "cuda", "arch_list", "devices": [{"name", "pci", "gfx"}]}, or
{"crash": signal}.
"""
import json
import os
import types

_facts = json.loads(os.environ["IMITATED_TORCH"])
if "crash" in _facts:
    os.kill(os.getpid(), _facts["crash"])
__version__ = _facts["version"]
version = types.SimpleNamespace(hip=_facts["hip"], cuda=_facts["cuda"])


def _properties(index):
    device = _facts["devices"][index]
    about = types.SimpleNamespace(name=device["name"], total_memory=1 << 34, major=9, minor=0)
    about.gcnArchName = device["gfx"]
    if device["pci"]:
        domain, bus, place = device["pci"].split(":")
        about.pci_domain_id, about.pci_bus_id, about.pci_device_id = int(domain, 16), int(bus, 16), int(place[:2], 16)
    return about


cuda = types.SimpleNamespace(
    is_available=lambda: bool(_facts["devices"]), device_count=lambda: len(_facts["devices"]),
    get_arch_list=lambda: _facts["arch_list"], get_device_properties=_properties,
    get_device_name=lambda index=0: _facts["devices"][index]["name"])
