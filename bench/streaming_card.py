"""Streaming of weights on a GPU, within minutes: shares of the bus and of the disk, memory against the limit, batches,
and tokens per second with drafts.

    python3 bench/streaming_card.py --device cuda --folder /tmp --out results.jsonl

Writes Llama models of random weights (8B and 70B in Q4_K_M, and a draft model: the first layers of the 8B one, whose
other layers add hardly anything, so that the two mostly agree; and a model that says the alphabet). Prints one line of JSON for each step, also to --out.
A step that would begin after --seconds is left out, and its line says so. --tiny has small models, to try the
script."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import random_model  # noqa: E402

BEGIN = time.monotonic()
PROMPT = "A text that repeats itself. A text that repeats"
DRAFT_LAYERS = {False: 4, True: 2}
TINY = random_model.Shape(16, 1024, 16, 4, 4096, 1024, 64)


class DeviceMemory:
    """Peak memory in use on the first GPU, in bytes, sampled by nvidia-smi; None without a GPU."""

    def __enter__(self):
        self.before = self.most = self.used()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    @staticmethod
    def used():
        try:
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                                 capture_output=True, text=True, check=True).stdout
            return int(out.split()[0]) << 20
        except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
            return None

    def watch(self):
        while self.most is not None and not self.stop.wait(0.1):
            self.most = max(self.most, self.used() or 0)

    def document(self):
        return None if self.most is None else {"before": self.before, "most": self.most}


class Steps:
    def __init__(self, options):
        self.options, self.links = options, {}
        os.makedirs(options.folder, exist_ok=True)
        size = "tiny" if options.tiny else "8b"
        self.model = os.path.join(options.folder, f"random-{size}.gguf")
        self.draft = os.path.join(options.folder, f"random-{size}-draft.gguf")
        self.cycle, self.cycle_draft = (os.path.join(options.folder, f"cycle{part}.gguf") for part in ("", "-draft"))
        large = options.folder if options.tiny else self.folder_for(45 << 30)
        self.large = os.path.join(large, "random-70b.gguf")

    def folder_for(self, size):
        """The folder for a large model: in memory if it fits, unless the step that reads it from disk is wanted."""
        shared = "/dev/shm"
        free = shutil.disk_usage(shared).free if os.path.isdir(shared) else 0
        with open("/proc/meminfo") as file:
            available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
        fits = free > size and available > 2 * size + (12 << 30)
        return shared if fits and "large_disk" not in self.options.steps else self.options.folder

    def report(self, step, document):
        line = json.dumps({"step": step, "at": round(time.monotonic() - BEGIN, 1), **document})
        print(line, flush=True)
        if self.options.out:
            with open(self.options.out, "a") as file:
                file.write(line + "\n")

    def without_cpu(self):
        """An environment in which probes found a CPU that is too slow to compute feed-forward blocks."""
        folder = pathlib.Path(self.options.folder, "links-without-cpu", "gabbro")
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"cpu:{format}:{threads}:{tokens} 1 {int(time.time())}" for format in ("q4_0", "q4_k", "q5_k", "q6_k")
                 for threads in range(1, 513) for tokens in (1, 8)]
        (folder / "links").write_text("\n".join(lines) + "\n")
        return {**os.environ, "XDG_CACHE_HOME": str(folder.parent)}

    def gabbro(self, *arguments, environment=None):
        """The document that it prints, with the device's memory and the seconds."""
        o = self.options
        command = [o.gabbro, *arguments, "--json", "--device", o.device]
        begin, left = time.monotonic(), o.seconds + 60 - (time.monotonic() - BEGIN)
        with DeviceMemory() as memory:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=left, env=environment)
            except subprocess.TimeoutExpired:
                return {"error": f"{' '.join(command)} took more than {left:.0f} s"}
        if done.returncode != 0:
            return {"error": f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}"}
        return {**json.loads(done.stdout), "nvidia_smi": memory.document(), "wall": time.monotonic() - begin}

    def bench(self, model, memory, host_memory, *more, cpu=False):
        host = ["--host-memory", host_memory] if host_memory else []
        found = self.gabbro("bench", "llm", model, "-p", "0", "--memory", memory, *host, "--no-check-weights", *more,
                            environment=None if cpu else self.without_cpu())
        if "error" in found:
            return found
        streamed = found.get("streaming") or {}
        link = self.links.get("device" if host_memory else "file")
        rates = {row["test"]: row["tokens_per_second"]["median"] for row in found["results"]}
        out = {"tokens_per_second": rates, "bandwidth": streamed.get("bandwidth"), "link": link,
               "share": streamed.get("bandwidth", 0) / link if link else None,
               "memory_peak": found["memory_peak"], "limit": streamed.get("memory"),
               "planned_bytes": streamed.get("planned_bytes"), "nvidia_smi": found["nvidia_smi"],
               "wall": found["wall"], "streaming": streamed}
        one, many = (next((rate for test, rate in rates.items() if test.endswith("x8") == x8), None)
                     for x8 in (False, True))
        if one and many:
            out["batch_of_8"] = many / one
        return out

    def answer(self, count, *more, model=None, prompt=PROMPT, limits=None):
        memory, host_memory = limits or self.limits()
        model = model or self.model
        found = self.gabbro("run", model, prompt, "--raw", "--temperature", "0", "-n", str(count), "--ctx", "512",
                            "--memory", memory, "--host-memory", host_memory, "--no-check-weights", *more,
                            environment=self.without_cpu())
        if "error" in found:
            return found
        return {key: found[key] for key in ("tokens_per_second", "generated_tokens", "drafted_tokens",
                                            "accepted_tokens", "token_ids", "wall")} | \
            {"passes": found["streaming"]["passes"] if "streaming" in found else None}

    def limits(self):
        return ("144MiB", "1GiB") if self.options.tiny else ("2GiB", "10GiB")

    # Steps, in their order.
    def write(self):
        shape = TINY if self.options.tiny else random_model.PUBLISHED["llama-3.1-8b"]
        layers = DRAFT_LAYERS[self.options.tiny]
        size = random_model.write(self.model, shape, "q4_k_m", quiet_from=layers)
        random_model.write(self.draft, shape, "q4_k_m", layers=layers)
        os.sync()
        return {"bytes": size}

    def link(self):
        found = self.gabbro("bench", "io", self.model, "--seconds", "4")
        self.links = {name: found[name]["bytes_per_second"] for name in ("file", "device") if name in found}
        return found

    def host(self):
        return self.bench(self.model, *self.limits(), "-n", "8", "-b", "1,8", "-r", "3")

    def host_one(self):
        """One sequence alone: the share of the bus."""
        return self.bench(self.model, *self.limits(), "-n", "16", "-r", "2")

    def host_cpu(self):
        """The same with feed-forward blocks on the CPU, whose weights are in host memory twice."""
        memory, host = self.limits()
        out = self.bench(self.model, memory, host, "-n", "16", "-r", "2", cpu=True)
        return {**out, **{key: out.get("streaming", {}).get(key) for key in ("cpu_layers", "cpu_tokens", "cpu_bytes")}}

    def disk(self):
        return self.bench(self.model, self.limits()[0], None, "-n", "5", "-r", "1", "--no-warmup")

    def disk_batch(self):
        return self.bench(self.model, self.limits()[0], None, "-n", "3", "-b", "1,8", "-r", "1", "--no-warmup")

    def drafts(self):
        return self.compared({"plain": self.answer(24, "--no-lookup"), "lookup": self.answer(96),
                              "draft": self.answer(96, "--draft", self.draft)})

    def repeated(self):
        """Text that repeats itself: a model whose layers have TinyLlama's sizes, and that says the alphabet."""
        shape = TINY if self.options.tiny else random_model.PUBLISHED["tinyllama-1.1b"]
        limits = self.limits() if self.options.tiny else ("512MiB", "2GiB")
        alphabet = bytes(range(ord("A"), ord("Z") + 1))
        for path, layers in ((self.cycle, None), (self.cycle_draft, 2)):
            random_model.write(path, shape, "q4_0", layers=layers, cycle=alphabet)
        said = lambda count, *more: self.answer(count, *more, model=self.cycle, limits=limits,
                                                prompt=alphabet.decode() + "ABCDEF")
        return self.compared({"plain": said(48, "--no-lookup"), "lookup": said(192),
                              "draft": said(192, "--no-lookup", "--draft", self.cycle_draft)})

    @staticmethod
    def compared(runs):
        plain = runs["plain"]
        if any("error" in run for run in runs.values()):
            return runs
        ids = plain["token_ids"]
        for run in runs.values():
            run["times_plain"] = run["tokens_per_second"] / plain["tokens_per_second"]
            run["same_tokens"] = run.pop("token_ids")[:len(ids)] == ids
        return runs

    def large_write(self):
        shape = TINY if self.options.tiny else random_model.PUBLISHED["llama-3.1-70b"]
        return {"path": self.large, "bytes": random_model.write(self.large, shape, "q4_k_m")}

    def large_host(self):
        memory, host = self.limits() if self.options.tiny else ("4GiB", "44GiB")
        return self.bench(self.large, memory, host, "-n", "3", "-r", "2")

    def large_disk(self):
        return self.bench(self.large, self.limits()[0] if self.options.tiny else "4GiB", None, "-n", "2", "-r", "1",
                          "--no-warmup")

    ALL = ("write", "link", "host_one", "host", "host_cpu", "disk", "disk_batch", "drafts", "repeated", "large_write",
           "large_host", "large_disk")
    USUAL = ALL[:-1]

    def run(self):
        for name in self.ALL:
            if name not in self.options.steps:
                continue
            if time.monotonic() - BEGIN > self.options.seconds:
                self.report(name, {"left_out": "no time was left"})
                continue
            begin = time.monotonic()
            document = getattr(self, name)()
            self.report(name, {"seconds": round(time.monotonic() - begin, 1), **document})
        if not self.options.keep:
            shutil.rmtree(os.path.join(self.options.folder, "links-without-cpu"), ignore_errors=True)
            for path in (self.model, self.draft, self.cycle, self.cycle_draft, self.large):
                pathlib.Path(path).unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", default="/tmp", help="on the disk that is measured")
    parser.add_argument("--gabbro", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    parser.add_argument("--seconds", type=float, default=150, help="after which no step begins")
    parser.add_argument("--steps", default=",".join(Steps.USUAL), help=f"of {', '.join(Steps.ALL)}")
    parser.add_argument("--out", help="a file for the lines, too")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the models there")
    options = parser.parse_args()
    options.steps = options.steps.split(",")
    if unknown := set(options.steps) - set(Steps.ALL):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    Steps(options).run()


if __name__ == "__main__":
    main()
