#!/usr/bin/env python3
"""Records the oracle's values and the errors of a correct implementation in src/testgen/data/recorded.json.

    record_values.py GABBRO [--out FILE] [--seeds N] [--seconds S] [--packs FOLDER] [--jobs N] [--fewer] [--equal] [TYPE...]

A row has three numbers of every block and output of the small model in f64, and an error of the CPU in f32, bf16 and
f16 in each block over N seeds of the weights: the largest, or the mean and SIGMAS standard deviations where that is
more. Without TYPE: all types that have no row yet; with --fewer those with a row of fewer seeds. Other rows stay. With
--equal rows whose values are still the same get the sums of their configuration and weights, and keep their errors. Run
it with the version of transformers that the rows shall name. --packs has packs that were made before. ceilings.json
next to FILE has the largest errors of all rows in blocks next to layers, such as norms and rotations, by data type, for
models without a row.
"""
import argparse
import functools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "gabbro" / "testgen"))
import runner  # noqa: E402

OUT = ROOT / "src" / "testgen" / "data" / "recorded.json"
LIMIT = 40  # seconds of one type, and
LIMIT_OF_SEED = 3  # seconds of each seed
MOST = 20 << 10  # bytes of a row
MOST_BLOCKS = 60
LARGEST = 0.25  # an error above it says nothing about a data type
SIGMAS = 6  # no seed of a correct implementation is beyond the mean and this number of standard deviations
ENOUGH = 8  # seeds that a standard deviation needs


def errors_of(support, make_inputs, seeds):
    """{block: {dtype: bound of the CPU's relative error}}, each block with the oracle's inputs."""
    seen, refused = {}, set()
    for seed in range(seeds):
        weights = support.set_weights(support.build_model(), seed=seed)
        for name, dtype in support.DTYPES.items():
            try:
                for block, e in errors_of_dtype(support, make_inputs, weights, seed, dtype, name in refused):
                    seen.setdefault(block, {}).setdefault(name, []).append(e)
            except (RuntimeError, NotImplementedError):
                refused.add(name)  # the CPU does not have this data type for the model
    bounds = {block: {name: bound_of(errors) for name, errors in row.items()} for block, row in seen.items()}
    rows = {block: {n: float(f"{e:.2g}") for n, e in row.items() if 0 < e < LARGEST} for block, row in bounds.items()}
    return {block: row for block, row in rows.items() if row}


def bound_of(errors):
    """The largest error, or the mean and SIGMAS deviations where that is more."""
    spread = statistics.pstdev(errors) if len(errors) >= ENOUGH else 0.0
    return max(*errors, statistics.fmean(errors) + SIGMAS * spread, 0.0)


def errors_of_dtype(support, make_inputs, weights, seed, dtype, is_refused):
    """(block and output, relative error) of one seed."""
    import forms
    import torch

    if is_refused:
        return
    attention = support.attention_of_oracle()
    reference = support.set_implementation(support.to_dtype(support.copy.deepcopy(weights), dtype), attention)
    oracle = support.set_implementation(support.copy.deepcopy(reference).double(), attention)
    make = functools.partial(make_inputs, seed=seed)
    calls = forms.calls_of(oracle, make) if seed == 0 else ((c.block, c) for c in support.record(oracle, make(oracle)))
    for title, call in calls:
        call = support.on_grid(call, dtype)
        exact = dict(support.run_block(oracle, call, "cpu", torch.float64))
        for part, value in support.run_block(reference, call, "cpu", dtype):
            yield f"{title}.{part}", support.distance(value, exact[part])[0]


def record(pack, seeds, before):
    """The row of a pack; `before` is one whose errors it keeps, if its values are equal."""
    runner.enter(pack)
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
    if before:
        pairs = [(values[regime].get(name), row) for regime in values for name, row in before["values"][regime].items()]
        if not all(found and recorded.difference(found, row) <= recorded.DIGITS for found, row in pairs):
            raise ValueError("other values than in the row")
        values = before["values"]
    errors = before["errors"] if before else errors_of(support, make_inputs, seeds)
    row = {"task": case.TASK, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
           "config": recorded.checksum(), "weights": recorded.weights(), "seeds": before["seeds"] if before else seeds,
           "values": values,
           "errors": dict(list(errors.items())[:MOST_BLOCKS])}
    if len(json.dumps(row)) > MOST:
        raise ValueError(f"the row has {len(json.dumps(row))} bytes")
    return row


def start(pack, seeds, out, before):
    """A fork that writes a row, or the reason why there is none, to the file; its exit code is 0 for a row."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(LIMIT + LIMIT_OF_SEED * seeds)
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            out.write_text("did not end in time")
            out.write_text(json.dumps(record(pack, seeds, before)))
            code = 0
        except BaseException as problem:
            out.write_text(f"{type(problem).__name__}: {problem}".splitlines()[0][:160])
        finally:
            os._exit(code)
    return process


def rows_of(packs, options, folder, before):
    """Yields (type, row, or the reason why there is none), up to --jobs at a time, and none that starts too late."""
    waiting, running, started = list(reversed(packs.items())), {}, time.monotonic()
    while waiting or running:
        while waiting and len(running) < options.jobs and time.monotonic() - started < options.seconds:
            kind, pack = waiting.pop()
            out = pathlib.Path(folder) / f"{kind}.json"
            running[start(pack, options.seeds, out, before.get(kind))] = (kind, out)
        if not running:
            return
        process, status = os.wait()
        kind, out = running.pop(process)
        yield kind, (json.loads(out.read_text()) if status == 0 else out.read_text())


def fewer(rows, seeds):
    """The types whose rows have fewer seeds."""
    return {kind for kind, row in rows.items() if row["seeds"] < seeds}


def write(path, rows):
    lines = [f"{json.dumps(kind)}:{json.dumps(row, separators=(',', ':'))}" for kind, row in sorted(rows.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_ceilings(path, rows):
    """{data type: largest error of blocks that are in no list of layers} of all rows."""
    largest = {}
    for row in rows.values():
        for block, of_block in row["errors"].items():
            if not any(part.isdigit() for part in block.split(".")):
                for name, error in of_block.items():
                    largest[name] = max(largest.get(name, 0.0), error)
    path.write_text(json.dumps(largest) + "\n")


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
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fewer", action="store_true", help="types whose row has fewer seeds")
    parser.add_argument("--equal", action="store_true", help="rows with equal values get their sums and keep their errors")
    options = parser.parse_intermixed_args()
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    runner.warm_up()
    rows = json.loads(options.out.read_text()) if options.out.exists() else {}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        packs = make_packs(options, folder)
        if not options.types:
            wanted = fewer(rows, options.seeds) if options.fewer else packs.keys() - rows.keys()
            wanted = {kind for kind, row in rows.items() if "weights" not in row} if options.equal else wanted
            packs = {kind: pack for kind, pack in packs.items() if kind in wanted}
        for kind, row in rows_of(packs, options, folder, rows if options.equal else {}):
            if isinstance(row, str):
                failed.append(f"{kind}: {row}")
                continue
            rows[kind] = row
            write(options.out, rows)
    write_ceilings(options.out.parent / "ceilings.json", rows)
    print("\n".join([*failed, f"{len(rows)} rows, {len(failed)} not recorded"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
