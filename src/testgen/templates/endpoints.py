"""A model folder on one device, and handlers that run it: the common part of endpoint.py of all packs."""

from __future__ import annotations

import asyncio
import gc
import pathlib
from collections.abc import Callable
from typing import Any

import torch
import transformers

import case
import machine

Handler = Callable[..., dict[str, Any]]
Endpoint = tuple[Any, Any, Handler, "asyncio.Queue[Any]", int]


def require(hardware: str, device: str) -> None:
    """Raises RuntimeError unless torch can use the device of this hardware."""
    found = machine.detect()
    index = int(device.partition(":")[2] or 0)
    amd = hardware == "rocm"
    vendor = [card for card in found["cards"] if (card["vendor"] == machine.AMD) == amd]
    if not any(card["link"] == "none" and card["index"] == index for card in vendor):
        other = found["reason"] or f"the GPU is {found['verdict']}"
        reason = next((card["reason"] for card in vendor if card["reason"]), other)
        raise RuntimeError(f"{device} is not usable: {reason}")


def make_endpoint(folder: str, device: str, dtype: str, hardware: str) -> Endpoint:
    """Loads the model and, where the folder has one, its tokenizer."""
    path = pathlib.Path(folder)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path / 'config.json'} is missing")
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    model_class: Any = getattr(transformers, case.MODEL_CLASS)
    model = model_class.from_pretrained(path, dtype=types[dtype], local_files_only=True).eval().to(device)
    has_tokenizer = any(path.glob("tokenizer*")) or any(path.glob("vocab*")) or any(path.glob("*.model"))
    tokenizer: Any = None
    if has_tokenizer:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    return model, tokenizer, make_handler(model, tokenizer, device), asyncio.Queue(), batch_size(model, device)


def batch_size(model: Any, device: str) -> int:
    """Rows that surely fit: free memory over four times the weights, from 1 to 32."""
    if device == "cpu":
        return 1
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    free, _ = torch.cuda.mem_get_info(device)
    return int(max(1, min(32, free // max(1, 4 * weights))))


def make_handler(model: Any, tokenizer: Any, device: str) -> Handler:
    """handler(text) or handler(input_ids=...): the model's outputs as a dictionary of tensors on the CPU."""

    @torch.no_grad()
    def handler(text: str | list[str] | None = None, **inputs: Any) -> dict[str, Any]:
        if text is not None:
            if tokenizer is None:
                raise ValueError("the model's folder has no tokenizer: give input_ids")
            inputs = {**tokenizer(text, return_tensors="pt", padding=not isinstance(text, str)), **inputs}
        placed = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
        output = model(**placed)
        return {k: v.cpu() for k, v in output.items() if isinstance(v, torch.Tensor)}

    return handler


def memory_report(device: str) -> dict[str, int]:
    """Bytes: in use and highest by torch's allocator, free and total of the device."""
    if device == "cpu":
        raise ValueError("the CPU's memory is the operating system's to report")
    device = device.replace("rocm", "cuda")
    free, total = torch.cuda.mem_get_info(device)
    used, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
    return {"used": used, "peak": peak, "free": free, "total": total}


def clean_up(device: str) -> None:
    """Returns memory that nothing refers to. Drop the endpoint and its handler first."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
