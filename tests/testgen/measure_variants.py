#!/usr/bin/env python3
"""Runs legal variants of the same arithmetic through the comparisons of blocks and outputs: none may fail.

    measure_variants.py PACK... [--seeds 20]

Variants: sums in another order, the other attention, two threads, the batch in two parts, without oneDNN. Each seed
gives other weights and inputs, in both regimes, in f32. Exit code 1 where a variant exceeds a limit.
"""
import argparse
import contextlib
import functools
import os
import sys

import torch
from measure_bisect import in_fork, runner


def permuted():
    """Sums in an order that the comparisons do not take as a measure of the CPU's error: they would be equal."""
    import support

    return support.OtherOrder(support.ORDERS)


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


VARIANTS = {
    "plain": contextlib.nullcontext, "permuted sums": permuted, "two threads": lambda: threads(2),
    "without oneDNN": lambda: torch.backends.mkldnn.flags(enabled=False), "eager": contextlib.nullcontext,
    "batch in two": contextlib.nullcontext,
}


def in_two(outputs, inputs, helpers, support, model):
    """The outputs of a batch of two that runs as two batches of one."""
    parts = [support.outputs(model, helpers.row_of(inputs, row, 2)) for row in (0, 1)]
    return {name: torch.cat([part[name] for part in parts]) if value.dim() and value.shape[0] == 2 else value
            for name, value in outputs.items() if all(name in part for part in parts)}


def ratios(seed, regime):
    """(variant, ratio of the worst comparison) for one seed."""
    import helpers
    import support
    from choices import Again
    from inputs import make_inputs

    f32 = torch.float32

    def made(dtype, attention):
        model = support.set_weights(support.build_model(), regime, seed)
        return support.set_implementation(support.to_dtype(model, dtype), attention)

    oracle, reference = made(f32, "eager").double(), made(f32, "eager")
    subject = made(f32, None)
    depth = support.depth_of(oracle)
    inputs = support.on_grid(make_inputs(oracle, seed=seed), f32)
    calls = [support.on_grid(call, f32) for call in support.record(oracle, inputs)]
    exact = [dict(support.run_block(oracle, call, "cpu", torch.float64)) for call in calls]
    close = [dict(support.run_block(reference, call, "cpu", f32)) for call in calls]
    whole, near = support.outputs(oracle, inputs), support.outputs(reference, inputs)
    for title, context in VARIANTS.items():
        model = reference if title == "eager" else subject
        worst, count = 0.0, 0
        with context():
            got = [dict(support.run_block(model, call, "cpu", f32)) for call in calls]
            end = support.outputs(model, inputs)
            if title == "batch in two":
                end = in_two(end, inputs, helpers, support, model)
        pairs = [(g[n], c[n], e[n], Again(functools.partial(support.block_output, call, n), reference))
                 for call, g, c, e in zip(calls, got, close, exact, strict=True) for n in g if n in e]
        pairs += [(value, near[name], whole[name], Again(functools.partial(support.output, inputs, name), reference))
                  for name, value in end.items()]
        for value, by_cpu, oracles, again in pairs:
            with contextlib.suppress(AssertionError):
                support.compare("", value, by_cpu, oracles, f32, depth, again)
            worst = max(worst, support.MEASURED[-1]["ratio"])
            count += 1
        yield title, worst, count


def of_pack(pack, seeds):
    runner.enter(pack)
    torch.set_num_threads(1)
    table = {}
    for seed in range(seeds):
        for regime in ("lively", "faint"):
            for title, worst, count in ratios(seed, regime):
                row = table.setdefault(title, {"runs": 0, "comparisons": 0, "alarms": 0, "largest": 0.0})
                row["runs"] += 1
                row["comparisons"] += count
                row["alarms"] += worst > 1
                row["largest"] = max(row["largest"], worst)
    return table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packs", nargs="+")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    packs = [pack.resolve() for pack in runner.find_packs(options.packs)]
    runner.warm_up()
    alarms = runs = comparisons = 0
    for pack in packs:
        table = in_fork(lambda pack=pack: of_pack(pack, options.seeds))
        if "failed" in table:
            print(f"{pack.name}: {table['failed'][:200]}")
            alarms += 1
            continue
        largest = max(table, key=lambda title: table[title]["largest"])
        found = sum(row["alarms"] for row in table.values())
        runs += sum(row["runs"] for row in table.values())
        comparisons += sum(row["comparisons"] for row in table.values())
        alarms += found
        worst = f"largest {table[largest]['largest']:.3g} of the limit ({largest})"
        print(f"{pack.name}: {found} alarms, {worst}", flush=True)
    print(f"{alarms} alarms in {runs} runs, {comparisons} comparisons")
    return int(alarms > 0 or not runs)


if __name__ == "__main__":
    sys.exit(main())
