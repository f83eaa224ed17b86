#!/usr/bin/env python3
"""Gabbro's server next to llama.cpp's, with the same file, the same threads and the same requests.

    compare_servers.py --model MODEL.gguf --peer LLAMA_SERVER [--threads N] [--streams 1,4,8,16] [--repeats 3]
    compare_servers.py --urls URL PEER_URL                     servers that run already

Both are measured by `gabbro bench serve`, in turns; a figure is the median of the repeats. One server runs at a time, and
the program that measures runs on the same machine: the column "client" is its share of one processor.
"""
import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
START_SECONDS = 600


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_healthy(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def running(command, url):
    """The server of `command`, from the time on when it is healthy."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while not is_healthy(url):
            if process.poll() is not None:
                sys.exit(f"{command[0]} ended with code {process.returncode}")
            if time.monotonic() > end:
                sys.exit(f"{command[0]} is not ready within {START_SECONDS} s")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def servers_of(options):
    """For each side its name, and a function that makes a context with its URL for a number of streams."""
    if options.urls:
        return [(name, lambda _, url=url: contextlib.nullcontext(url)) for name, url in zip(("gabbro", "peer"), options.urls)]

    def gabbro(streams):
        port = free_port()
        return running([options.gabbro, "serve", options.model, "--port", str(port), "--threads", str(options.threads), "--ctx", str(options.context),
                        "--parallel", str(streams)], f"http://127.0.0.1:{port}")

    def peer(streams):
        port = free_port()
        # llama.cpp divides its context among the slots.
        return running([options.peer, "--model", options.model, "--port", str(port), "--threads", str(options.threads), "--ctx-size",
                        str(options.context * streams), "--parallel", str(streams), "--no-webui"], f"http://127.0.0.1:{port}")

    return [("gabbro", gabbro), ("peer", peer)]


def measure(options, url, streams, seed):
    command = [options.gabbro, "bench", "serve", url, "--streams", str(streams), "--seconds", str(options.seconds), "--prompt", str(options.prompt),
               "--answer", str(options.answer), "--temperature", "0", "--seed", str(seed), "--json"]
    name = options.name or (options.model and pathlib.Path(options.model).stem)  # a server may have other models
    if name:
        command += ["--model", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    [point] = json.loads(done.stdout)["points"]
    if point["errors"]:
        sys.exit(f"{url}: {point['errors']}")
    return {"tokens": point["output_tokens_per_second"], "ttft": point["ttft_ms"]["p95"], "client": point["client_cpu"]}


def compare(options):
    rows = []
    for streams in options.streams:
        found = {"gabbro": [], "peer": []}
        for repeat in range(options.repeats):
            for name, start in servers_of(options):
                # Another seed for each repeat: the texts of a repeat that was served before would be in the caches.
                with start(streams) as url:
                    found[name].append(measure(options, url, streams, 1 + repeat))
        row = {"streams": streams}
        for name, points in found.items():
            row[name] = {key: statistics.median(point[key] for point in points) for key in points[0]}
        row["ratio"] = row["gabbro"]["tokens"] / row["peer"]["tokens"]
        rows.append(row)
        print(f"{streams:>4} streams: {row['gabbro']['tokens']:9.1f} and {row['peer']['tokens']:9.1f} tokens/s, ratio {row['ratio']:5.2f}; "
              f"TTFT p95 {row['gabbro']['ttft']:7.0f} and {row['peer']['ttft']:7.0f} ms; client {row['gabbro']['client']:.2f} and "
              f"{row['peer']['client']:.2f}", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="GGUF file of both servers")
    parser.add_argument("--peer", help="llama.cpp's program llama-server")
    parser.add_argument("--urls", nargs=2, metavar="URL", help="servers that run already: Gabbro's, and the other one")
    parser.add_argument("--name", help="model to ask both for, where they run already and have several")
    parser.add_argument("--gabbro", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=1024, help="tokens of each stream")
    parser.add_argument("--streams", type=lambda text: [int(word) for word in text.split(",")], default=[1, 4, 8, 16])
    parser.add_argument("--prompt", type=int, default=128, help="words of each prompt")
    parser.add_argument("--answer", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not options.urls and not (options.model and options.peer):
        parser.error("--model and --peer are needed, or --urls")
    print(json.dumps(compare(options), indent=1))


if __name__ == "__main__":
    main()
