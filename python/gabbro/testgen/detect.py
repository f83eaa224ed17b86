"""Which GPUs torch can use, and the first broken link of each other one.

    detect.py [--run-model] [--require rocm|cuda] [--json]

--run-model also runs a small network on the device and compares it with f64 on the CPU: finding a device is not yet a
device that computes. Exit code 3 where --require asks for what is not there, 1 where the network is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import machine

# Runs in a child: a broken driver aborts the process.
NETWORK = """
import torch
torch.manual_seed(0)
layers = [torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.LayerNorm(96), torch.nn.Linear(96, 33)]
network = torch.nn.Sequential(*layers)
x = torch.randn(17, 64)
exact = network.double()(x.double()).detach()
worst = 0.0
for dtype, unit in ((torch.float32, 2**-24), (torch.bfloat16, 2**-8), (torch.float16, 2**-11)):
    reference = network.double().to(dtype)(x.to(dtype)).double()
    got = network.to("cuda")(x.to("cuda", dtype)).cpu().double().detach()
    network.to("cpu")
    error, allowed = [float((v - exact).norm() / exact.norm()) for v in (got, reference)]
    print(f"{dtype}: error {error:.3g}, CPU {allowed:.3g}")
    worst = max(worst, error / (3 * allowed + 4 * unit))
raise SystemExit(0 if worst <= 1 else 1)
"""


def run_network(limit: float = 120.0) -> dict[str, Any]:
    """{"passed", "text"} of the network on torch's first device."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", NETWORK], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "text": f"did not end in {limit:.0f} s"}
    words = done.stdout.strip() or (done.stderr.strip().splitlines() or ["no output"])[-1]
    ending = f" (signal {-done.returncode})" if done.returncode < 0 else ""
    return {"passed": done.returncode == 0, "text": words + ending}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run-model", action="store_true")
    parser.add_argument("--require", choices=["rocm", "cuda"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = machine.detect()
    if options.run_model and found["verdict"] != "cpu":
        found["network"] = run_network()
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(describe(found, options.run_model)))
    if options.require and found["verdict"] != options.require:
        print(f"gabbro: error: {options.require} is not usable: {found['reason'] or found['verdict']}", file=sys.stderr)
        return 3
    return int(not found.get("network", {"passed": True})["passed"])


def describe(found: dict[str, Any], run_model: bool) -> list[str]:
    """The lines of the report."""
    lines = [f"verdict: {found['verdict']}" + (f" ({found['reason']})" if found["reason"] else "")]
    lines += [f"{c['pci']} {c['gfx']}: {'usable' if c['link'] == 'none' else c['reason']}" for c in found["cards"]]
    lines += [f"note: {line}" for line in found["contradictions"]]
    lines += [f"{name}={value}" for name, value in found["environment"].items()]
    if "network" in found:
        lines.append(
            f"a small network: {'right' if found['network']['passed'] else 'WRONG'}\n{found['network']['text']}"
        )
    elif run_model:
        lines.append("a small network: not run, there is no device to run it on")
    return lines


if __name__ == "__main__":
    sys.exit(main())
