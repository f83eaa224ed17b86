"""Names the first operation inside of a layer at which an engine's results differ from transformers.

The engine's results of the layer's operations are compared, in their order, with the inputs and outputs of
transformers' modules, as hooks see them, and with what its attention gets. The first that exceeds its limit is the
operation; those before it are right. Both sides begin with the engine's own input of the layer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

# The engine's name, a description, "in" or "out" of a module, and the module's possible names; the first found counts.
OPERATIONS = [
    ("attn_norm", "norm before attention", "out", ["input_layernorm", "ln_1", "attention_norm", "norm"]),
    ("attn_q", "query projection", "out", ["*.q_proj"]),
    ("attn_k", "key projection", "out", ["*.k_proj"]),
    ("attn_v", "value projection", "out", ["*.v_proj"]),
    ("attn_q_norm", "norm of queries", "out", ["*.q_norm", "*.q_layernorm"]),
    ("attn_k_norm", "norm of keys", "out", ["*.k_norm", "*.k_layernorm"]),
    ("rope_q", "rotation of queries", "query", []),
    ("rope_k", "rotation of keys", "key", []),
    ("attention", "attention", "in", ["*.o_proj", "*.out_proj", "*.dense", "attn.c_proj"]),
    ("mixer", "output projection", "out", ["*.o_proj", "*.out_proj", "*.dense", "attn.c_proj"]),
    ("post_attention_norm", "norm after attention", "out", ["post_attention_layernorm!", "post_self_attn_layernorm"]),
    (
        "attn_residual",
        "sum with the layer's input",
        "in",
        ["pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "ffn_norm"],
    ),
    (
        "ffn_norm",
        "norm before the feed-forward part",
        "out",
        ["pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "ffn_norm"],
    ),
    ("ffn_up", "up projection", "out", ["*.up_proj", "*.fc1", "*.c_fc", "*.dense_h_to_4h"]),
    ("ffn_gate", "gate projection", "out", ["*.gate_proj"]),
    ("ffn_activation", "activation", "in", ["*.down_proj", "*.fc2", "mlp.c_proj", "*.dense_4h_to_h"]),
    ("ffn_output", "down projection", "out", ["*.down_proj", "*.fc2", "mlp.c_proj", "*.dense_4h_to_h"]),
    ("post_ffw_norm", "norm after the feed-forward part", "out", ["post_feedforward_layernorm"]),
]

# Results that kernels do not keep for themselves where they can fuse: without the others, fused kernels run.
OUTER = ["attn_q", "attn_k", "attn_v", "rope_q", "attention", "mixer", "ffn_activation", "ffn_output"]


@dataclasses.dataclass
class Seen:
    """What passes through the modules of a block, and through its attention, in one call."""

    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]
    attention: dict[str, torch.Tensor]

    def find(self, kind: str, names: list[str]) -> torch.Tensor | None:
        """The value of the first module that there is."""
        if kind in ("query", "key"):
            return self.attention.get(kind)
        values = self.inputs if kind == "in" else self.outputs
        return next((values[path] for name in names for path in values if self.fits(path, name)), None)

    def fits(self, path: str, name: str) -> bool:
        """Whether "*.q_proj" is any module of that name, with "!" only where another norm comes before."""
        if name.endswith("!"):
            return path == name[:-1] and "pre_feedforward_layernorm" in self.outputs
        return path.endswith(name[1:]) if name.startswith("*") else path == name


@contextlib.contextmanager
def watch(block: nn.Module) -> Iterator[Seen]:
    """Notes the first tensor in and out of every module of the block, and the arguments of its attention."""
    seen = Seen({}, {}, {})
    handles, undo = [], contextlib.ExitStack()
    for path, module in block.named_modules():
        if path:
            handles.append(module.register_forward_hook(note(seen, path), with_kwargs=True))
            undo.enter_context(attention_of(module, seen))
    with undo:
        yield seen
    for handle in handles:
        handle.remove()


def note(seen: Seen, path: str) -> Callable[..., None]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = next((x for x in [*args, *kwargs.values()] if isinstance(x, torch.Tensor)), None)
        first = result[0] if isinstance(result, (tuple, list)) else result
        if given is not None and path not in seen.inputs:
            seen.inputs[path] = given.detach().clone()
        if isinstance(first, torch.Tensor) and path not in seen.outputs:
            seen.outputs[path] = first.detach().clone()

    return hook


@contextlib.contextmanager
def attention_of(module: nn.Module, seen: Seen) -> Iterator[None]:
    """Notes queries and keys, [B, H, T, D], where the module's file has transformers' function for eager attention."""
    file = sys.modules[type(module).__module__]
    usual = getattr(file, "eager_attention_forward", None)
    if usual is None or hasattr(usual, "notes"):
        yield
        return

    def attention(owner: nn.Module, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        seen.attention.setdefault("query", query.detach().transpose(1, 2).clone())
        seen.attention.setdefault("key", key.detach().transpose(1, 2).clone())
        return usual(owner, query, key, *args, **kwargs)

    attention.notes = True  # type: ignore[attr-defined]
    file.eager_attention_forward = attention  # type: ignore[attr-defined]
    try:
        yield
    finally:
        file.eager_attention_forward = usual  # type: ignore[attr-defined]


def layouts(value: torch.Tensor, name: str, head: int) -> list[torch.Tensor]:
    """The value, and of queries and keys also with the rotated pairs next to each other, as some engines store them."""
    found = [value]
    if name in ("attn_q", "attn_k", "attn_q_norm", "attn_k_norm", "rope_q", "rope_k") and head % 2 == 0:
        pairs = value.reshape(-1, 2, head // 2).transpose(1, 2)
        found.append(pairs.reshape(value.shape))
    return found


def first_wrong(
    results: dict[str, torch.Tensor], exact: Seen, close: Seen, head: int, ratio: Callable[..., float]
) -> str:
    """A line about the first operation that exceeds its limit; empty where none does.

    results: of the engine, by name, [..., width]. ratio(got, close, exact): the share of the limit.
    """
    right: list[str] = []
    fused: list[str] = []  # before it, and not among the results
    for name, title, kind, modules in OPERATIONS:
        of_oracle, of_cpu = exact.find(kind, modules), close.find(kind, modules)
        if of_oracle is None or of_cpu is None:
            continue
        if name not in results or of_oracle.numel() != results[name].numel():
            fused.append(name)
            continue
        got = results[name].reshape(of_oracle.shape)
        pairs = zip(layouts(of_oracle, name, head), layouts(of_cpu, name, head), strict=True)
        share = min(ratio(got, cpu, oracle) for oracle, cpu in pairs)
        if share > 1.0:
            within = f", with {', '.join(fused)} in its kernel" if fused else ""
            before = ", ".join(right) or "none"
            return f"operation: {title} ({name}){within}: {share:.3g} times its limit; right: {before}"
        right.append(name)
        fused.clear()
    return ""
