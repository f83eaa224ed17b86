"""Kernels with one fence or barrier removed, by an edit of a copy of their source. Each must be found: by a wrong
result or by a race that is reported.
"""
import concurrent.futures
import dataclasses
import re
import shutil
import time

import cases
import code_objects

HIP = "kernels/gpu/hip.h"
CDNA = ("gfx942", "gfx950")
ALL = ("gfx1100", "gfx1201", *CDNA)

_RELEASE = """  wait_for_stores();
  barrier();
  if (threadIdx.x < kWave) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
"""
# A barrier for LDS only. barrier() also waits for the stores of its wave on RDNA, so that with it the release stays.
_LDS_BARRIER = """  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
"""
_ACQUIRE = """acquire_for_block() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }"""
_SHARED_LOADS = re.compile(r"__hip_atomic_load\((.*), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT\)")


def _replaced(old, new):
    def edit(text):
        assert old in text, f"no {old!r} to replace"
        return text.replace(old, new)
    return edit


def _without_acquire(text):
    text = _replaced(_ACQUIRE, "acquire_for_block() {}")(text)
    return _SHARED_LOADS.sub(r"*(\1)", text)


# Name -> the edit of hip.h and the targets on which it matters.
FENCES = {
    "release": (_replaced(_RELEASE, _LDS_BARRIER), ALL),
    # Another wave's stores may be in flight when the first one counts the block. RDNA's barrier() waits for them.
    "wait for stores": (_replaced("  wait_for_stores();\n", ""), CDNA),
    # Only there a release of agent scope is more than the wait.
    "fence": (_replaced('  if (threadIdx.x < kWave) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");\n', ""), CDNA),
    "acquire": (_without_acquire, ALL),
    # Right, but slow: the L2 cache is written back by each wave.
    "choice of one wave": (_replaced("  if (threadIdx.x < kWave) __builtin", "  __builtin"), CDNA),
}
# Sources whose blocks add partial results of others, and a case that runs them.
SPLITS = {
    "matmul_vec": "matmul, splits",
    "linear_batch": "linear, batch in splits",
    "attention_decode": "attention, decode in splits",
    "attention_decode_matrix": "attention, matrix decode in splits",
    "attention_types": "attention, types in splits",
}
# Files with barriers -> the source to compile, and cases that run it.
EXCHANGES = {
    "kernels/rows/sort.cc": ("sort", "sort", "top-k"),
    "kernels/rows/scan.cc": ("scan", "scan"),
    "kernels/rows/reduce.cc": ("reduce", "sums"),
    "kernels/matmul/matmul.cc": ("matmul", "matmul"),
    "kernels/matmul/matmul_vec.cc": ("matmul_vec", "matmul, splits"),
    "kernels/conv/conv.cc": ("conv", "convolution"),
    "kernels/linear/rounded_row.h": ("linear_decode_q", "linear, decode"),
    "kernels/linear/linear_decode_plain.cc": ("linear_decode_plain", "linear, decode", "linear, fused"),
    "kernels/linear/linear_batch.cc": ("linear_batch", "linear, batch in splits"),
    "kernels/linear/batch_products.h": ("linear_batch", "linear, batch in splits", "linear, fused"),
    "kernels/linear/batch_activations.h": ("linear_batch", "linear, batch in splits", "linear, fused"),
    "kernels/linear/convert_f16.cc": ("convert_f16", "linear, prefill"),
    "kernels/attention/attention_decode.h": ("attention_decode", "attention, decode in splits"),
    "kernels/attention/decode_softmax.h": ("attention_decode", "attention, decode in splits"),
    "kernels/attention/attention_splits.h": ("attention_decode", "attention, decode in splits"),
    "kernels/attention/attention_decode_matrix.cc": ("attention_decode_matrix", "attention, matrix decode in splits"),
    "kernels/attention/attention_tiled.cc": ("attention_tiled", "attention, prefill"),
    "kernels/attention/attention_dense.cc": ("attention_dense", "attention, prefill"),
}
# Mutants are compiled without most of the kernels of sources that take minutes.
SHORTER = {
    "linear_batch": [(r"GABBRO_FOR_EACH_FORMAT\(GABBRO_FORMAT\)", "GABBRO_BLOCKS(q4_0, 16)"),
                     (r"GABBRO_OWN\(bf16, .*\n", ""), (r"GABBRO_PLAIN\(bf16, .*\n", ""),
                     (r"GABBRO_PLAIN\(f16, Half, 64\)\n", "")],
    "linear_decode_q": [(r"GABBRO_FOR_EACH_FORMAT\((GABBRO_QUANTIZED)\)", r"\1(q4_0) \1(q8_0)")],
    "reduce": [(r"GABBRO_REDUCTIONS\((bf16|i32|i64), .*\n", "")],
}
# Mutants that need not be found: name -> how the table shows them, and why.
KNOWN = {
    r"linear_batch: no wait for stores":
        ("equivalent", "a load after the stores is awaited by vmcnt(0), which waits for them too"),
    r"scan.cc:26:": ("unreached", "it matters for rows of more than half a million numbers, which take hours here"),
}
FEW_ROUNDS = 2  # that find nearly all
_BARRIER = re.compile(r"^(?!.*GPU_FUNCTION inline void barrier)(.*?)\bbarrier\(\);")


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    edit: object  # text -> text
    source: str
    cases: tuple
    targets: tuple


def _without_line(number):
    def edit(text):
        lines = text.split("\n")
        lines[number - 1] = lines[number - 1].replace("barrier();", ";", 1)
        return "\n".join(lines)
    return edit


def all_mutants():
    found = [Mutant(f"{source}: no {name}", HIP, edit, source, (case,), targets)
             for source, case in SPLITS.items() for name, (edit, targets) in FENCES.items()]
    found.append(Mutant("linear_batch: no relaxed poll", "kernels/linear/linear_batch.cc",
                        _replaced("load_shared_result(word)", "*const_cast<const volatile u32*>(word)"), "linear_batch",
                        ("linear, batch in splits",), ("gfx1201", *CDNA)))
    for file, (source, *names) in EXCHANGES.items():
        for number, line in enumerate((code_objects.ROOT / file).read_text().split("\n"), 1):
            if _BARRIER.match(line):
                name = f"{file.split('/')[-1]}:{number}: no barrier"
                found.append(Mutant(name, file, _without_line(number), source, tuple(names), ALL))
    return found


def _make_tree(folder, source, mutant=None):
    """A copy of the sources, with the edit of a mutant."""
    tree = folder / "source"
    if folder.exists():
        shutil.rmtree(folder)
    for part in ("kernels", "include"):
        shutil.copytree(code_objects.ROOT / part, tree / part)
    if mutant:  # first: it counts lines
        file = tree / mutant.file
        file.write_text(mutant.edit(file.read_text()))
    for pattern, text in SHORTER.get(source, ()):
        file = tree / code_objects.sources()[source]
        file.write_text(re.sub(pattern, text, file.read_text()))
    return tree


def _compile(mutant, target, folder, cache, objects):
    """The folder of code objects with the mutant's in it; None if its code is that of the source."""
    quiet = lambda text: None
    plain = _make_tree(folder / "plain", mutant.source)
    plain = code_objects.compile_sources([mutant.source], target, cache, plain, quiet)[mutant.source]
    made = _make_tree(folder / "mutant", mutant.source, mutant)
    made = code_objects.compile_sources([mutant.source], target, cache, made, quiet)[mutant.source]
    if code_objects.code_of(plain) == code_objects.code_of(made):
        return None
    own = folder / "code"
    if own.exists():
        shutil.rmtree(own)
    own.mkdir()
    for link in objects.iterdir():
        (own / link.name).symlink_to(link.resolve())
    link = own / f"{mutant.source}.{target}.hsaco"
    link.unlink()
    link.symlink_to(made)
    return own


def run(args, emulation, code_of, note, print_table, jobs):
    """Prints a row for each mutant: the round that found it on each target. Returns those that were not found."""
    chosen = [mutant for mutant in all_mutants() if args.only.search(mutant.name)]
    if not chosen:
        return []
    rows, failures, reasons = {mutant.name: {} for mutant in chosen}, [], {}
    folder = args.build / "instructions" / "mutants"

    def try_mutant(mutant, target, objects):
        begin = time.monotonic()
        own = folder / re.sub(r"\W+", "_", f"{mutant.name} {target}")
        code = _compile(mutant, target, own, args.build / "instructions" / "code", objects)
        if code is None:
            return mutant, target, None
        runs = [(case, rounds) for rounds in sorted({min(FEW_ROUNDS, args.seeds), args.seeds})
                for case in cases.CASES if case.name in mutant.cases]
        for case, rounds in runs:
            result = emulation.run_case(case, target, code, 1, rounds)
            if result.problem:
                break
        note(f"{mutant.name} on {target}: {f'round {result.round}, ' if result.problem else ''}"
             f"{result.problem or 'not found'} ({time.monotonic() - begin:.0f} s)")
        return mutant, target, result

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = []
        for target in args.targets:
            objects = code_of(args, target)
            waiting += [pool.submit(try_mutant, mutant, target, objects) for mutant in chosen if target in mutant.targets]
        for done in concurrent.futures.as_completed(waiting):
            mutant, target, result = done.result()
            known = next((name for name in KNOWN if re.search(name, mutant.name)), None)
            if result is None:
                cell = "same code"
            elif result.problem:
                cell = f"round {result.round}"
            elif known:
                cell = KNOWN[known][0]
                reasons[mutant.name] = KNOWN[known][1]
            else:
                cell = "not found"
                failures.append(f"{mutant.name} on {target}: not found in {args.seeds} rounds")
            rows[mutant.name][target] = cell
    print_table("mutant", args.targets, rows)
    for name, reason in reasons.items():
        print(f"{name}: {reason}")
    return failures
