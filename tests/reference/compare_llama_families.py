#!/usr/bin/env python3
"""Loads a GGUF of each family in llama.cpp: `gabbro convert` writes it from the tiny models of tests/data/families.

    compare_llama_families.py [--families llama,qwen2] [--keep FOLDER]

Compares llama.cpp's logits with transformers', which the folder of the fixture has (expected.safetensors), for
all positions of the prompt at once and for one token at a time. The figure is the largest difference over the largest
logit; exits 1 where it is above --bound. The weights are f32, llama.cpp's cache f16 as the fixture's is.

Needs numpy, safetensors, torch and transformers; builds llama.cpp where --llama-bin is not given, as bench/peers/llama_cpp does. Outside CI: a second for each family.
"""
import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers/llama_cpp"))

import llama_tools  # noqa: E402

FAMILIES = ROOT / "tests/data/families"
NO_SUCH = "llama.cpp has no such architecture"
NOT_COMPARED = {"falcon_rw": NO_SUCH, "gpt_neo": NO_SUCH, "gptj": NO_SUCH, "opt": NO_SUCH,
                # 20 layers with their own keys, 4 streams, LAuReL of rank 64, in 10 layers sparse gates: as deep a random
                # model multiplies rounding errors by 1e3.
                "gemma3n": "llama.cpp has the published sizes alone"}
OTHER_LOGITS = {"phimoe"}  # llama.cpp routes by softmax where the model has SparseMixer
# Settings of a fixture for which llama.cpp has no field, or which it knows by the number of layers: another tiny model is
# made with these instead. "null" is None.
EXPRESSIBLE = {
    "cohere_qk_norm": dict(num_hidden_layers=64),  # fewer layers: no norms
    # Without this rank 27 layers; groups are chosen as in the third version.
    "deepseek_v2": dict(q_lora_rank=24, topk_method="greedy", n_group=1, topk_group=1),
    "dots1": dict(sliding_window="null", num_key_value_heads=4),
    "exaone4": dict(sliding_window="null", layer_types=["full_attention"] * 4),  # 64 layers: a window of 4096
    "gemma2": dict(query_pre_attn_scalar=16),
    "gemma3": dict(query_pre_attn_scalar=16),
    "gpt_oss": dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                         original_max_position_embeddings=64)),  # whole pairs
    "granitemoehybrid": dict(time_step_limit=None),
    "lfm2_moe": dict(routed_scaling_factor=1.0),
    "llama4_text": dict(attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1),
    "mistral": dict(sliding_window="null"),
    "mixtral": dict(sliding_window="null"),
    "nemotron": dict(head_dim=8),
    "olmoe": dict(num_key_value_heads=4),
    "phimoe": dict(lm_head_bias=True, attention_bias=True),
    "qwen2_moe": dict(mlp_only_layers=[]),
    "qwen3_moe": dict(decoder_sparse_step=1),
}


def folder_of(name, work):
    """The fixture, or another model of the family that llama.cpp can express."""
    if name not in EXPRESSIBLE:
        return FAMILIES / name
    import zlib

    import make_family_fixtures as maker
    class_name, fields = maker.FAMILIES[name]
    maker.OUT = work / "folders"
    maker.FAMILIES = {**maker.FAMILIES, name: (class_name, {**fields, **EXPRESSIBLE[name]})}
    if not (maker.OUT / name).exists():
        with contextlib.redirect_stdout(sys.stderr):
            maker.write(name, zlib.crc32(name.encode()))
    return maker.OUT / name


def logits_of(args, model, tokens, batch, out):
    """llama.cpp's logits [T, V] and what it said; None where it ended with an error."""
    import numpy
    command = [sys.executable, ROOT / "tests/quality/llama_logits.py", model, "--tokens", tokens, "--out", out,
               "--batch", batch]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=llama_tools.bindings(args))
    if done.returncode != 0:
        return None, f"ended with {done.returncode}: {done.stdout[-1500:]}"
    return numpy.load(out), done.stdout


def compare_family(args, name, work):
    """The two figures, or a text that says why there are none."""
    import numpy
    from safetensors.numpy import load_file
    folder, model = folder_of(name, work), work / f"{name}.gguf"
    command = [args.gabbro, "convert", folder, "--type", "f32", "-o", model, "--force"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        return done.stdout
    expected = load_file(folder / "expected.safetensors")
    tokens = work / f"{name}.txt"
    tokens.write_text(",".join(map(str, expected["ids"])))
    figures = []
    for batch in (512, 1):
        found, said = logits_of(args, model, tokens, batch, work / f"{name}-{batch}.npy")
        if found is None:
            return said
        difference = numpy.abs(found - expected["logits"]).max() / numpy.abs(expected["logits"]).max()
        figures.append(float(difference))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    llama_tools.add_arguments(parser)
    parser.add_argument("--families", help="instead of all")
    parser.add_argument("--gabbro", default=ROOT / "build/release/bin/gabbro", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files, which stay there")
    parser.add_argument("--bound", type=float, default=5e-3)
    args = parser.parse_args()
    llama_tools.prepare(args)
    names = args.families.split(",") if args.families else sorted(folder.name for folder in FAMILIES.iterdir())
    bad = 0
    print("| family | prompt | one token at a time | |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        work = args.keep or pathlib.Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name in NOT_COMPARED:
                print(f"| {name} | | | {NOT_COMPARED[name]} |", flush=True)
                continue
            found = compare_family(args, name, work)
            if isinstance(found, str):
                bad += 1
                print(f"| {name} | | | failed |", flush=True)
                print(found.strip(), file=sys.stderr)
                continue
            good = name in OTHER_LOGITS or max(found) <= args.bound
            bad += not good
            verdict = "loads" if name in OTHER_LOGITS else "ok" if good else "above"
            other = "".join(f", {field}: {value}" for field, value in EXPRESSIBLE.get(name, {}).items())
            print(f"| {name} | {found[0]:.1e} | {found[1]:.1e} | {verdict}{other} |", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
