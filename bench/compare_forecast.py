#!/usr/bin/env python3
"""Forecasts of `gabbro fit --memory` and of loading next to measured times of a token, for models of random weights:

    python3 bench/compare_forecast.py                                   # five models, three budgets each, on the CPU
    python3 bench/compare_forecast.py --device cuda --host-memory all --large   # a card, weights in host memory
    python3 bench/compare_forecast.py MODEL.gguf --budgets 4GiB

Each round measures the machine's speeds again (they are kept for a day otherwise). Prints a line for each budget, and
ends with 1 where the median of the rounds is more than --within away. Budgets are between the smallest that works and
the size of the weights."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SMALL = {"smollm2-135m": ("layers=30,embedding=576,heads=9,kv-heads=3,head-dimension=64,feed-forward=1536,vocabulary=49152,"
                          "tied=1", "q4_1"),
         "llama-0.4b": ("layers=24,embedding=1024,heads=16,kv-heads=8,feed-forward=4096,vocabulary=32000", "q4_k_m"),
         "llama-0.7b": ("layers=12,embedding=2048,heads=32,kv-heads=8,feed-forward=5632,vocabulary=32000", "q8_0"),
         "llama-1b": ("llama-1b", "q4_0"),
         "mixture-1b": ("architecture=qwen3moe,layers=12,embedding=1024,heads=16,kv-heads=4,head-dimension=64,experts=32,"
                        "experts-used=4,expert-feed-forward=768,vocabulary=32000", "q4_0")}
LARGE = {"llama-8b": ("llama-8b", "q4_k_m"), "llama-8b-q8_0": ("llama-8b", "q8_0"), "llama-13b": ("llama-13b", "q4_k_m"),
         "llama-34b": ("llama-34b", "q4_k_m"), "llama-70b": ("llama-70b", "q4_k_m")}
POINTS = (0.05, 0.4, 0.75)  # of the way from the smallest budget to all weights


def bytes_of(size):
    return int(float(size[:-3]) * UNITS[size[-3:]])


class Machine:
    def __init__(self, options):
        self.options = options
        self.environment = dict(os.environ, GABBRO_DEVICE=options.device)

    def gabbro(self, *arguments, check=True):
        command = [self.options.gabbro, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if check and done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done

    def limits(self, budget, weights):
        host = self.options.host_memory
        if host == "all":
            host = f"{3 * weights >> 20}MiB"
        return ["--memory", f"{budget >> 20}MiB", *(["--host-memory", host] if host else [])]

    def fit(self, model, more, check=True):
        return self.gabbro("fit", model, "--ctx", self.options.tokens, *more, "--json", check=check)

    def smallest(self, model, weights):
        said = self.fit(model, self.limits(1 << 20, weights), check=False).stderr
        return (int(re.search(r"(\d+) MiB are the least", said)[1]) + 1) << 20

    def round(self, model, limits):
        """Forecast by fit, forecast by loading, measured seconds."""
        with tempfile.TemporaryDirectory() as cache:
            self.environment["XDG_CACHE_HOME"] = cache
            fit = json.loads(self.fit(model, limits).stdout)["streaming"]
            bench = json.loads(self.gabbro("bench", "llm", model, "-p", 0, "-n", self.options.tokens, "-r", 3, *limits,
                                           "--json").stdout)
        speed = bench["results"][0]["tokens_per_second"]["median"]
        return fit["seconds_per_token"], bench["streaming"]["predicted_seconds_per_token"], 1 / speed, fit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="files; without: models of random weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--host-memory", default="", help="of a card: a size, or all: three times the weights")
    parser.add_argument("--large", action="store_true", help="models of 8B to 70B")
    parser.add_argument("--budgets", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--within", type=float, default=0.2)
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--verbose", action="store_true", help="print the speeds that were measured")
    parser.add_argument("--gabbro", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    options = parser.parse_args()
    machine = Machine(options)
    written = {} if options.models else LARGE if options.large else SMALL
    far = 0
    for name in options.models or written:
        model = name
        if name in written:
            shape, kind = written[name]
            model = os.path.join(options.folder, f"forecast-{name}.gguf")
            machine.gabbro("bench", "llm", "--shape", shape, "--type", kind, "--write", model)
        try:
            weights = json.loads(machine.fit(model, []).stdout)["weight_bytes"]
            least = machine.smallest(model, weights)
            most = max(weights, least)
            budgets = [bytes_of(b) for b in options.budgets] or [least + int(s * (most - least)) for s in POINTS]
            for budget in budgets:
                rounds = [machine.round(model, machine.limits(budget, weights)) for _ in range(options.rounds)]
                ratio = statistics.median(fit / measured for fit, _, measured, _ in rounds)
                loaded = statistics.median(load / measured for _, load, measured, _ in rounds)
                seconds = statistics.median(measured for _, _, measured, _ in rounds)
                bad = max(abs(ratio - 1), abs(loaded - 1)) > options.within
                far += bad
                print(f"{pathlib.Path(model).stem:24} {budget >> 20:7} MiB  measured {seconds:8.4f} s  fit {ratio:5.2f}  "
                      f"loading {loaded:5.2f}  {'FAR' if bad else ''}", flush=True)
                if options.verbose:
                    print("  ", json.dumps(rounds[-1][3]), flush=True)
        finally:
            if name in written:
                os.remove(model)
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
