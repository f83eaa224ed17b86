#!/usr/bin/env python3
"""Plants every fault in the models of packs, and counts how many the comparisons of blocks and of the model find.

    measure_mutants.py PACK... [--dtypes f32,bf16,f16]

Goal: 98 % in f32, and in f16 and bf16 all gross ones, whose names are below. A fault that changes no number of a model
is not counted. Exit code 1 below the goal.
"""
import argparse
import contextlib
import os
import pathlib
import sys
import tempfile

from measure_bisect import CASES, Plant, acting, faults, in_fork, mode_of, runner

GROSS = ("attention_no_mask", "attention_mask_off_by_one", "attention_last_key", "gemm_k_tail", "bias_dropped",
         "rope_sign", "rows_swapped", "mm_k_tail", "bmm_k_tail", "mean_lane", "embedding_row", "cat_stale")

# Not counted: (pack, fault) that cannot be seen in f32, with the reason.
TINY = "an epsilon of 1e-12, or ten times that, is below f32's rounding of the variance"
EQUIVALENT = {("bert", "epsilon"): TINY, ("vit", "epsilon"): TINY}


def cases():
    """(kind, name) of every fault."""
    return [*CASES, *(("model", name) for name in faults.MODELS)]


def find(kind, name, dtype, device="cpu"):
    """Which comparisons find the fault: {"layers", "end_to_end", "changed"}."""
    import locate
    import support

    plant = Plant(locate, support)
    faults.Faulty.active, faults.Faulty.changed = False, 0
    if kind == "model":
        made = support.make_subject

        def broken(*args, **kwargs):
            model = made(*args, **kwargs)
            faults.MODELS[name](model)
            return model

        support.make_subject = broken
    test = locate.Test.parse(f"test_layers[{device}-{dtype}-tiny]")
    found = {"layers": False, "end_to_end": False}
    try:
        with mode_of(kind, name) if kind != "model" else contextlib.nullcontext():
            for regime in test.regimes:
                with acting(False):
                    found["layers"] = found["layers"] or next(locate.wrong_blocks(test, regime), None) is not None
                    found["end_to_end"] = found["end_to_end"] or locate.wrong_whole(test, regime) is not None
    finally:
        plant.restore()
    return {**found, "changed": faults.Faulty.changed, "blocks": len(plant.touched)}


def of_pack(pack, dtypes):
    import torch

    runner.enter(pack)
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory():
        for dtype in dtypes:
            for kind, name in cases():
                if dtype == "f32" or name in GROSS:
                    row = in_fork(lambda kind=kind, name=name, dtype=dtype: find(kind, name, dtype))
                    rows.append({"pack": pack.name, "dtype": dtype, "fault": name, **row})
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packs", nargs="+")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    packs = [pathlib.Path(pack).resolve() for pack in runner.find_packs(options.packs)]
    runner.warm_up()
    dtypes, low = options.dtypes.split(","), False
    rows = []
    for pack in packs:
        rows += in_fork(lambda pack=pack: of_pack(pack, dtypes))
        mine = [row for row in rows if row["pack"] == pack.name]
        missed = [f"{row['fault']} {row['dtype']}" for row in mine
                  if row.get("changed") and not row["layers"] and not row["end_to_end"]]
        failed = [f"{row['fault']}: {row['failed'][:120]}" for row in mine if "failed" in row]
        planted = sum(bool(row.get("changed")) for row in mine)
        print(f"{pack.name}: {planted} faults, missed {missed} {failed}", flush=True)
    for dtype in dtypes:
        counted = [row for row in rows if row["dtype"] == dtype and row.get("changed")
                   and (row["pack"], row["fault"]) not in EQUIVALENT]
        found = [row for row in counted if row["layers"] or row["end_to_end"]]
        alone = {part: sum(row[part] and not row[other] for row in counted)
                 for part, other in (("layers", "end_to_end"), ("end_to_end", "layers"))}
        goal = 0.98 if dtype == "f32" else 1.0
        low = low or len(found) < goal * len(counted) or not counted
        print(f"{dtype}: {len(found)} of {len(counted)} found; found by one check alone: {alone}")
    return int(low or any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
