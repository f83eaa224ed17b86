"""Small parts of the tests: fields of configurations, batches and padding, memory and time."""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import support

CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def parts_of(config: Any) -> list[Any]:
    """The configuration and its parts, breadth first."""
    parts, place = [config], 0
    while place < len(parts):
        parts += [value for value in vars(parts[place]).values() if hasattr(value, "model_type") and value not in parts]
        place += 1
    return parts


def find(config: Any, names: list[str], default: Any = None) -> Any:
    """The first of the fields that the configuration or one of its parts has, and that is not None."""
    for part in parts_of(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None and not callable(value):
                return value
    return default


def longest(model: Any) -> int:
    """The number of positions that the model has a table for; a large number where it computes them."""
    names = ["max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_target_positions"]
    rotary = any("rotary" in name or "rope" in name for name, _ in model.named_modules())
    limit = int(find(model.config, names, 1 << 20))
    return limit if not rotary else 1 << 20


def takes(model: Any, name: str) -> bool:
    """Whether the model's forward() has the argument."""
    return name in inspect.signature(model.forward).parameters


def offers(model: Any, attention: str) -> bool:
    """Whether the model and all of its parts have this implementation of attention."""
    if not hasattr(model, "set_attn_implementation") or (attention == "sdpa" and not model._supports_sdpa):
        return False
    try:
        model.set_attn_implementation(attention)
    except ValueError as error:  # a part has none, such as a backbone of convolutions
        return "does not support" not in str(error)
    return True


def pad(values: torch.Tensor, count: int, left: bool, value: int) -> torch.Tensor:
    """[B, T] with `count` columns more on the left or on the right."""
    columns = values.new_full((values.shape[0], count), value)
    return torch.cat([columns, values] if left else [values, columns], dim=1)


def padding_id(config: Any) -> int:
    """The id that pads a text: the configuration's, or 1 where it names none of the vocabulary."""
    chosen = find(config, ["pad_token_id"], 1)
    return chosen if isinstance(chosen, int) and 0 <= chosen < int(find(config, ["vocab_size"], 2)) else 1


def padded(model: Any, ids: torch.Tensor, count: int, left: bool) -> dict[str, Any]:
    """The inputs for `ids` with hidden padding. Positions go on from 0, unless the model counts them from the ids."""
    mask = pad(torch.ones_like(ids), count, left, 0)
    given = {"input_ids": pad(ids, count, left, padding_id(model.config)), "attention_mask": mask}
    return {**given, **(positions(model, mask.cumsum(1) - 1) if left else {})}


def positions(model: Any, values: torch.Tensor) -> dict[str, torch.Tensor]:
    """Positions as generate() gives them; nothing for models without that argument, and for those that count ids."""
    counts = any(hasattr(module, "create_position_ids_from_input_ids") for module in model.modules())
    return {"position_ids": values.clamp_min(0)} if takes(model, "position_ids") and not counts else {}


def repeat_rows(inputs: dict[str, Any], count: int) -> dict[str, Any]:
    """The inputs of one row as a batch of equal rows."""
    return {k: v.repeat_interleave(count, 0) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}


def row_of(inputs: dict[str, Any], row: int, batch: int) -> dict[str, Any]:
    """One row of a batch; what has another first dimension is for all rows."""
    tensors = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor) and v.dim() and v.shape[0] == batch}
    return {**inputs, **{k: v[row : row + 1] for k, v in tensors.items()}}


def rows_of(value: torch.Tensor, one: torch.Tensor, count: int) -> list[torch.Tensor]:
    """The results of each row of a batch, in the shape of `one`. A result for all rows together is repeated for each.

    Empty if the shape is not a batch of such rows: the shape then depends on the other rows.
    """
    if value.shape == one.shape:
        return [value] * count
    if value.dim() != one.dim():
        return []
    longer = [axis for axis in range(one.dim()) if value.shape[axis] != one.shape[axis]]
    if len(longer) != 1 or value.shape[longer[0]] != count * one.shape[longer[0]]:
        return []
    return list(torch.chunk(value, count, dim=longer[0]))


def row_output(inputs: dict[str, Any], name: str, one: torch.Tensor, count: int, row: int, model: Any) -> torch.Tensor:
    """One of rows_of() an output, from a run of the whole batch."""
    return rows_of(support.outputs(model, inputs)[name], one, count)[row]


def generate(model: Any, ids: torch.Tensor, **options: Any) -> torch.Tensor:
    """model.generate() with a seed, and without end tokens of the configuration."""
    ids = ids.to(next(model.parameters()).device)
    torch.manual_seed(0)
    settings = {"eos_token_id": None, "forced_eos_token_id": None, "pad_token_id": 0, **options}
    result = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **settings)
    assert isinstance(result, torch.Tensor)
    return result


def mixed_outputs(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The outputs on the CPU in mixed precision."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return support.outputs(model, inputs)


def mixed_output(inputs: dict[str, Any], name: str, model: Any) -> torch.Tensor:
    """One of mixed_outputs()."""
    return mixed_outputs(model, inputs)[name]


def worse(one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The result with the larger error. A result that overflows is ignored, unless both do."""
    errors = [support.distance(value, exact)[0] for value in (one, other)]
    return one if errors[1] == math.inf or errors[1] <= errors[0] < math.inf else other


def gradients(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """d(sum of products with fixed numbers of all outputs)/d(parameter), for each parameter that takes part."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    given = support.on(inputs, parameter.device, parameter.dtype)
    model.zero_grad()
    model.train()  # ends what some models keep in eval mode, such as biases that were indexed without gradients
    model.eval()
    torch.manual_seed(0)
    wide = support.InDouble() if parameter.dtype == torch.float64 else torch.enable_grad()
    with wide, recurrent_gradients(model):
        total = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
        for _, value in support.float_outputs(model(**given)):
            # Integers: randn() draws other numbers in f64 than in f32.
            numbers = torch.randint(-8, 9, value.shape, generator=torch.Generator().manual_seed(1))
            total = total + (value * numbers.to(value) / 8).sum()
        torch.autograd.backward(total)
    return {name: p.grad.detach().cpu() for name, p in model.named_parameters() if p.grad is not None}


@contextlib.contextmanager
def recurrent_gradients(model: Any) -> Iterator[None]:
    """cuDNN and MIOpen have no backward pass of recurrent layers in eval mode: PyTorch's own kernels, where there are any."""
    before = torch.backends.cudnn.enabled
    if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
        torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def gradient_depth(model: Any, inputs: dict[str, Any]) -> int:
    """The longest sum in a gradient: over all elements of what one module returns."""
    longest = [support.depth_of(model)]

    def count(_module: Any, _args: Any, output: Any) -> None:
        longest.extend(t.numel() for _, t in support.leaves(output))

    handles = [module.register_forward_hook(count) for module in model.modules()]
    support.outputs(model, inputs)
    for handle in handles:
        handle.remove()
    return max(longest)


def bytes_in_use(device: str) -> int:
    """Memory in use: the allocator's count on a GPU, the resident set of the process on a CPU."""
    if device != "cpu":
        torch.cuda.synchronize(device)
        return int(torch.cuda.memory_allocated(device))
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def forecast_bytes(model: Any, inputs: dict[str, Any]) -> int:
    """Twice what all modules return in one pass, and the largest convolution as a product of matrices: besides weights
    no more is needed at any time."""
    returned: list[int] = []
    products = [0]

    def count(module: Any, _args: Any, output: Any) -> None:
        sizes = [t.numel() * t.element_size() for _, t in support.leaves(output)]
        returned.extend(sizes)
        if isinstance(module, CONVOLUTIONS):  # a column for each position: the inputs of its window
            products.append(sizes[0] // module.out_channels * module.in_channels * math.prod(module.kernel_size))

    handles = [module.register_forward_hook(count) for module in model.modules()]
    support.outputs(model, inputs)
    for handle in handles:
        handle.remove()
    return int(2 * sum(returned) + max(products))


def seconds(device: str, call: Callable[[], Any]) -> float:
    """The time of one call, with the device's work done."""
    started = time.perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
