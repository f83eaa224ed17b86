"""Oracle values in a file: transformers' blocks in f64, to compare Gabbro with on machines without torch.

    golden.py MODEL_FOLDER FILE [--program GABBRO] [--force] [--json]

Where FILE is missing (or with --force) it is written: for seeded ids the output of the embeddings, of every layer and
of the model, in f64 with the weights of the folder, and the limit of each. Else `gabbro logits --trace` of the folder
is compared with it, which needs Python alone. Exit codes: 0 written, or all within the limits; 1 a block exceeds its
limit; 2 a folder or a file of another kind; 3 torch is missing for writing.
"""

from __future__ import annotations

import argparse
import array
import ast
import importlib.util
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
from typing import Any

FORMAT = "gabbro golden 1"
TOKENS = 12
FACTOR = 3.0
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
LARGEST_ARRAY = 1 << 31  # bytes of a traced output


class Bad(Exception):
    """Invalid input: exit code 2."""


def read_npy(path: pathlib.Path) -> tuple[tuple[int, ...], array.array[float]]:
    """Shape and values of an array of float32 as `gabbro logits` writes it."""
    data = path.read_bytes()
    if data[:6] != b"\x93NUMPY" or len(data) < 10 or len(data) > LARGEST_ARRAY:
        raise Bad(f"{path.name}: not an .npy file")
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode("latin1"))
    values = array.array("f", data[10 + length :])
    shape = tuple(int(n) for n in header["shape"])
    if header["descr"] != "<f4" or header["fortran_order"] or math.prod(shape) != len(values):
        raise Bad(f"{path.name}: not an array of float32 in C order")
    return shape, values


def errors_of(got: Any, exact: list[float]) -> tuple[float, float]:
    """Relative errors in the Euclidean and in the maximum norm; infinite where an element is not finite."""
    if len(got) != len(exact) or not all(map(math.isfinite, got)):
        return math.inf, math.inf
    differences = [abs(a - b) for a, b in zip(got, exact, strict=True)]
    size, largest = math.hypot(*exact) or 1e-30, max(map(abs, exact), default=0.0) or 1e-30
    return math.hypot(*differences) / size, max(differences, default=0.0) / largest


def load(path: pathlib.Path) -> dict[str, Any]:
    """The document of a golden file, checked."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Bad(f"{path}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Bad(f"{path}: was not written by --golden")
    tokens, blocks = document.get("tokens"), document.get("blocks")
    fine = isinstance(tokens, list) and tokens and all(type(t) is int and 0 <= t < 2**31 for t in tokens)
    if not fine or not isinstance(blocks, dict) or not blocks:
        raise Bad(f"{path}: field tokens or blocks: a list of ids and a table of blocks are needed")
    for name, block in blocks.items():
        values = block.get("values") if isinstance(block, dict) else None
        limits = block.get("limits") if isinstance(block, dict) else None
        pairs = [limits.get(dtype) for dtype in DTYPES] if isinstance(limits, dict) else [None]
        lists = [values, *pairs]
        numbers = [v for one in lists for v in (one if isinstance(one, list) else [None])]
        fine = all(len(pair) == 2 for pair in pairs if isinstance(pair, list))
        if not fine or not all(type(v) in (int, float) and math.isfinite(v) for v in numbers):
            raise Bad(f"{path}: field blocks.{name}: finite values, and two limits for each data type, are needed")
    return document


def ask(words: list[str]) -> str:
    """The output of the program; its error is one line of ours."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Bad(done.stderr.strip().removeprefix("gabbro: error: ") or f"{words[0]} ended with {done.returncode}")
    return done.stdout


def weights_of(model: pathlib.Path, program: str) -> str:
    """The coarsest data type of the model's weights, in which Gabbro computes with them."""
    formats = list(json.loads(ask([program, "inspect", str(model), "--json"]))["formats"])
    names = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
    other = [name for name in formats if name not in names]
    if other:
        raise Bad(f"{model}: has weights in {other[0]}: golden values are for f32, f16 and bf16")
    return next(names[name] for name in ("BF16", "F16", "F32") if name in formats)


def compare(model: pathlib.Path, document: dict[str, Any], program: str) -> list[dict[str, Any]]:
    """A row for each block: errors of Gabbro, limits, ratio."""
    dtype = weights_of(model, program)
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "logits", str(model), "--kv-type", "f16", "--trace", folder]  # as HalfCache
        words += ["--tokens", ",".join(map(str, document["tokens"]))]
        ask(words)
        traced = {path.stem: read_npy(path)[1] for path in pathlib.Path(folder).iterdir()}
    rows = []
    for name, block in document["blocks"].items():
        errors = errors_of(traced[name], block["values"]) if name in traced else (math.inf, math.inf)
        limits = block["limits"][dtype]
        ratio = max(e / limit if limit > 0 else math.inf for e, limit in zip(errors, limits, strict=True))
        rows.append({"block": name, "dtype": dtype, "error": errors[0], "limit": limits[0], "ratio": ratio})
    return rows


def make(model: pathlib.Path) -> dict[str, Any]:
    """The document for a model folder, computed with transformers."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(model, local_files_only=True)
    text = config.get_text_config(decoder=True)
    high = int(text.vocab_size)
    ids = torch.randint(min(3, high - 1), high, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    exact = blocks_of(model, torch.float64, ids)
    close = {name: blocks_of(model, getattr(torch, kind), ids) for name, kind in DTYPES.items()}
    blocks: dict[str, Any] = {}
    for depth, (name, value) in enumerate(exact.items()):
        flat = value.flatten().tolist()
        floors = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": floor_of(text) * math.sqrt(max(1, depth))}
        limits = {}
        for dtype, floor in floors.items():
            errors = errors_of(close[dtype][name].double().flatten().tolist(), flat)
            limits[dtype] = [float(f"{FACTOR * r + floor:.4g}") for r in errors]
        values = [float(f"{v:.9g}") for v in flat]
        blocks[name] = {"shape": list(value.shape), "limits": limits, "values": values}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"format": FORMAT, "versions": versions, "tokens": ids[0].tolist(), "blocks": blocks}


def floor_of(config: Any) -> float:
    """The error in f32 that is always allowed: of sums, and of keys and values that f16 rounds to the other side.

    Such a rounding has the probability of the sum's error over f16's spacing, and then is off by 2^-11. Of n values
    at most np + 3 sqrt(np) + 3 are.
    """
    names = ("hidden_size", "intermediate_size", "n_embd", "n_inner", "ffn_hidden_size", "ffn_dim")
    sums = 4 * 2.0**-24 * math.sqrt(max(int(getattr(config, name, 0) or 0) for name in names) or 1)
    heads = int(getattr(config, "num_attention_heads", 0) or 1)
    width = int(getattr(config, "head_dim", 0) or config.hidden_size // heads)
    count = 2 * TOKENS * width * int(getattr(config, "num_key_value_heads", 0) or heads)
    expected = count * sums / 2.0**-11
    return float(sums + 2.0**-11 * math.sqrt((expected + 3 * math.sqrt(expected) + 3) / count))


def blocks_of(model: pathlib.Path, dtype: Any, ids: Any) -> dict[str, Any]:
    """{"embed", "layers.0" ... "logits": [T, width]} of a pass with a cache that holds f16, as Gabbro's does."""
    import torch
    import transformers

    class HalfCache(transformers.DynamicCache):  # type: ignore[misc]
        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
            pair = (x.to(torch.float16).to(x.dtype) for x in (key_states, value_states))
            return super().update(*pair, *args, **kwargs)

    network = transformers.AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, local_files_only=True, attn_implementation="eager"
    )
    if getattr(network, "_can_set_experts_implementation", lambda: False)():
        network.set_experts_implementation("eager")
    network = network.to(dtype).eval()
    lists = [(n, m) for n, m in network.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m) > 0]
    layers = min(lists, key=lambda pair: pair[0].count("."))[1]
    seen: dict[str, Any] = {}

    def enter(_module: Any, args: Any, kwargs: Any) -> None:
        seen["embed"] = (args[0] if args else kwargs["hidden_states"])[0].detach().clone()

    handles = [layers[0].register_forward_pre_hook(enter, with_kwargs=True)]
    for index, layer in enumerate(layers):

        def leave(_module: Any, _args: Any, output: Any, index: int = index) -> None:
            first = output[0] if isinstance(output, tuple) else output
            seen[f"layers.{index}"] = first[0].detach().clone()

        handles.append(layer.register_forward_hook(leave))
    with torch.no_grad(), in_double(dtype):
        seen["logits"] = network(ids, **cache_argument(network, HalfCache))["logits"][0]
    for handle in handles:
        handle.remove()
    return seen


def cache_argument(network: Any, cache: Any) -> dict[str, Any]:
    import inspect

    taken = inspect.signature(network.forward).parameters
    return next(({n: cache(config=network.config)} for n in ("cache", "past_key_values") if n in taken), {})


def in_double(dtype: Any) -> Any:
    """A mode in which a model that asks for f32 by name gets f64, where `dtype` is f64."""
    import contextlib

    import torch
    from torch.overrides import TorchFunctionMode

    wide = {torch.float32: torch.float64, torch.Tensor.float: torch.Tensor.double}

    class InDouble(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args = tuple(wide.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
            kwargs = {k: wide.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (kwargs or {}).items()}
            return wide.get(func, func)(*args, **kwargs)

    return InDouble() if dtype == torch.float64 else contextlib.nullcontext()


def write(model: pathlib.Path, path: pathlib.Path) -> dict[str, Any]:
    document = make(model)
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(json.dumps(document) + "\n")
    scratch.replace(path)
    return document


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--program", default="gabbro")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.force or not options.file.exists():
        if not (options.model / "config.json").is_file():
            raise Bad(f"{options.model}: has no config.json")
        missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
        if missing:
            lacks = f"{options.file} is missing, and {sys.executable} has no {missing[0]} to write it with"
            print(f"gabbro: error: {lacks}", file=sys.stderr)
            return 3
        document = write(options.model, options.file)
        print(f"{options.file}: {len(document['blocks'])} blocks of {len(document['tokens'])} tokens")
        return 0
    rows = compare(options.model, load(options.file), options.program)
    worst = max(rows, key=lambda row: float(row["ratio"]))
    if options.json:
        print(json.dumps({"blocks": rows, "worst": worst["block"]}, indent=1))
    else:
        for row in rows:
            verdict = "right" if row["ratio"] <= 1 else "WRONG"
            print(f"{row['block']:<12} error {row['error']:.3g}, limit {row['limit']:.3g}  {verdict}")
    return int(worst["ratio"] > 1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Bad as error:
        print(f"gabbro: error: {error}", file=sys.stderr)
        sys.exit(2)
