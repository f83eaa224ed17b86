#!/usr/bin/env python3
"""Gabbro and llama.cpp side by side on the CPU: same file, same threads, in turns; prints Markdown tables of ratios.

    bench.py [--formats Q4_0,Q8_0] [--rounds 5] [--threads 2] [--llama-bin DIR] [--models DIR] [--json FILE]

Speed: each round runs `llama-bench -p 512 -n 128` and `gabbro bench llm`, the first of the two changing from round to
round. A ratio is taken within a round, so that a busy minute touches both; the table shows medians over the rounds and
the smallest and largest ratio. Start: the whole life of a process that reads the model and writes one token, the file
being in the page cache. Memory: the peak resident size of a process that generates 32 tokens.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

import llama_tools

PROMPT = "The lighthouse stood on the highest part of the rock."
TESTS = ["pp512", "tg128"]


def output_of(command):
    return llama_tools.must(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def llama_speed(args, model):
    rows = json.loads(output_of([args.llama_bin / "llama-bench", "-m", model, "-p", 512, "-n", 128, "-t", args.threads,
                                 "-r", args.repetitions, "-o", "json"]))
    return {"pp512" if row["n_prompt"] else "tg128": statistics.median(row["samples_ts"]) for row in rows}


def gabbro_speed(args, model):
    document = json.loads(output_of([args.gabbro, "bench", "llm", model, "--threads", args.threads, "--device", "cpu",
                                     "--json"]))
    return {row["test"]: row["tokens_per_second"]["median"] for row in document["results"]}


def llama_run(args, model, tokens):
    # Without its warm-up pass, which would only cost it time here.
    return [args.llama_bin / "llama-completion", "-m", model, "-p", PROMPT, "-n", tokens, "-t", args.threads, "--temp", 0,
            "-no-cnv", "--no-warmup", "-c", 2048]


def gabbro_run(args, model, tokens):
    return [args.gabbro, "run", model, PROMPT, "--raw", "-n", tokens, "--threads", args.threads, "--temperature", 0,
            "--device", "cpu", "--ctx", 2048]


def in_turns(round_index, ours, theirs):
    """Both results of one round, (ours, theirs); who goes first changes."""
    if round_index % 2:
        first = theirs()
        return ours(), first
    first = ours()
    return first, theirs()


def measure(args, name):
    model = llama_tools.model_in(name, args.models, args.llama_bin)
    rows = {test: [] for test in TESTS}
    for i in range(args.rounds):
        ours, theirs = in_turns(i, lambda: gabbro_speed(args, model), lambda: llama_speed(args, model))
        for test in TESTS:
            rows[test].append((ours[test], theirs[test]))
        llama_tools.say(f"{name} round {i + 1}: " +
                        ", ".join(f"{t} {ours[t]:.1f} / {theirs[t]:.1f} = {ours[t] / theirs[t]:.2f}" for t in TESTS))
    life_of = llama_tools.life_of
    start = [in_turns(i, lambda: life_of(gabbro_run(args, model, 1)).wall, lambda: life_of(llama_run(args, model, 1)).wall)
             for i in range(args.start_rounds)]
    memory = (life_of(gabbro_run(args, model, 32)).memory, life_of(llama_run(args, model, 32)).memory)
    return {"format": name, "file_bytes": model.stat().st_size, "speed": rows, "start_seconds": start,
            "peak_bytes": memory}


def column(pairs, index):
    return statistics.median(pair[index] for pair in pairs)


def speed_cells(pairs):
    ratios = [ours / theirs for ours, theirs in pairs]
    return (f"{column(pairs, 0):.0f} | {column(pairs, 1):.0f} | **{statistics.median(ratios):.2f}** "
            f"({min(ratios):.2f} to {max(ratios):.2f})")


def print_tables(results, threads):
    print(f"\nTokens per second, {threads} threads: gabbro, llama.cpp, ratio (range over rounds)\n")
    print("| format | pp512 gabbro | llama.cpp | ratio | tg128 gabbro | llama.cpp | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        print(f"| {result['format']} | " + " | ".join(speed_cells(result["speed"][test]) for test in TESTS) + " |")
    print("\nStart to first token (whole process, file in the page cache), and peak resident memory\n")
    print("| format | gabbro, ms | llama.cpp, ms | ratio | gabbro, MB | llama.cpp, MB | 1.5 × file + 100 MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        ours, theirs = column(result["start_seconds"], 0), column(result["start_seconds"], 1)
        peak = [bytes_ / 1e6 for bytes_ in result["peak_bytes"]]
        limit = 1.5 * result["file_bytes"] / 1e6 + 100
        print(f"| {result['format']} | {ours * 1e3:.0f} | {theirs * 1e3:.0f} | {ours / theirs:.2f} | "
              f"{peak[0]:.0f} | {peak[1]:.0f} | {limit:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    llama_tools.add_arguments(parser)
    parser.add_argument("--gabbro", type=pathlib.Path, default=llama_tools.ROOT / "build/release/bin/gabbro")
    parser.add_argument("--formats", default=",".join(llama_tools.SPEED_FORMATS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=3, help="of llama-bench, within a round")
    parser.add_argument("--start-rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path, help="keep every single figure here")
    args = parser.parse_args()
    llama_tools.prepare(args)
    results = [measure(args, name) for name in args.formats.split(",")]
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    print_tables(results, args.threads)


if __name__ == "__main__":
    main()
