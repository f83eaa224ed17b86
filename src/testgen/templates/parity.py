"""Gabbro as the engine: every block of a model against f64 on the CPU, each with Gabbro's own inputs."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import operations
import support
from inputs import make_inputs

TOKENS = 12


class KeptCache(transformers.DynamicCache):  # type: ignore[misc,unused-ignore]
    """Keeps the keys of the last update, which are rotated."""

    last_keys: torch.Tensor | None = None

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        self.last_keys = key_states
        return super().update(key_states, value_states, *args, **kwargs)


@functools.cache
def program() -> str:
    """The program gabbro: of the environment, or of the path."""
    found = os.environ.get("GABBRO_PROGRAM") or shutil.which("gabbro")
    if not found:
        pytest.skip("the program gabbro is not on the path, and GABBRO_PROGRAM does not name it")
    return found


def gabbro(folder: pathlib.Path, ids: torch.Tensor, *options: str) -> None:
    """gabbro logits of the model in the folder; $GABBRO_DEVICE names its device."""
    tokens = ",".join(str(int(i)) for i in ids[0])
    command = [program(), "logits", str(folder), "--kv-type", "f32", "--tokens", tokens, *options]
    environment = {"GABBRO_DEVICE": "cpu", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 2:
        pytest.skip(f"Gabbro refuses this configuration: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr.strip()


def save(folder: pathlib.Path, size: str, regime: str) -> torch.Tensor:
    """Saves the model in f32, and returns ids [1, T]."""
    model = support.set_weights(support.build_model(size), regime)
    model.tie_weights()
    model.save_pretrained(folder)
    ids: torch.Tensor = make_inputs(model, batch=1, length=TOKENS)["input_ids"]
    return ids


def layers_of(oracle: Any, count: int) -> str:
    """The path of the model's list of `count` layers."""
    lists = [(n, m) for n, m in oracle.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count]
    assert lists, f"the model has no list of {count} layers"
    return str(min(lists, key=lambda pair: pair[0].count("."))[0])


def with_input(call: support.Call, x: torch.Tensor, config: Any) -> support.Call:
    """The call of a layer with another input, and with a KeptCache."""
    kwargs = dict(call.kwargs)
    for name in ("cache", "past_key_values", "layer_past"):
        if name in kwargs:
            kwargs[name] = KeptCache(config=config)
    if "hidden_states" in kwargs:
        return support.Call(call.block, call.args, {**kwargs, "hidden_states": x})
    return support.Call(call.block, (x, *call.args[1:]), kwargs)


def first_output(model: Any, call: support.Call, dtype: torch.dtype) -> torch.Tensor:
    outputs = support.run_block(model, call, "cpu", dtype)
    first: torch.Tensor = outputs[0][1][0]
    return first


def logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """[T, V]"""
    logits: torch.Tensor = support.run(model, {"input_ids": ids})["logits"][0]
    return logits


def measure(name: str, got: Any, close: torch.Tensor, exact: torch.Tensor, oracle: Any) -> dict[str, Any]:
    return support.measure(name, got, close, exact, torch.float32, support.depth_of(oracle))


def check(
    name: str,
    got: Any,
    close: torch.Tensor,
    exact: torch.Tensor,
    oracle: Any,
    explain: Callable[[], str] = str,
) -> None:
    """Asserts that measure() is within the limit; explain() says more of a failure."""
    got = torch.from_numpy(np.asarray(got))
    entry = measure(name, got, close, exact, oracle)
    support.MEASURED.append(entry)
    if entry["ratio"] > 1.0:
        text = support.describe(f"Gabbro {name}", got, exact, entry, entry["ratio"])
        raise AssertionError("\n".join([text, *filter(None, [explain()])]))


def seen_in(model: Any, call: support.Call, dtype: torch.dtype) -> operations.Seen:
    """What passes through the layer's modules."""
    with operations.watch(model.get_submodule(call.block)) as seen:
        first_output(model, call, dtype)
    for cache in call.kwargs.values():
        if isinstance(cache, KeptCache) and cache.last_keys is not None:
            seen.attention["key"] = cache.last_keys.transpose(1, 2)
    return seen


def wrong_operation(
    folder: pathlib.Path, ids: torch.Tensor, index: int, call: support.Call, x: torch.Tensor, models: tuple[Any, Any]
) -> str:
    """Runs Gabbro again with the results inside of layers, and names the first that exceeds its limit.

    At first each operation runs by itself; where all are right then, again as fused as they are in use.
    """
    oracle, reference = models
    exact = seen_in(oracle, with_input(call, x.double(), oracle.config), torch.float64)
    close = seen_in(reference, with_input(call, x, oracle.config), torch.float32)

    def ratio(got: torch.Tensor, of_cpu: torch.Tensor, of_oracle: torch.Tensor) -> float:
        return float(measure("", got, of_cpu, of_oracle, oracle)["ratio"])

    for names in (["all"], operations.OUTER):
        results = results_of(folder, ids, index, names)
        head = results["attn_q"].shape[-1] if "attn_q" in results else 0
        found = operations.first_wrong(results, exact, close, head, ratio)
        if found:
            return found
    return "no operation exceeds its limit: the fault is in how kernels of this layer are fused, or between them"


def results_of(folder: pathlib.Path, ids: torch.Tensor, index: int, names: list[str]) -> dict[str, torch.Tensor]:
    """The results inside of one layer that Gabbro traces, by name."""
    place, start = folder / "-".join(["operations", *names[:2]]), f"layers.{index}."
    gabbro(folder / "model", ids, "--trace", str(place), *[word for n in names for word in ("--operations", n)])
    paths = [path for path in place.iterdir() if path.stem.startswith(start)]
    return {path.stem.removeprefix(start): torch.from_numpy(np.load(path)) for path in paths}


def check_layers(size: str, regime: str, folder: pathlib.Path) -> None:
    """Each layer from Gabbro's output of the one before; then the embeddings and the logits."""
    ids = save(folder / "model", size, regime)
    gabbro(folder / "model", ids, "--trace", str(folder / "trace"))
    trace = {path.stem: np.load(path) for path in (folder / "trace").iterdir()}
    oracle = support.make_oracle(torch.float32, regime, size)
    reference = support.make_reference(torch.float32, regime, size)
    count = sum(name.startswith("layers.") for name in trace)
    path = layers_of(oracle, count)
    calls = {call.block: call for call in support.record(oracle, {"input_ids": ids})}
    for index in range(count):
        call, x = calls[f"{path}.{index}"], torch.from_numpy(trace[f"layers.{index - 1}" if index else "embed"])[None]
        exact = first_output(oracle, with_input(call, x.double(), oracle.config), torch.float64)
        close = first_output(reference, with_input(call, x, oracle.config), torch.float32)
        explain = functools.partial(wrong_operation, folder, ids, index, call, x, (oracle, reference))
        check(f"{path}.{index}", trace[f"layers.{index}"], close, exact, oracle, explain=explain)
    check("logits", trace["logits"], logits_of(reference, ids), logits_of(oracle, ids), oracle)


def check_steps(size: str, step: int, folder: pathlib.Path) -> None:
    """Steps of one and of five tokens through Gabbro's cache give the logits of one pass."""
    ids = save(folder / "model", size, "lively")
    gabbro(folder / "model", ids, "--out", str(folder / "steps.npy"), "--step", str(step))
    oracle, reference = support.make_oracle(torch.float32, size=size), support.make_reference(torch.float32, size=size)
    exact, close = logits_of(oracle, ids), logits_of(reference, ids)
    check(f"logits in steps of {step}", np.load(folder / "steps.npy"), close, exact, oracle)


def check_repeat(size: str, folder: pathlib.Path) -> None:
    """Two runs are equal bit for bit, and a shorter text has the logits of the longer one's beginning."""
    ids = save(folder / "model", size, "lively")
    for name in ("a", "b"):
        gabbro(folder / "model", ids, "--out", str(folder / f"{name}.npy"))
    gabbro(folder / "model", ids[:, : TOKENS // 2], "--out", str(folder / "short.npy"))
    first, second, short = (np.load(folder / f"{name}.npy") for name in ("a", "b", "short"))
    assert np.array_equal(first, second), "two runs differ"
    oracle, reference = support.make_oracle(torch.float32, size=size), support.make_reference(torch.float32, size=size)
    rows = TOKENS // 2
    exact, close = logits_of(oracle, ids)[:rows], logits_of(reference, ids)[:rows]
    check("logits of the beginning", short, close, exact, oracle)
