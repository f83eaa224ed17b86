#!/usr/bin/env python3
"""Writes one archive with packs and the programs that run them, for a machine with a card and without Gabbro.

    make_card_archive.py GABBRO ARCHIVE.tar.xz|FOLDER [--wheels FOLDER] [--newer FOLDER] [--first FILE] [--seeds 20]

In the archive, run.sh runs sweep_cards.py on the first card, cpu.sh sweep_types.py on the CPU, all.sh both at once,
and more.sh planted faults and legal variants on the CPU; $OUT is the folder for results.
--wheels: wheels of pytest and of what it needs, used where the machine has no pytest.
--newer: wheels that take the place of the machine's own packages, such as transformers.
--first: names of types, one a line, that run before the others.
--seeds: packs of that many seeds for false_alarms.py, and the packs of planted_faults.py.
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

import sweep_types

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = ["llama", "bert", "clip", "gemma2", "gpt2", "mamba", "qwen3_moe", "t5", "vit", "whisper", "falcon",
          "deepseek_v3"]
TRUE = ["bert", "gpt2", "vit", "t5"]
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
MIXED = 180  # the first types, of all kinds; among these and among the rest those with few tests come first
SECONDS = {"causal-lm": 70, "seq2seq-lm": 65, "multimodal-lm": 75, "speech-seq2seq": 50, "masked-lm": 38}  # else 33
HEAD = """#!/bin/bash
# PYTHON names the interpreter that has torch and transformers; OWN=1 takes its transformers, not the one carried here.
cd "$(dirname "$0")" || exit 2
export OUT="${OUT:-$PWD/results}" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
PYTHON="${PYTHON:-python3}"
mkdir -p "$OUT" work
"$PYTHON" -c 'import pytest' 2>/dev/null || export PYTHONPATH="$PWD/pytest:${PYTHONPATH:-}"
if [ -d newer ] && [ -z "${OWN:-}" ]; then
  if PYTHONPATH="$PWD/newer" "$PYTHON" -c 'import transformers.modeling_utils'; then
    export PYTHONPATH="$PWD/newer:${PYTHONPATH:-}"
  else
    echo "the transformers carried here cannot be imported: the machine's own is taken"
    OWN=1
  fi
fi
"""
RUNS = {"run.sh": """
# The first card: 8 minutes at most, 15 processes. DEVICE=cpu TYPES=4 SECONDS_OF_RUN=120 is a trial.
timeout -k 5 "${LIMIT:-470}" "$PYTHON" tests/testgen/sweep_cards.py . --out "$OUT" --work "$PWD/work" \\
  --device "${DEVICE:-cuda:0}" --types "${TYPES:-1000}" --seconds "${SECONDS_OF_RUN:-450}" --jobs "${JOBS:-15}" \\
  > work/run.log 2>&1
code=$?
tar -C work -czf "$OUT/reproducers.tar.gz" --exclude=parts .
head -c 5000 "$OUT/summary.md"
echo "card: exit code $code: 0 good, 1 an alarm or too few faults found, 3 no card, 4 or more: cut off, see summary.md"
exit "$code"
""", "cpu.sh": """
# All types with a base class and all with a causal class on the CPU: 7 minutes at most, 10 processes.
until=$((SECONDS + ${SECONDS_OF_CPU:-410}))
sweep() {
  [ $((until - SECONDS)) -lt 20 ] && return
  timeout -k 5 $((until - SECONDS + 8)) "$PYTHON" tests/testgen/sweep_types.py "$1" --task "$2" --out "$OUT/$3.jsonl" \\
    --jobs "${CPU_JOBS:-10}" --seconds $((until - SECONDS)) >> "$OUT/cpu.log" 2>&1
  echo "$3: exit code $? at $SECONDS s: 0 the goal is reached" | tee -a "$OUT/cpu.log"
}
sweep causal causal-lm causal
sweep base base base
# Time that is left goes to the machine's own transformers.
[ -d newer ] && [ -z "${OWN:-}" ] && PYTHONPATH="${PYTHONPATH#"$PWD/newer:"}" sweep causal causal-lm causal_own
exit 0
""", "more.sh": """
# Planted faults and legal variants of twelve families, and a fault for each check, on the CPU: 8 minutes at most.
one() {
  log="work/$1-$(basename "$2").log"
  timeout -k 5 "${LIMIT:-450}" "$PYTHON" "tests/testgen/$1.py" "$2" ${3:+--seeds "$3"} > "$log" 2>&1
  echo "$1 $2: exit code $?: 0 good" >> "$log"
}
export -f one
export PYTHON
{
  for name in FAMILIES; do echo "measure_mutants packs/$name"; done
  for name in FAMILIES; do echo "measure_variants packs/$name 20"; done
  echo measure_checks checks/packs  # of mistral alone
} | xargs -P "${CPU_JOBS:-12}" -I{} bash -c 'one {}'
tail -n 20 work/measure_*.log | tee "$OUT/more.log"
""", "all.sh": """
# Both at once, on 16 cores.
[ -d newer ] && "$PYTHON" -c 'import compileall; compileall.compile_dir("newer", quiet=2, workers=16)'
bash cpu.sh &
bash run.sh
wait
"""}


def chosen_types(program, early):
    """Types in the order of the sweep, by the task that the generator picks for each."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "testgen", "--all", "--checks", "layers", "-o", folder, "--json"]
        rows = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["types"]
    by_kind, seconds = {}, {}
    for row in rows:
        by_kind.setdefault(row["task"], []).append(row["type"])
        seconds[row["type"]] = SECONDS.get(row["task"], 33)
    for kind in KINDS:  # from the well-known to the rest
        by_kind.setdefault(kind, []).sort(key=lambda name: (name not in FAULTS + COMPILE + TRUE, name))
    first = [*FAULTS, *COMPILE, *early]
    rounds = range(max(map(len, by_kind.values())))
    rest = [name for i in rounds for kind, n in KINDS.items() for name in by_kind[kind][i * n : (i + 1) * n]]
    known = set(rest)
    ordered = list(dict.fromkeys(name for name in [*first, *rest] if name in known))
    return [name for part in (ordered[:MIXED], ordered[MIXED:]) for name in sorted(part, key=seconds.get)]


def generate(program, types, folder, size):
    names = folder.parent / "types.txt"
    names.write_text("\n".join(types) + "\n")
    words = [program, "testgen", "--from", names, "-o", folder, "--lengths", LENGTHS, "--json"]
    words += ["--size", size] if size else []  # by default also heads of the real size, for a card
    made = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    names.unlink()
    return [row["type"] for row in made["types"]]


def copy(folder):
    for name in ("tests/testgen", "python/gabbro/testgen"):
        (folder / name).mkdir(parents=True)
    for name in ("sweep_cards", "sweep_report", "sweep_types", "measure_mutants", "measure_bisect", "measure_variants",
                 "measure_checks", "planted", "planted_faults", "false_alarms"):
        shutil.copy(ROOT / "tests" / "testgen" / f"{name}.py", folder / "tests" / "testgen")
    shutil.copytree(ROOT / "tests" / "testgen" / "faults", folder / "tests" / "testgen" / "faults",
                    ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("runner", "faults", "machine", "report"):
        shutil.copy(ROOT / "python" / "gabbro" / "testgen" / f"{name}.py", folder / "python" / "gabbro" / "testgen")
    for name, words in RUNS.items():
        (folder / name).write_text(HEAD + words.replace("FAMILIES", " ".join(FAULTS)))


def write_seeds(program, folder, count):
    """The packs of false_alarms.py and of planted_faults.py, which then run without Gabbro."""
    here, seeds = pathlib.Path(__file__).parent, ",".join(map(str, range(count)))
    words = [[here / "false_alarms.py", program, "--seeds", seeds, "--packs", folder / "seeds"],
             [here / "planted_faults.py", "--program", program, "--packs", folder / "planted"]]
    for line in words:
        subprocess.run([sys.executable, *line, "--write"], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("archive")
    parser.add_argument("--wheels")
    parser.add_argument("--newer")
    parser.add_argument("--first")
    parser.add_argument("--limit", type=int, default=420, help="types at most")
    parser.add_argument("--seeds", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "sweep")
        copy(folder)
        early = pathlib.Path(options.first).read_text().split() if options.first else []
        types = chosen_types(options.program, early)[: options.limit]
        types = generate(options.program, types, folder / "packs", "")
        generate(options.program, TRUE, folder / "true", "true")
        plan = {"types": types, "probe": types[:1], "faults": FAULTS, "true": TRUE, "compile": COMPILE, "quiet": QUIET,
                "searches": SEARCHES}
        (folder / "plan.json").write_text(json.dumps(plan, indent=1))
        rest = (("base", "base", []), ("causal-lm", "causal", []), ("causal-lm", "checks", ["mistral"]))
        for task, name, chosen in rest:
            without = "detect" if chosen else sweep_types.WITHOUT
            sweep_types.generate(options.program, task, chosen, folder / name, without)
            (folder / name / "types").unlink()
        if options.seeds:
            write_seeds(options.program, folder, options.seeds)
        for wheels, name in ((options.wheels, "pytest"), (options.newer, "newer")):
            for wheel in sorted(pathlib.Path(wheels).glob("*.whl")) if wheels else []:
                zipfile.ZipFile(wheel).extractall(folder / name)
        if not options.archive.endswith(".tar.xz"):
            shutil.copytree(folder, options.archive)
            print(f"{len(types)} types in {options.archive}")
            return 0
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
