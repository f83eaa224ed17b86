#!/usr/bin/env python3
"""Mean KL divergence of Gabbro's and llama.cpp's logits from a float32 reference of the same dequantized weights.

    kl.py --models FOLDER --work FOLDER [--formats q4_0,q8_0] [--gabbro PATH] [--no-gabbro]

FOLDER of models: smollm2-135m-instruct-<format>.gguf (bench/peers/llama_cpp/formats.py makes them). Everything that is
slow is kept in the work folder and made only where it is missing: tokens.txt (the first 768 tokens of
tests/data/english.txt, by `gabbro tokenize`), reference-<format>.npy (reference.py: torch and transformers) and
llama-<format>.json (llama_logits.py: llama-cpp-python). Needs numpy; runs outside CI. Exits 1 where Gabbro diverges more
than llama.cpp does from a quantized format, or more than 1e-5 from F32, F16 or BF16.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy

import compare
import formats

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXACT_FORMATS = {"f32", "f16", "bf16"}
EXACT_LIMIT = 1e-5
POSITIONS = 768


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"kl: error: {command[0]} ended with {done.returncode}")
    return done.stdout


def tokens_file(args, model):
    path = args.work / "tokens.txt"
    if not path.exists():
        listed = run(args.gabbro, "tokenize", model, "--file", ROOT / "tests/data/english.txt", "--json")
        path.write_text(",".join(map(str, json.loads(listed)["token_ids"][:POSITIONS])) + "\n")
    return path


def figures(reference, candidate):
    kl, agreement = compare.divergence(reference, numpy.load(candidate, mmap_mode="r"))
    return {"mean": float(kl.mean()), "max": float(kl.max()), "agreement": agreement, "positions": len(kl)}


def llama_figures(args, name, model, tokens, reference):
    """llama.cpp with prompts in one batch, and one token at a time."""
    path = args.work / f"llama-{name}.json"
    if not path.exists():
        result = {}
        for way, batch in (("prompt", POSITIONS), ("generation", 1)):
            scratch = args.work / "llama.npy"
            run(sys.executable, HERE / "llama_logits.py", model, "--tokens", tokens, "--out", scratch, "--batch", batch)
            result[way] = figures(reference, scratch)
            scratch.unlink()
        path.write_text(json.dumps(result, indent=1) + "\n")
    return json.loads(path.read_text())


def gabbro_figures(args, model, tokens, reference):
    scratch = args.work / "gabbro.npy"
    command = [args.gabbro, "logits", model, "--tokens", tokens.read_text().strip(), "--out", scratch]
    run(*command, *args.gabbro_option)
    result = figures(reference, scratch)
    scratch.unlink()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--formats", default=",".join(formats.FORMATS))
    parser.add_argument("--gabbro", default=ROOT / "build/release/bin/gabbro", type=pathlib.Path)
    parser.add_argument("--gabbro-option", action="append", default=[], help="passed on to `gabbro logits`")
    parser.add_argument("--no-gabbro", action="store_true", help="prepare the reference and llama.cpp's figures only")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)

    print("| format | positions | llama.cpp, prompt | llama.cpp, generation | gabbro | gabbro max | same first choice | verdict |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    bad = 0
    for name in args.formats.split(","):
        model = args.models / f"smollm2-135m-instruct-{name}.gguf"
        tokens = tokens_file(args, model)
        path = args.work / f"reference-{name}.npy"
        if not path.exists():
            run(sys.executable, HERE / "reference.py", model, "--tokens", tokens, "--out", path)
        reference = numpy.load(path, mmap_mode="r")
        llama = llama_figures(args, name, model, tokens, reference)
        row = f"| {name} | {len(reference)} | {llama['prompt']['mean']:.2e} | {llama['generation']['mean']:.2e} |"
        if args.no_gabbro:
            print(row + " | | | |", flush=True)
            continue
        ours = gabbro_figures(args, model, tokens, reference)
        limit = EXACT_LIMIT if name in EXACT_FORMATS else llama["prompt"]["mean"]
        good = ours["mean"] <= limit
        bad += not good
        print(f"{row} {ours['mean']:.2e} | {ours['max']:.2e} | {ours['agreement']:.2%} | "
              f"{'ok' if good else f'over {limit:.1e}'} |", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
