#!/usr/bin/env python3
"""Checks the rules of the house that a compiler does not: who may include whom, and how files are kept.

    lint_layers.py [ROOT]

Prints one line per finding, `file:line: what`, and exits 1 when there is one. Reads text only; needs no build.
Pages of documentation have further rules (tools/lint_docs.py).
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree_files import tree_files  # noqa: E402

# A module of src/ and what it may include besides itself: the ladder of docs/architecture.md, bottom first.
LADDER = ["base", "tensor", "backend", "graph", "ops", "plan", "nn", "train", "models", "convert", "engine"]
ALLOWED = {module: set(LADDER[:i]) for i, module in enumerate(LADDER)}
ALLOWED["jinja"] = {"base"}
ALLOWED["formats"] = {"base", "tensor"}
ALLOWED["hub"] = {"base", "formats"}
ALLOWED["text"] = {"base", "tensor", "jinja"}
ALLOWED["nn"] |= {"formats"}
ALLOWED["train"] |= {"formats"}
ALLOWED["models"] |= {"formats"}
ALLOWED["models"] -= {"train"}
ALLOWED["convert"] |= {"formats"}
ALLOWED["convert"] -= {"train"}
ALLOWED["engine"] |= {"formats", "jinja", "text"}
ALLOWED["testgen"] = set(ALLOWED) | {"engine"}
ALLOWED["report"] = {"base", "tensor", "backend", "formats", "models", "engine"}
ALLOWED["images"] = {"base"}
ALLOWED["pictures"] = set(LADDER[:LADDER.index("models") + 1]) - {"train"} | {"formats", "text", "images"}
ALLOWED["server"] = {"base", "formats", "hub", "jinja", "text", "models", "convert", "engine"}
ALLOWED["apps"] = set(ALLOWED)

# Folders inside of a module that stand above others, which may not include them.
ABOVE = {"src/models/config/": ("src/models/weights/", "src/models/llm/", "src/models/encoder/", "src/models/diffusion/"),
         "src/models/weights/": ("src/models/llm/", "src/models/encoder/", "src/models/diffusion/"),
         "src/models/llm/": ("src/models/encoder/", "src/models/diffusion/"),
         "src/models/encoder/": ("src/models/diffusion/",)}

# The module that each public header belongs to: include/gabbro/ops/reduce.h to ops, and the headers that users name first
# to the highest module that they include. Without a name: the top of the ladder.
PUBLIC_HEADERS = {"dtype.h": "base", "quant_traits.h": "base", "backend_abi.h": "base", "error.h": "base", "sampling_options.h": "base",
                  "output_format.h": "base",
                  "file_faults.h": "base", "device.h": "backend", "tensor.h": "plan", "ops.h": "ops", "nn.h": "nn", "optim.h": "train",
                  "llm.h": "engine", "image.h": "pictures", "gabbro.h": "apps"}

# Headers that a backend may include.
BACKEND_MAY_INCLUDE = ("include/gabbro/backend_abi.h", "include/gabbro/dtype.h", "include/gabbro/error.h", "src/base/", "src/formats/quant/",
                       "backends/common/")
# The table of block formats, which includes nothing: dtypes, kernels and the host are made from it.
TABLE_OF_FORMATS = "include/gabbro/quant_traits.h"

VENDOR_HEADER = re.compile(
    r"^(hip|hiprtc|hipblas\w*|rocblas|rocwmma|miopen|rccl|cuda\w*|cublas\w*|cudnn\w*|nccl|nvrtc|mma)\b")
VENDOR_FILES = re.compile(r"^(backends/gpu/|tests/emulated_hip/|kernels/gpu/(hip|cuda)\.h$)")

CODE = {".h", ".cc", ".hip", ".cu"}
TEXT = CODE | {".py", ".sh", ".md", ".cmake", ".txt", ".json", ".yml", ""}
# Fixtures and models hold what other programs wrote.
FIXTURES = re.compile(r"^models/[^/]+/[^/]+/|^tests/(data/|fuzz/corpus/|.*/fixtures/)|^LICENSE$")
MAX_LINES = 800
JOURNAL = re.compile(r"^docs/journal/")  # a page is as long as its month
MAX_MACROS = 9  # outside of kernels/, whose instances need a name each
PREFIXES = ("GABBRO_", "GPU_")  # GPU_: the vocabulary of kernels
FOREIGN_MACROS = {"_GNU_SOURCE", "PCRE2_CODE_UNIT_WIDTH"}  # what the header of a library asks for

# Names of CPython's headers outside its stable ABI, which the package of 3.12 and later is built for; nanobind has
# NB_TUPLE_GET_SIZE and the like.
UNSTABLE_PYTHON = re.compile(r"\b(Py(Tuple|List|Bytes|ByteArray|Float|Unicode|Sequence_Fast)_(GET|SET|AS)_[A-Z]+|PyGILState_Check|_Py\w+)\b"
                             r"|->(tp|nb|sq|mp|ob)_\w+")

# Split, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
HOSTS = re.compile(r"\b(" + "|".join([r"py" + r"pi\.org", r"python" + r"hosted\.org", r"deb\." + r"debian\.org",
                                      r"archive\." + r"ubuntu\.com", r"snapshot\." + r"debian\.org"]) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + r"me/\w+"]) + r")/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")


def module_of(path):
    """The layer that a file belongs to, or None where no layer rule applies (tests, bench, tools)."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["include", "gabbro"]:
        return parts[2] if len(parts) > 3 else PUBLIC_HEADERS.get(parts[2], LADDER[-1])
    if parts[0] in ("apps", "backends", "kernels"):
        return parts[0]
    return None


def resolve(root, name):
    """The path from the root of an included file of ours, or None."""
    for candidate in (name, f"include/{name}"):
        if (root / candidate).is_file():
            return candidate
    return None


def is_test(path):
    return path.endswith("_test.cc") or path.startswith(("tests/", "bench/"))


def check_layer(path, target):
    """Why `path` may not include `target`, or None."""
    if target == TABLE_OF_FORMATS:
        return None
    source, included = module_of(path), module_of(target)
    if source is None or included is None:
        if source is not None and target.startswith(("tests/", "bench/")) and not is_test(path):
            return f"{path.split('/')[0]} may not include {target}"
        return None
    if source == "backends":
        own = "/".join(path.split("/")[:2]) + "/"
        if target.startswith((own, "kernels/") + BACKEND_MAY_INCLUDE) or is_test(path):
            return None
        return f"a backend may not include {target}: it sees backend_abi.h, src/base and src/formats/quant alone"
    if source == "kernels":
        return None if included == "kernels" else f"kernels may not include {target}"
    if included in ("backends", "kernels"):
        return f"{source} may not include {target}: backends are plugins"
    if source not in ALLOWED:
        return f"unknown module src/{source}: give it a place in tools/lint_layers.py"
    if included != source and included not in ALLOWED[source]:
        return f"{source} may not include {target}: {included} is not below it"
    for folder, above in ABOVE.items():
        if path.startswith(folder) and target.startswith(above) and not is_test(path):
            return f"{folder[:-1]} may not include {target}, which stands above it"
    return None


def lint_code(root, path, lines, report, macros):
    if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines):
        report(path, 1, "no #pragma once")
    # fmt 11 and later do not have it in <fmt/format.h>, as fmt 9 does.
    joins = next((number for number, line in enumerate(lines, 1) if "fmt::join(" in line), None)
    if joins and not any(line.startswith("#include <fmt/ranges.h>") for line in lines):
        report(path, joins, "fmt::join needs <fmt/ranges.h>")
    public = path.startswith("include/")
    for number, line in enumerate(lines, 1):
        unstable = UNSTABLE_PYTHON.search(line) if path.startswith("python/src/") else None
        if unstable:
            report(path, number, f"{unstable[0]} is not in Python's stable ABI")
        define = DEFINE.match(line)
        if define:
            if define[1] not in macros or path.startswith("kernels/"):  # one that kernels use is theirs
                macros[define[1]] = (path, number)
        if public and re.match(r"\s*#\s*if(n?def)?\b", line):
            report(path, number, "a public header has no conditional compilation")
        include = INCLUDE.match(line)
        if not include:
            continue
        quoted, angled = include[1], include[2]
        if VENDOR_HEADER.match(quoted or angled) and not VENDOR_FILES.match(path):
            report(path, number,
                   f"{quoted or angled}: only backends/gpu, tests/emulated_hip and kernels/gpu/{{hip,cuda}}.h name HIP or CUDA")
            continue
        target = resolve(root, quoted or angled)
        if public and (target or quoted) and not (quoted or angled).startswith("gabbro/"):
            report(path, number, f"a public header may not include {quoted or angled}: it is installed without src/")
            continue
        if quoted and target is None:
            report(path, number, f'"{quoted}" is not a path from the root of the repository')
        if target:
            reason = check_layer(path, target)
            if reason:
                report(path, number, reason)


def lint_text(path, lines, report):
    free = any("Generated by" in line for line in lines[:5]) or JOURNAL.match(path)
    if len(lines) > MAX_LINES and not free:
        report(path, MAX_LINES, f"{len(lines)} lines are more than {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            report(path, number, "a tab")
        if line != line.rstrip():
            report(path, number, "white space at the end of the line")
        for pattern, what in ((UNFINISHED, "unfinished work"), (HOSTS, "a registry's host name"),
                              (MACHINE_PATHS, "a path of one machine")):
            match = pattern.search(line)
            if match:
                report(path, number, f"{what}: {match[0]}")


def lint(root):
    """All findings as (file, line, what)."""
    findings, macros = [], {}
    report = lambda path, number, what: findings.append((path, number, what))
    for file, path in tree_files(root):
        if file.suffix not in TEXT or FIXTURES.search(path):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            report(path, 1, "is not UTF-8")
            continue
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        elif text:
            report(path, len(lines), "no line end at the end of the file")
        lint_text(path, lines, report)
        if file.suffix in CODE:
            lint_code(root, path, lines, report, macros)
    for name, (path, number) in macros.items():
        if not name.startswith(PREFIXES) and name not in FOREIGN_MACROS:
            report(path, number, f"macro {name} does not begin with GABBRO_")
    ours = sorted(name for name, (path, _) in macros.items()
                  if name.startswith("GABBRO_") and not path.startswith("kernels/"))
    if len(ours) > MAX_MACROS:
        path, number = macros[ours[-1]]
        report(path, number, f"{len(ours)} macros are more than {MAX_MACROS}: {', '.join(ours)}")
    return findings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    if not root.is_dir():
        sys.exit(f"lint_layers: error: {root} is not a folder")
    findings = lint(root)
    for path, number, what in findings:
        print(f"{path}:{number}: {what}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
