#!/usr/bin/env python3
"""Compares `gabbro convert` and the logits of its formats with llama.cpp, on SmolLM2-135M-Instruct.

    compare_llama_cpp.py perplexity [--types q8_0,q4_0,q4_1,q4_k_m,q6_k]
        Files of both quantizers from one F16 file; llama.cpp computes the perplexity of tests/data/english.txt of both.
        Exits 1 where they differ by more than one per cent.
    compare_llama_cpp.py folder [--types f16,q8_0]
        A folder of safetensors, converted by gabbro and by llama.cpp's convert_hf_to_gguf.py: the same comparison. The
        folder is made of the file with transformers, and has the pre-tokenizer that SmolLM2 is published with.
    compare_llama_cpp.py logits [--types q1_0,...,nvfp4]
        Files in the newer formats, by llama.cpp's quantizer, or by gabbro convert where that has no such type; logits
        of both programs for the same file: mean KL divergence of next-token distributions. First the older formats,
        whose largest divergence, times --margin, is the bound of the newer ones. Where one is above it, llama.cpp's
        logits of the same weights in f32 decide. Exits 1 where one is above it then.

Needs numpy, for `folder` also torch, transformers and gguf; builds llama.cpp's programs where --llama-bin is not given,
as bench/peers/llama_cpp does. Outside CI: minutes.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("bench/peers/llama_cpp", "tests/quality", "tests/cli")]

import llama_tools  # noqa: E402

TEXT = ROOT / "tests/data/english.txt"
OLDER = "q8_0,q4_0,q4_k_m,q3_k_m,iq4_xs"
NEWER = "q1_0,q2_0,iq1_s,iq1_m,iq2_xxs,iq2_xs,iq2_s,iq3_xxs,iq3_s,tq1_0,tq2_0,mxfp4,nvfp4"
NOT_BY_LLAMA = {"mxfp4", "nvfp4"}  # of experts alone, or not at all


def run(*command, quiet=True, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode != 0 and not quiet:
        sys.exit(f"compare: error: {command[0]} ended with {done.returncode}:\n{done.stdout[-1500:]}")
    return done


def must(*command):
    return run(*command, quiet=False)


def original(args):
    """SmolLM2 in F16, of the published Q4_1 file."""
    path = args.models / "smollm2-f16.gguf"
    if not path.exists():
        args.models.mkdir(parents=True, exist_ok=True)
        fetched = must(ROOT / "tools/fetch_smollm2").stdout.strip().splitlines()[-1]
        must(args.gabbro, "convert", fetched, "--type", "f16", "-o", path)
    return path


def importance(args):
    path = args.models / "smollm2-imatrix.gguf"
    if not path.exists():
        must(args.gabbro, "imatrix", original(args), "--text", TEXT, "-o", path)
    return path


def by_gabbro(args, name, weighted):
    path = args.models / f"gabbro-{name}.gguf"
    if not path.exists():
        options = ["--imatrix", importance(args)] if weighted else []
        must(args.gabbro, "convert", original(args), "--type", name, *options, "-o", path)
    return path


def by_llama(args, name, weighted):
    """None where llama.cpp's tool has no such type."""
    path = args.models / f"llama-{name}.gguf"
    if name in NOT_BY_LLAMA:
        return None
    if not path.exists():
        options = ["--imatrix", importance(args)] if weighted else []
        part = path.with_suffix(".part")
        done = run(args.llama_bin / "llama-quantize", *options, original(args), part, name.upper())
        if done.returncode != 0:
            part.unlink(missing_ok=True)
            return None
        part.rename(path)
    return path


def published_folder(args):
    """SmolLM2 as a folder of safetensors in f16."""
    import torch
    import transformers
    from safetensors.torch import save_file
    folder = args.models / "smollm2-folder"
    if (folder / "config.json").exists():
        return folder
    file = pathlib.Path(must(ROOT / "tools/fetch_smollm2").stdout.strip().splitlines()[-1])
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    content["post_processor"] = None
    path.write_text(json.dumps(content, ensure_ascii=False))
    save_file({name: value.to(torch.float16).contiguous() for name, value in model.state_dict().items()
               if name != "lm_head.weight"}, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


def folder_by_gabbro(args, name):
    path = args.models / f"gabbro-folder-{name}.gguf"
    if not path.exists():
        must(args.gabbro, "convert", published_folder(args), "--type", name, "-o", path)
    return path


def folder_by_llama(args, name):
    path = args.models / f"llama-folder-{name}.gguf"
    script = next(args.cache.glob("source/*/vendor/llama.cpp/convert_hf_to_gguf.py"))
    if not path.exists():
        must(sys.executable, script, published_folder(args), "--outtype", name, "--outfile", path)
    return path


def perplexity_of(args, model):
    command = [args.llama_bin / "llama-perplexity", "-m", model, "-f", TEXT, "-c", args.ctx, "-t", args.threads]
    command += ["--chunks", args.chunks] if args.chunks else []
    return float(re.search(r"Final estimate: PPL = ([\d.]+)", must(*command).stdout)[1])


def same_bytes(one, other):
    """How many tensors of two files are the same to the bit."""
    from gguf_edit import Gguf
    first = {t.name: t.data.rstrip(b"\0") for t in Gguf(one).tensors}
    second = {t.name: t.data.rstrip(b"\0") for t in Gguf(other).tensors}
    return sum(first[name] == second.get(name) for name in first), len(first)


def compare_perplexity(args):
    folder = args.what == "folder"
    bad = 0
    print("| type | llama.cpp's file | gabbro's file | difference | tensors equal to the bit |")
    print("| --- | --- | --- | --- | --- |")
    for name in (args.types or ("f16,q8_0" if folder else "q8_0,q4_0,q4_1,q4_k_m,q6_k")).split(","):
        theirs = folder_by_llama(args, name) if folder else by_llama(args, name, False)
        ours = folder_by_gabbro(args, name) if folder else by_gabbro(args, name, False)
        if theirs is None:
            sys.exit(f"compare: error: llama-quantize has no type {name}")
        same, count = same_bytes(theirs, ours)
        before = perplexity_of(args, theirs)
        after = before if same == count else perplexity_of(args, ours)
        bad += abs(after / before - 1) > 0.01
        print(f"| {name} | {before:.4f} | {after:.4f} | {after / before - 1:+.2%} | {same} of {count} |", flush=True)
    return bad


def logits_divergence(args, model, tokens, reference=None):
    """Of Gabbro's logits of a file from llama.cpp's, of the same file or of another one."""
    import compare
    import numpy
    ours, theirs = args.models / "gabbro.npy", args.models / "llama.npy"
    must(args.gabbro, "logits", model, "--tokens", tokens.read_text().strip(), "--out", ours)
    done = run(sys.executable, ROOT / "tests/quality/llama_logits.py", reference or model, "--tokens", tokens, "--out", theirs,
               "--threads", args.threads, env=llama_tools.bindings(args))
    if done.returncode != 0:
        print(done.stdout[-600:], file=sys.stderr)
        return None
    kl, same = compare.divergence(numpy.load(theirs), numpy.load(ours))
    ours.unlink()
    theirs.unlink()
    return float(kl.mean()), float(kl.max()), same


def in_f32(args, model):
    """The same weights in f32, by llama.cpp, which multiplies them by activations that are not quantized."""
    path = args.models / f"{model.stem}-f32.gguf"
    if not path.exists():
        must(args.llama_bin / "llama-quantize", "--allow-requantize", model, path, "F32")
    return path


def compare_logits(args):
    tokens = args.models / f"tokens-{args.positions}.txt"
    if not tokens.exists():
        listed = must(args.gabbro, "tokenize", original(args), "--file", TEXT, "--json").stdout
        tokens.write_text(",".join(map(str, json.loads(listed)["token_ids"][:args.positions])) + "\n")
    print(f"{args.positions} positions\n\n| type | quantized by | mean KL | largest KL | same first choice | verdict |")
    print("| --- | --- | --- | --- | --- | --- |")
    bad, bound = 0, 0.0
    for name in OLDER.split(",") + (args.types or NEWER).split(","):
        older = name in OLDER.split(",")
        model = by_llama(args, name, not older)
        maker = "llama.cpp" if model else "gabbro"
        model = model or by_gabbro(args, name, not older)
        found = logits_divergence(args, model, tokens)
        if found is None:
            print(f"| {name} | {maker} | llama.cpp does not read it | | | |", flush=True)
            continue
        mean, largest, same = found
        if older:
            bound = max(bound, mean)
        good = older or mean <= args.margin * bound
        if not good:
            print(f"| {name} | {maker} | {mean:.2e} | {largest:.2e} | {same:.1%} | against its f32 weights: |", flush=True)
            mean, largest, same = logits_divergence(args, model, tokens, in_f32(args, model))
            good = mean <= args.margin * bound
        bad += not good
        print(f"| {name} | {maker} | {mean:.2e} | {largest:.2e} | {same:.1%} | "
              f"{'bound' if older else 'ok' if good else f'above {args.margin * bound:.1e}'} |", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    llama_tools.add_arguments(parser)
    parser.add_argument("what", choices=["perplexity", "folder", "logits"])
    parser.add_argument("--types", help="instead of all")
    parser.add_argument("--gabbro", default=ROOT / "build/release/bin/gabbro", type=pathlib.Path)
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--chunks", type=int, help="of the text, instead of all")
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp")
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--margin", type=float, default=2.0, help="of the older formats' largest mean KL")
    args = parser.parse_args()
    llama_tools.prepare(args)
    bad = compare_logits(args) if args.what == "logits" else compare_perplexity(args)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
