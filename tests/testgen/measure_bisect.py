#!/usr/bin/env python3
"""Plants faults in single blocks of packs' models, and counts how often the search names the block and the operation.

    measure_bisect.py PACK... [--faults NAME,...] [--json FILE]

The CPU stands for a device: a fault replaces a function of torch, or a kernel below it, while the model under test
runs. It is planted in the last block where it changes a number; where no block has the operation, in the whole model.
Right is: the block, the operation, a reproducer of at most 40 lines that fails with the fault and passes without.
Faults that exceed no limit of the blocks and of the whole model are not counted. Exit code 1 below 95 %.
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import runpy
import sys
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "python" / "gabbro" / "testgen"
sys.path.insert(0, str(SOURCES))
import faults  # noqa: E402
import runner  # noqa: E402

CASES = [("function", name) for name in faults.FUNCTIONS] + [("kernel", name) for name in faults.KERNELS]
LONGEST = 40  # lines of a reproducer
SLOWEST = 60  # seconds of a search


def mode_of(kind, name):
    return faults.Faulty(faults.FUNCTIONS[name]) if kind == "function" else faults.FaultyKernel(faults.KERNELS[name])


class Plant:
    """Makes the fault act where the subject runs, in one block alone once it is chosen."""

    def __init__(self, locate, support):
        self.subjects, self.chosen, self.touched = [], None, []
        self.make, self.run_block, self.run = support.make_subject, support.run_block, support.run
        self.references, self.on_device, self.judge = locate.references, locate.on_device, locate.judge
        support.make_subject, support.run_block, support.run = self.subject, self.block, self.whole
        locate.references, locate.on_device, locate.judge = self.cpu, self.device, self.verdict
        self.modules = locate, support

    def restore(self):
        """Takes itself out of the modules, for the next fault in the same process."""
        locate, support = self.modules
        support.make_subject, support.run_block, support.run = self.make, self.run_block, self.run
        locate.references, locate.on_device, locate.judge = self.references, self.on_device, self.judge

    def subject(self, *args, **kwargs):
        self.subjects.append(self.make(*args, **kwargs))
        return self.subjects[-1]

    def block(self, model, call, *rest):
        acts = any(model is s for s in self.subjects) and self.chosen in (None, "", call.block)
        before = faults.Faulty.changed
        with acting(acts):
            result = self.run_block(model, call, *rest)
        if acts and faults.Faulty.changed > before:
            self.touched.append(call.block)
        return result

    def whole(self, model, *rest, **options):
        with acting(any(model is s for s in self.subjects) and self.chosen in (None, "")):
            return self.run(model, *rest, **options)

    def cpu(self, operation):
        with acting(False):
            return self.references(operation)

    def verdict(self, *args):
        with acting(False):
            return self.judge(*args)

    def device(self, *args):
        with acting(True):
            return self.on_device(*args)


@contextlib.contextmanager
def acting(value):
    before, faults.Faulty.active = faults.Faulty.active, value
    try:
        yield
    finally:
        faults.Faulty.active = before


def in_fork(work):
    """The JSON that work() returns, computed in a fork."""
    with tempfile.NamedTemporaryFile("r") as file:
        process = os.fork()
        if process == 0:
            try:
                pathlib.Path(file.name).write_text(json.dumps(work(), default=str))
            except BaseException as error:  # the parent reports it
                pathlib.Path(file.name).write_text(json.dumps({"failed": f"{type(error).__name__}: {error}"}))
            finally:
                os._exit(0)
        os.waitpid(process, 0)
        return json.load(file)


def exit_code(path, mode, device):
    """Of a program with the fault in all of torch, or without one."""
    with contextlib.redirect_stdout(io.StringIO()), mode or contextlib.nullcontext():
        faults.Faulty.active = mode is not None
        sys.argv = [path, device]
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as ending:
            return ending.code
    return 0


def has_operation(kind, name, document):
    if kind == "kernel":
        return any(kernel in document.get("kernels", []) for kernel in faults.KERNELS[name])
    from torch.overrides import resolve_name

    return document["operation"] in [resolve_name(function) for function in faults.FUNCTIONS[name]]


def search(kind, name, out, device):
    import locate
    import support
    import torch

    plant = Plant(locate, support)
    faults.Faulty.active = False
    name_of_test = f"test_layers[{device}-f32-tiny-lively]"
    test = locate.Test.parse(name_of_test)
    torch.backends.cudnn.allow_tf32 = False
    with mode_of(kind, name):
        list(locate.wrong_blocks(test, "lively"))  # to see which blocks the fault changes
        plant.chosen = plant.touched[-1] if plant.touched else ""
        before = faults.Faulty.changed
        started = time.monotonic()
        document = locate.locate(name_of_test, out, out / "trail")
    document["seconds"] = time.monotonic() - started
    document["chosen"] = plant.chosen
    document["changed"] = faults.Faulty.changed - before
    return document


def outcome(kind, name, out, device="cpu"):
    """ "nothing changed", "below the limits", or what is right of block, operation, reproducer, time."""
    import torch

    torch.set_num_threads(1)
    document = in_fork(lambda: search(kind, name, out, device))
    if "failed" in document or not document["changed"]:
        return document | {"outcome": document.get("failed", "nothing changed")}
    if document["block"] is None:
        return document | {"outcome": "below the limits"}
    right = {"block": document["block"] == (document["chosen"] or "the model")}
    right["operation"] = document["operation"] is not None and has_operation(kind, name, document)
    path = document.get("file")
    right["reproducer"] = False
    if path:
        short = len(pathlib.Path(path).read_text().splitlines()) <= LONGEST
        codes = [in_fork(lambda m=m: exit_code(path, m and mode_of(kind, name), device)) for m in (True, False)]
        right["reproducer"] = short and codes == [1, 0]
        document["codes"] = codes
    right["time"] = document["seconds"] <= SLOWEST
    return document | {"outcome": "right" if all(right.values()) else "wrong", **{"right": right}}


def of_pack(pack, names):
    runner.enter(pack)
    rows = []
    with tempfile.TemporaryDirectory() as out:
        for kind, name in CASES:
            if not names or name in names:
                rows.append({"pack": pack.name, "fault": name, **outcome(kind, name, pathlib.Path(out))})
                print(f"{pack.name} {name}: {rows[-1]['outcome']} {rows[-1].get('right', '')}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packs", nargs="+")
    parser.add_argument("--faults", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    packs = [pack.resolve() for pack in runner.find_packs(options.packs)]
    runner.warm_up()
    names = [name for name in options.faults.split(",") if name]
    rows = [row for pack in packs for row in in_fork(lambda pack=pack: of_pack(pack, names))]
    counted = [row for row in rows if row["outcome"] not in ("nothing changed", "below the limits")]
    right = {part: sum(bool(row.get("right", {}).get(part)) for row in counted)
             for part in ("block", "operation", "reproducer", "time")}
    whole = sum(row["outcome"] == "right" for row in counted)
    slowest = max((row.get("seconds", 0) for row in counted), default=0)
    print(f"{len(rows)} planted, {len(counted)} exceed a limit; right in all {whole}; {right}; slowest {slowest:.0f} s")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return int(not counted or min(right.values()) < 0.95 * len(counted))


if __name__ == "__main__":
    sys.exit(main())
