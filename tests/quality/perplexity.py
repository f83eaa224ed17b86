#!/usr/bin/env python3
"""Perplexity of the same file and text by Gabbro and by llama-perplexity; they must agree within one per cent.

    perplexity.py --models FOLDER --llama-bin FOLDER [--formats q4_0,q8_0] [--ctx 512]

Standard library only; runs outside CI. llama.cpp's convention: the second half of each chunk counts.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import formats

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "tests/data/english.txt"


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"perplexity: error: {command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def llama_perplexity(args, model):
    text = run([args.llama_bin / "llama-perplexity", "-m", model, "-f", TEXT, "-c", args.ctx, "-t", args.threads])
    return float(re.search(r"Final estimate: PPL = ([\d.]+)", text)[1])


def gabbro_perplexity(args, model):
    command = [args.gabbro, "perplexity", model, "--file", TEXT, "--ctx", args.ctx, "--threads", args.threads, "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"perplexity: error: gabbro ended with {done.returncode}")
    return json.loads(done.stdout)["perplexity"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--llama-bin", required=True, type=pathlib.Path)
    parser.add_argument("--gabbro", default=ROOT / "build/release/bin/gabbro", type=pathlib.Path)
    parser.add_argument("--formats", default=",".join(formats.FORMATS))
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-gabbro", action="store_true", help="llama.cpp's figures only")
    args = parser.parse_args()
    bad = 0
    print("| format | llama.cpp | gabbro | difference |\n| --- | --- | --- | --- |")
    for name in args.formats.split(","):
        model = args.models / f"smollm2-135m-instruct-{name}.gguf"
        theirs = llama_perplexity(args, model)
        if args.no_gabbro:
            print(f"| {name} | {theirs:.4f} | | |", flush=True)
            continue
        ours = gabbro_perplexity(args, model)
        bad += abs(ours / theirs - 1) > 0.01
        print(f"| {name} | {theirs:.4f} | {ours:.4f} | {ours / theirs - 1:+.2%} |", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
