#!/usr/bin/env python3
"""Kernels as AMD machine code on the emulated runtime, in many orders of their blocks and waves.

    check.py --build FOLDER [--emulator FOLDER] [--tinygrad FOLDER] [--targets gfx1100,...] [--seeds 20] [--only REGEX]
             [--mutants]

Prints a table of the cases (cases.py), or of the mutants (mutants.py): kernels with a fence or a barrier removed, which
must be found. Exits 1 if a case fails or a mutant is not found, 2 if something is missing, 77 if the emulator is not
there. FOLDER of the emulator (or AMD_EMULATOR) has amd_emulator/; that of tinygrad (or TINYGRAD_DIR) is the checkout
that it needs. Also needs numpy, clang 16 or newer and hipcc, which tools/rocm_root has.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import time

sys.dont_write_bytecode = True
import cases
import code_objects
import mutants
import plugin_mutants
import runner

TARGETS = ["gfx1100", "gfx1201", "gfx942", "gfx950"]
JOBS = 2


def find_clang():
    names = [os.environ.get("CC", ""), *(f"clang-{version}" for version in range(30, 15, -1))]
    return next((name for name in names if "clang" in name and shutil.which(name)), None)


def cannot(reason):
    print(reason)
    sys.exit(77)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    default = code_objects.ROOT.parent / "shared" / "amd-emulator"
    parser.add_argument("--emulator", type=pathlib.Path, default=os.environ.get("AMD_EMULATOR") or default)
    parser.add_argument("--tinygrad", type=pathlib.Path, default=os.environ.get("TINYGRAD_DIR"))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=TARGETS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="cases or mutants")
    parser.add_argument("--mutants", action="store_true")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if not (args.emulator / "amd_emulator").is_dir():
        cannot(f"there is no instruction emulator in {args.emulator}; AMD_EMULATOR names its folder")
    if args.tinygrad is None or not (args.tinygrad / "test" / "mockgpu" / "amd").is_dir():
        cannot("there is no checkout of tinygrad; TINYGRAD_DIR names its folder")
    if find_clang() is None:
        cannot("there is no clang 16 or newer")
    if runner.find_python() is None:
        cannot("there is no Python with numpy and a shared library")
    for target in args.targets:
        if target not in TARGETS:
            print(f"check.py: error: --targets {target}: expected some of {', '.join(TARGETS)}", file=sys.stderr)
            sys.exit(2)
    return args


def note(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def code_of(args, target):
    """The folder of the code objects that the cases need."""
    chosen = [case for case in cases.CASES if args.mutants or args.only.search(case.name)]
    names = {*cases.COMMON, *(name for case in chosen for name in case.sources)}
    if args.only.search("model") and not args.mutants:
        names |= set(cases.MODEL_SOURCES)
    files = code_objects.compile_sources(sorted(names), target, args.build / "instructions" / "code", log=note)
    folder = args.build / "instructions" / "objects"
    code_objects.link_folder(folder, files, target)
    return folder


def run_cases(args, emulation):
    """Prints a row for each case: its result on each target."""
    chosen = [case for case in cases.CASES if args.only.search(case.name)]
    rows = {case.name: {} for case in chosen}
    if args.only.search("model"):
        rows["model"] = {}
    failures = []

    def run(name, target, code):
        begin = time.monotonic()
        case = next((case for case in chosen if case.name == name), None)
        if case:
            result = emulation.run_case(case, target, code, 1, args.seeds)
            if not result.problem and not any(re.search(case.kernels, kernel) for kernel in result.launches):
                result.problem = f"no kernel {case.kernels}: {', '.join(sorted(result.launches))[-200:]}"
        else:
            result = next((one for seed in range(1, args.seeds + 1)
                           if (one := emulation.run_model(target, code, seed)).problem), runner.Result())
        note(f"{name} on {target}: {result.problem or 'passed'} ({time.monotonic() - begin:.0f} s)")
        return name, target, result

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        waiting = []
        for target in args.targets:
            code = code_of(args, target)
            waiting += [pool.submit(run, name, target, code) for name in rows]
        for done in concurrent.futures.as_completed(waiting):
            name, target, result = done.result()
            rows[name][target] = f"round {result.round}" if result.problem else "passed"
            if result.problem:
                failures.append(f"{name} on {target}, round {result.round}: {result.problem}")
    print_table("case", args.targets, rows)
    return failures


def print_table(kind, columns, rows):
    if not rows:
        return
    width = max(len(name) for name in [kind, *rows])
    print(f"{kind:{width}}  " + "  ".join(f"{column:10}" for column in columns))
    for name, cells in rows.items():
        print(f"{name:{width}}  " + "  ".join(f"{cells.get(column, '-'):10}" for column in columns))


def main():
    args = parse()
    try:
        emulation = runner.Emulation(args.build, args.emulator, args.tinygrad, find_clang(),
                                     runner.find_python())
        if args.mutants:
            failures = plugin_mutants.run(args, emulation.host_environment("gfx1201"), note)
            failures += mutants.run(args, emulation, code_of, note, print_table, JOBS)
        else:
            failures = run_cases(args, emulation)
    except (code_objects.CompileError, runner.emulator_corrections.OtherCheckout) as problem:
        print(f"check.py: error: {problem}", file=sys.stderr)
        sys.exit(2)
    for failure in failures:
        print(f"failed: {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
