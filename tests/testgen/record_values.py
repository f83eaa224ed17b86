#!/usr/bin/env python3
"""Records the oracle's values and the errors of a correct implementation in src/testgen/data/recorded.json.

    record_values.py GABBRO [--out FILE] [--seeds N] [--seconds S] [--packs FOLDER] [TYPE...]

A row has three numbers of every block and output of the small model in f64, and the largest error of the CPU in f32,
bf16 and f16 in each block over N seeds of the weights. Without TYPE: all types that have no row yet. Other rows stay.
Run it with the version of transformers that the rows shall name. --packs has packs that were made before.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "gabbro" / "testgen"))
import runner  # noqa: E402

OUT = ROOT / "src" / "testgen" / "data" / "recorded.json"
LIMIT = 40  # seconds of one type, and
LIMIT_OF_SEED = 2  # seconds of each seed
MOST = 20 << 10  # bytes of a row
MOST_BLOCKS = 60
LARGEST = 0.25  # an error above it says nothing about a data type


def errors_of(support, make_inputs, seeds):
    """{block: {dtype: largest relative error of the CPU}}, each block with the oracle's inputs."""
    largest = {}
    for seed in range(seeds):
        weights = support.set_weights(support.build_model(), seed=seed)
        for name, dtype in support.DTYPES.items():
            try:
                for block, e in errors_of_dtype(support, make_inputs, weights, seed, dtype):
                    of_block = largest.setdefault(block, {})
                    of_block[name] = max(of_block.get(name, 0.0), e)
            except (RuntimeError, NotImplementedError):
                continue  # the CPU does not have this data type for the model
    rows = {block: {n: float(f"{e:.2g}") for n, e in row.items() if 0 < e < LARGEST} for block, row in largest.items()}
    return {block: row for block, row in rows.items() if row}


def errors_of_dtype(support, make_inputs, weights, seed, dtype):
    import torch

    attention = support.attention_of_oracle()
    reference = support.set_implementation(support.to_dtype(support.copy.deepcopy(weights), dtype), attention)
    oracle = support.set_implementation(support.copy.deepcopy(reference).double(), attention)
    for call in support.record(oracle, make_inputs(oracle, seed=seed)):
        call = support.on_grid(call, dtype)
        exact = dict(support.run_block(oracle, call, "cpu", torch.float64))
        for part, value in support.run_block(reference, call, "cpu", dtype):
            yield f"{call.block}.{part}", support.distance(value, exact[part])[0]


def record(pack, seeds):
    os.chdir(pack)
    sys.path.insert(0, str(pack))
    import torch
    import transformers

    torch.set_num_threads(1)
    import case
    import recorded
    import support
    from inputs import make_inputs

    values = {}
    for regime in recorded.REGIMES:
        oracle = support.make_oracle(regime=regime)
        inputs = make_inputs(oracle)
        found = list(recorded.values_of(oracle, inputs).items())
        if found != list(recorded.values_of(oracle, inputs).items()):
            raise ValueError("a second run gives other values")
        outputs = [row for row in found[MOST_BLOCKS:] if row[0].startswith("output ")]
        values[regime] = dict(found[:MOST_BLOCKS] + outputs)
    errors = errors_of(support, make_inputs, seeds)
    row = {"task": case.TASK, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
           "config": recorded.checksum(), "constants": recorded.constants(), "seeds": seeds, "values": values,
           "errors": dict(list(errors.items())[:MOST_BLOCKS])}
    if len(json.dumps(row)) > MOST:
        raise ValueError(f"the row has {len(json.dumps(row))} bytes")
    return row


def in_child(pack, seeds, out):
    """Writes a row, or the reason why there is none, to the file; returns whether it is a row."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(LIMIT + LIMIT_OF_SEED * seeds)
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            out.write_text("did not end in time")
            out.write_text(json.dumps(record(pack, seeds)))
            code = 0
        except BaseException as problem:
            out.write_text(f"{type(problem).__name__}: {problem}".splitlines()[0][:160])
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


def write(path, rows):
    lines = [f"{json.dumps(kind)}:{json.dumps(row, separators=(',', ':'))}" for kind, row in sorted(rows.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_packs(options, folder):
    """The folders of the packs, by type."""
    if options.packs:
        found = {path.parent.name: path.parent.resolve() for path in sorted(options.packs.glob("*/case.py"))}
        return {kind: found[kind] for kind in options.types or found if kind in found}
    which = options.types or ["--all"]
    words = [options.program, "testgen", *which, "-o", f"{folder}/packs", "--checks", "recorded", "--json"]
    made = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return {row["type"]: pathlib.Path(row["folder"]) for row in made["types"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("types", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--packs", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    runner.warm_up()
    rows = json.loads(options.out.read_text()) if options.out.exists() else {}
    started, failed = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "row"
        for kind, pack in make_packs(options, folder).items():
            if time.monotonic() - started > options.seconds:
                break
            if not options.types and kind in rows:
                continue
            if in_child(pack, options.seeds, out):
                rows[kind] = json.loads(out.read_text())
                write(options.out, rows)
            else:
                failed.append(f"{kind}: {out.read_text()}")
    print("\n".join([*failed, f"{len(rows)} rows, {len(failed)} not recorded"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
