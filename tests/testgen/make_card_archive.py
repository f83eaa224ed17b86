#!/usr/bin/env python3
"""Writes one archive with packs, sweep_cards.py and what it needs, for a machine with a card and without Gabbro.

    make_card_archive.py GABBRO ARCHIVE.tar.xz [--wheels FOLDER] [--first FILE]

In the archive, run.sh runs everything with the machine's own torch and transformers; $OUT is the folder for results.
--wheels: wheels of pytest and of what it needs, used where the machine has no pytest.
--first: names of types, one a line, that run before the others.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = ["llama", "bert", "clip", "gemma2", "gpt2", "mamba", "qwen3_moe", "t5", "vit", "whisper", "falcon",
          "deepseek_v3"]
TRUE = ["bert", "gpt2", "vit", "clip", "t5", "wav2vec2", "distilbert", "roberta"]
COMPILE = ["llama", "bert", "vit", "gpt2", "qwen2", "mistral", "phi", "electra", "opt", "deit"]
QUIET = ["llama", "bert", "vit"]
# Faults of measure_bisect.py whose block and operation are searched for on the card.
SEARCHES = {"llama": ["silu_slope", "attention_scale", "gemm_k_tail", "rope_sign", "rsqrt_bits", "mul_bits"],
            "bert": ["gemm_bf16", "norm_lane", "bias_dropped", "embedding_row", "one_element"],
            "vit": ["mm_k_tail", "layer_norm_bf16", "gelu_bits", "add_bits"]}
# The order of the sweep: this number of types of each kind in turn.
KINDS = {"causal-lm": 6, "masked-lm": 3, "image-classification": 2, "seq2seq-lm": 2, "base": 3, "object-detection": 1,
         "zero-shot-image-classification": 1, "ctc": 1, "audio-classification": 1, "speech-seq2seq": 1,
         "semantic-segmentation": 1, "depth-estimation": 1}
LENGTHS = "1,31"
RUN = """#!/bin/bash
# Runs everything on the first card: 5 minutes at most, results in $OUT (default: ./results).
# PYTHON names the interpreter that has torch and transformers; DEVICE=cpu TYPES=4 SECONDS_OF_RUN=120 is a trial.
cd "$(dirname "$0")" || exit 2
export OUT="${OUT:-$PWD/results}" PYTHONDONTWRITEBYTECODE=1
PYTHON="${PYTHON:-python3}"
mkdir -p "$OUT"
"$PYTHON" -c 'import pytest' 2>/dev/null || export PYTHONPATH="$PWD/pytest:${PYTHONPATH:-}"
timeout -k 5 "${LIMIT:-295}" "$PYTHON" tests/testgen/sweep_cards.py . --out "$OUT" --device "${DEVICE:-cuda:0}" \\
  --types "${TYPES:-1000}" --seconds "${SECONDS_OF_RUN:-285}" --jobs "${JOBS:-15}" 2>&1 | tee "$OUT/run.log"
code=${PIPESTATUS[0]}
rm -rf "$OUT/parts"
echo "exit code $code: 0 good, 1 an alarm or too few faults found, 3 no card, 4 or more: cut off, see summary.md"
exit "$code"
"""


def chosen_types(program, early):
    """Types in the order of the sweep, by the task that the generator picks for each."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "testgen", "--all", "--checks", "layers", "-o", folder, "--json"]
        rows = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["types"]
    by_kind = {}
    for row in rows:
        by_kind.setdefault(row["task"], []).append(row["type"])
    for kind in KINDS:  # from the well-known to the rest
        by_kind.setdefault(kind, []).sort(key=lambda name: (name not in FAULTS + COMPILE + TRUE, name))
    first = [*FAULTS, *COMPILE, *early]
    rounds = range(max(map(len, by_kind.values())))
    rest = [name for i in rounds for kind, n in KINDS.items() for name in by_kind[kind][i * n : (i + 1) * n]]
    known = set(rest)
    return list(dict.fromkeys(name for name in [*first, *rest] if name in known))


def generate(program, types, folder, size):
    names = folder.parent / "types.txt"
    names.write_text("\n".join(types) + "\n")
    words = [program, "testgen", "--from", names, "-o", folder, "--size", size, "--lengths", LENGTHS, "--json"]
    made = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    names.unlink()
    return [row["type"] for row in made["types"]]


def copy(folder):
    for name in ("tests/testgen", "python/gabbro/testgen"):
        (folder / name).mkdir(parents=True)
    for name in ("sweep_cards", "sweep_report", "measure_mutants", "measure_bisect"):
        shutil.copy(ROOT / "tests" / "testgen" / f"{name}.py", folder / "tests" / "testgen")
    for name in ("runner", "faults", "report"):
        shutil.copy(ROOT / "python" / "gabbro" / "testgen" / f"{name}.py", folder / "python" / "gabbro" / "testgen")
    shutil.copy(ROOT / "src" / "testgen" / "templates" / "machine.py", folder / "python" / "gabbro" / "testgen")
    (folder / "run.sh").write_text(RUN)
    (folder / "run.sh").chmod(0o755)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("archive")
    parser.add_argument("--wheels")
    parser.add_argument("--first")
    parser.add_argument("--limit", type=int, default=420, help="types at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "sweep")
        copy(folder)
        early = pathlib.Path(options.first).read_text().split() if options.first else []
        types = chosen_types(options.program, early)[: options.limit]
        types = generate(options.program, types, folder / "packs", "tiny")
        generate(options.program, TRUE, folder / "true", "true")
        plan = {"types": types, "probe": types[:1], "faults": FAULTS, "true": TRUE, "compile": COMPILE, "quiet": QUIET,
                "searches": SEARCHES}
        (folder / "plan.json").write_text(json.dumps(plan, indent=1))
        if options.wheels:
            for wheel in sorted(pathlib.Path(options.wheels).glob("*.whl")):
                zipfile.ZipFile(wheel).extractall(folder / "pytest")
        words = ["tar", "--sort=name", "--owner=0", "--group=0", "--mtime=2026-01-01", "-C", temporary, "-cf", "-"]
        words.append("sweep")
        packed = pathlib.Path(options.archive)
        tar = subprocess.Popen(words, stdout=subprocess.PIPE)
        with open(packed, "wb") as file:
            subprocess.run(["xz", "-6", "--lzma2=dict=64MiB", "-T1"], stdin=tar.stdout, stdout=file, check=True)
        if tar.wait():
            return 1
    print(f"{len(types)} types, {os.path.getsize(packed) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
