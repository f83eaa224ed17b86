"""Streaming against the limit of the disk, and within a limit of memory that the system enforces:

    python3 bench/streaming.py --shape llama-3.1-8b --type q8_0 --memory 2GiB --folder /tmp

Writes a model of random weights, measures plain direct reads of it (8 threads, 4 MiB each) before and after, runs
`gabbro run --memory` in a cgroup of that size, or where that may not be made under RLIMIT_DATA, and the same without a
limit, and compares the tokens. --rounds repeats reads and run in turn; the share of the direct reads is the median of
the rounds. --batch 8 compares the tokens per second of as many prompts with one. Prints one JSON document."""
import argparse
import contextlib
import json
import mmap
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import random_model  # noqa: E402

PROMPT = "A text that repeats itself. A text that repeats"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(size):
    return int(float(size[:-3]) * UNITS[size[-3:]])


def forget(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def direct_reads(path, seconds, threads=8, block=4 << 20):
    """Bytes per second."""
    size = os.path.getsize(path) // block * block
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    lock, state, begin = threading.Lock(), {"offset": 0, "bytes": 0}, time.monotonic()

    def work():
        memory = mmap.mmap(-1, block)
        while time.monotonic() - begin < seconds:
            with lock:
                offset = state["offset"]
                state["offset"] = (offset + block) % size
            got = os.preadv(descriptor, [memory], offset)
            with lock:
                state["bytes"] += got

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.close(descriptor)
    return state["bytes"] / (time.monotonic() - begin)


class Cgroup:
    """A group with a limit of memory, of version 1 or 2; `path` is None where none may be made."""

    def __init__(self, limit):
        name = f"gabbro-bench-{os.getpid()}"
        self.path = None
        for parent, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = pathlib.Path(parent, name)
            try:
                path.mkdir()
                (path / file).write_text(str(limit))
                self.path = path
                return
            except OSError:
                with contextlib.suppress(OSError):
                    path.rmdir()

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError):
                return int((self.path / name).read_text())
        return None

    def failures(self):
        with contextlib.suppress(OSError):
            return int((self.path / "memory.failcnt").read_text())
        return None

    def remove(self):
        with contextlib.suppress(OSError):
            self.path.rmdir()


def run(options, model, *more, before=None):
    command = [options.gabbro, "run", model, PROMPT, "--raw", "--temperature", "0", "-n", str(options.tokens), "--ctx",
               "512", "--json", "--device", "cpu", *options.more, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=before)
    out, _ = process.communicate()
    _, status, usage = 0, process.returncode, resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return json.loads(out), usage.ru_maxrss * 1024


def batch_speed(options, model, count):
    """Tokens per second of `count` prompts that are computed together."""
    prompts = os.path.join(options.folder, f"prompts-{os.getpid()}.txt")
    with open(prompts, "w") as file:
        file.writelines(f"{chr(ord('a') + i)} more text to go on with\n" for i in range(count))
    command = [options.gabbro, "run", model, "--prompts", prompts, "--parallel", str(count), "--raw", "--temperature",
               "0", "-n", str(options.tokens), "--ctx", "512", "--json", "--device", "cpu", "--memory", options.memory,
               *options.more]
    try:
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["tokens_per_second"]
    finally:
        os.remove(prompts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llama-3.1-8b", choices=random_model.PUBLISHED)
    parser.add_argument("--type", default="q8_0", choices=random_model.KINDS)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--tokens", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch", type=int, help="compare this number of prompts with one, instead")
    parser.add_argument("--keep", action="store_true", help="leave the model there")
    parser.add_argument("--unlimited", action="store_true", help="compare with the tokens without a limit")
    parser.add_argument("--gabbro", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    parser.add_argument("more", nargs="*", help="further options of gabbro run, after --")
    options = parser.parse_args()
    model = os.path.join(options.folder, f"random-{options.shape}-{options.type}.gguf")
    if not os.path.exists(model):
        random_model.write(model, random_model.PUBLISHED[options.shape], options.type)
    limit = bytes_of(options.memory)
    if options.batch:
        try:
            speeds = [(batch_speed(options, model, 1), batch_speed(options, model, options.batch))
                      for _ in range(options.rounds)]
            print(json.dumps({"batch": options.batch, "tokens_per_second": speeds,
                              "ratio": statistics.median(many / one for one, many in speeds)}, indent=1))
        finally:
            if not options.keep:
                os.remove(model)
        return
    try:
        forget(model)
        reads = [direct_reads(model, 3)]
        group = Cgroup(limit)
        enter = group.enter if group.path else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        shares = []
        for _ in range(options.rounds):
            forget(model)
            streamed, peak = run(options, model, "--memory", options.memory, before=enter)
            reads.append(direct_reads(model, 3))
            shares.append(streamed["streaming"]["bandwidth"] / ((reads[-2] + reads[-1]) / 2))
        s = streamed["streaming"]
        out = {"model_bytes": os.path.getsize(model), "limit": limit,
               "enforced_by": "cgroup" if group.path else "RLIMIT_DATA", "peak_resident": peak,
               "peak_of_group": group.peak() if group.path else None, "direct_reads": reads,
               "streamed": s["bandwidth"], "share_of_direct_reads": statistics.median(shares), "shares": shares,
               "waited_share": s["waited_seconds"] * s["bandwidth"] / max(s["bytes_read"], 1),
               "tokens_per_second": streamed["tokens_per_second"], "drafted": streamed["drafted_tokens"],
               "accepted": streamed["accepted_tokens"], "passes": s["passes"], "streaming": s}
        group.path and group.remove()
        if options.unlimited:
            whole, _ = run(options, model)
            out["same_tokens"] = whole["token_ids"] == streamed["token_ids"]
        print(json.dumps(out, indent=1))
    finally:
        if not options.keep:
            os.remove(model)


if __name__ == "__main__":
    main()
