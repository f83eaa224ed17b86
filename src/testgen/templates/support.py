"""The measure of these tests: seeded weights, an oracle in f64 on the CPU, relative errors and their tolerance.

A value passes where its error against the oracle is at most FACTOR times the error of the CPU in the same data type, plus
a floor of a few rounding errors: e <= C * r + floor. No tolerance is a guess, and none depends on the model. Where r is
exceeded it is measured again with sums in other orders: a recurrence that multiplies errors has a small r by chance.
Choices between scores that are nearly equal, such as a router's, are then made as the oracle makes them (choices.py).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import transformers
from torch import nn
from torch.overrides import TorchFunctionMode

import case
import known
from choices import Again

FOLDER = pathlib.Path(case.__file__).resolve().parent  # of the pack
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
FACTOR = {torch.float32: 3.0, torch.bfloat16: 4.0, torch.float16: 4.0}  # 3.06 was seen on a H200 in bf16
FEW, FACTOR_OF_FEW = 10, 10.0  # the CPU's error of so few elements may be small by chance
ORDERS = 6  # more measures of the CPU's error, where the first one's limit is exceeded
# Parameters whose initial values have a meaning that random ones destroy: constants of state-space models and the like.
KEPT = ("A_log", "dt_bias", "dt_proj", "time_decay", "logit_scale", "logit_bias", "recurrent_param", "D", "rope")
LOADED: dict[tuple[str, torch.dtype], dict[str, torch.dtype]] = {}  # by class: what loaded_dtypes() found
MEASURED: list[dict[str, Any]] = []  # the worst comparison of each call of compare(); conftest.py adds it to the report


@dataclasses.dataclass
class Call:
    """One call of a block: its name in the model, and what the oracle gave it."""

    block: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class InDouble(TorchFunctionMode):
    """Makes f64 of every f32 that a model asks for, so that the oracle is f64 in norms, too, and in quotients of integers."""

    def __enter__(self) -> Any:
        self.usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()  # type: ignore[no-untyped-call,unused-ignore]

    def __exit__(self, *ending: Any) -> None:
        torch.set_default_dtype(self.usual)
        super().__exit__(*ending)  # type: ignore[no-untyped-call,unused-ignore]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        wide = {torch.float32: torch.float64, torch.Tensor.float: torch.Tensor.double}
        args = tuple(wide.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
        kwargs = {k: wide.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (kwargs or {}).items()}
        return wide.get(func, func)(*args, **kwargs)  # type: ignore[operator]


def number_or_object(value: dict[str, Any]) -> Any:
    """transformers 5 saves an infinite number as {"__float__": "Infinity"}."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value


def file_of(size: str) -> pathlib.Path:
    """The configuration of a size: the model's own for "full"."""
    return FOLDER / ("model.json" if size == "full" else f"{size}.json")


def load_config(size: str = "tiny") -> Any:
    """The configuration tiny.json, true.json or model.json of this folder."""
    values = json.loads(file_of(size).read_text(), object_hook=number_or_object)
    return transformers.CONFIG_MAPPING[values["model_type"]].from_dict(values)


@functools.cache
def initial_model(size: str) -> Any:
    """The model of case.MODEL_CLASS in f32 on the CPU, as its library initializes it."""
    config = load_config(size)
    torch.manual_seed(case.SEED)
    model_class = getattr(transformers, case.MODEL_CLASS, None)
    if model_class is None:
        model_class = getattr(transformers, case.AUTO_CLASS)
        return model_class.from_config(config).eval()
    wanted, text = model_class.config_class or object, config.get_text_config(decoder=True)
    if not isinstance(config, wanted) and isinstance(text, wanted):  # the text part of a model of several parts
        config = text
    return model_class(config).eval()


def build_model(size: str = "tiny") -> Any:
    """A copy of the initial model, which the caller may change."""
    return copy.deepcopy(initial_model(size))


def draw(module: nn.Module, name: str, old: torch.Tensor, regime: str, generator: torch.Generator) -> torch.Tensor:
    """New values of a parameter. Lively ones show faults that default ones hide: biases that are zero, flat softmax."""
    noise = torch.randn(old.shape, generator=generator)
    if isinstance(module, nn.Embedding):
        return noise * (1e-3 if regime == "faint" else 1.0)  # faint: the mean square is about a norm's epsilon
    if old.dim() < 2 or min(old.shape) == 1 and old.dim() == 2:
        return old + 0.3 * noise
    fan_in = old[0].numel() if not name.startswith("gate_up") and old.dim() != 3 else max(old.shape[1:])
    return noise * (case.GAIN / math.sqrt(fan_in))


@torch.no_grad()
def set_weights(model: Any, regime: str = "lively", seed: int = case.SEED) -> Any:
    """Seeded weights in one of two regimes, the same on every machine. Each has its own numbers, by its name."""
    computed = re.compile("|".join(getattr(model, "_keys_to_ignore_on_save", None) or ["$^"]))  # such as sinusoids
    seen = {id(parameter) for name, parameter in model.named_parameters() if computed.search(name)}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or name in KEPT or not parameter.is_floating_point():
                continue
            if parameter.dim() == 0 or parameter.numel() == 0:
                continue
            seen.add(id(parameter))
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {path}.{name}".encode()))
            parameter.copy_(draw(module, name, parameter, regime, generator))
            padding = getattr(module, "padding_idx", None)
            if isinstance(module, nn.Embedding) and padding is not None:
                parameter[padding] = 0.0
    return model


def loaded_dtypes(model: Any, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """The data types of a model's buffers after from_pretrained(dtype=...), which builds it on no device with this default."""
    key = (type(model).__name__, dtype)
    if key not in LOADED:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device("meta"):
                fresh = type(model)(copy.deepcopy(model.config))
        finally:
            torch.set_default_dtype(before)
        LOADED[key] = {name: buffer.dtype for name, buffer in fresh.named_buffers()}
    return LOADED[key]


def stay_wide(model: Any, dtype: torch.dtype) -> re.Pattern[str]:
    """Names of tensors that the model's class keeps in f32 when it is loaded in f16, or in f16 and bf16."""
    pieces = [*(getattr(model, "_keep_in_fp32_modules_strict", None) or ())]
    pieces += [*(getattr(model, "_keep_in_fp32_modules", None) or ())] if dtype == torch.float16 else []
    return re.compile("|".join(re.escape(piece).replace(r"\*", ".*") for piece in pieces) or "$^")


def to_dtype(model: Any, dtype: torch.dtype) -> Any:
    """Rounds the weights. Buffers that are not saved get the type that they have in a loaded model: RoPE's stay in f32."""
    if dtype == torch.float64:
        return model.double()
    saved, wide = set(model.state_dict(keep_vars=True)), stay_wide(model, dtype)
    loaded = loaded_dtypes(model, dtype) if dtype != torch.float32 else {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and not wide.search(name):
            tensor.data = tensor.data.to(dtype if name in saved else loaded.get(name, tensor.dtype))
    model.config.dtype = dtype
    return model


def set_implementation(model: Any, attention: str | None) -> Any:
    """The attention by name, and experts one by one, since grouped products exist on few devices and dtypes."""
    if attention is not None and hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation(attention)
        own = model.config
        for (
            part
        ) in model.modules():  # transformers 5.17 leaves copies of the configuration out, as T5's stacks have them
            config: Any = getattr(part, "config", None)
            if type(config) is type(own) and config._attn_implementation != own._attn_implementation:
                config._attn_implementation = own._attn_implementation
    for part in model.modules():  # models of several parts cannot do it for all of them
        if hasattr(part, "set_experts_implementation") and part._can_set_experts_implementation():
            part.set_experts_implementation("eager")
    return model


def attention_of_oracle() -> str | None:
    """Eager; what the library picks where exceptions.json says that the model's eager attention is another function."""
    rows = json.loads((FOLDER / "exceptions.json").read_text())
    return None if any(row["check"] == "attention" and row.get("only") == "eager" for row in rows) else "eager"


@functools.cache
def make_oracle(dtype: torch.dtype = torch.float32, regime: str = "lively", size: str = "tiny") -> Any:
    """The model in f64 on the CPU, with weights rounded to `dtype`. Shared by the tests of a process."""
    return set_implementation(to_dtype(set_weights(build_model(size), regime), dtype).double(), attention_of_oracle())


@functools.cache
def make_reference(dtype: torch.dtype, regime: str = "lively", size: str = "tiny") -> Any:
    """The model in `dtype` on the CPU: its error against the oracle is the measure of what the data type can do."""
    return set_implementation(to_dtype(set_weights(build_model(size), regime), dtype), attention_of_oracle())


@functools.cache
def refusal(dtype: torch.dtype, size: str = "tiny") -> str:
    """Why the model does not run in `dtype` on the CPU, so that there is nothing to compare with; empty where it does."""
    from inputs import make_inputs

    reference = make_reference(dtype, size=size)
    try:
        run(reference, make_inputs(reference))
    except (RuntimeError, NotImplementedError) as error:
        return f"the model does not run in {NAMES[dtype]} on the CPU: {str(error).splitlines()[0]}"
    return ""


def require_model(size: str = "tiny") -> None:
    """Builds the model and runs it in f64 on the CPU; raises what its library raises."""
    from inputs import make_inputs

    oracle = make_oracle(size=size)
    run(oracle, make_inputs(oracle))


@functools.cache
def avoided_attention() -> list[str]:
    """Lines of the pack's known faults of the attention that this version of the library picks by itself."""
    facts = {"gfx": "", "hip": torch.version.hip, "transformers": transformers.__version__, "type": case.MODEL_TYPE}
    return known.avoided(known.load(FOLDER), facts)


def make_subject(
    device: str, dtype: torch.dtype, regime: str = "lively", size: str = "tiny", attention: str | None = None
) -> Any:
    """The model under test, on its device, with the given attention, else the one that its library picks by itself, or
    eager where that one is a known fault."""
    model = to_dtype(set_weights(build_model(size), regime), dtype)
    return set_implementation(model, attention or ("eager" if avoided_attention() else None)).to(device)


def on(value: Any, device: str | torch.device, dtype: torch.dtype | None = None) -> Any:
    """The same structure with its tensors on a device; floating-point ones rounded to `dtype`."""
    if isinstance(value, torch.Tensor):
        if dtype is None or not value.is_floating_point():
            return value.detach().to(device=device)
        if torch.finfo(dtype).max < torch.finfo(value.dtype).max:  # a mask's smallest number stays a number
            finite, limits = value.isfinite(), torch.finfo(dtype)
            value = torch.where(finite, value.clamp(limits.min, limits.max), value)
        hidden = value == torch.finfo(value.dtype).min  # and stays the smallest one in a wider type
        moved = value.detach().to(device=device, dtype=dtype)
        return torch.where(hidden.to(device), torch.finfo(dtype).min, moved) if bool(hidden.any()) else moved
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, dict):
        moved = {key: on(item, device, dtype) for key, item in value.items()}
        return type(value)(**moved) if hasattr(value, "to_tuple") else moved
    if isinstance(value, (list, tuple)):
        items = [on(item, device, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class OtherOrder(TorchFunctionMode):
    """Products whose sums run over their terms in another order: the same mathematics with other rounding errors."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def order(self, length: int) -> torch.Tensor:
        return torch.randperm(length, generator=torch.Generator().manual_seed(self.seed))

    def permuted_channels(self, given: list[Any]) -> list[Any]:
        """The arguments of a convolution with permuted channels; grouped convolutions are unchanged."""
        if given[0].shape[1] != given[1].shape[1]:
            return given
        order = self.order(given[0].shape[1])
        return [given[0][:, order], given[1][:, order], *given[2:]]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = list(args)
        convolutions = (nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d)
        if func in convolutions and len(given) > 1 and given[0].dim() == given[1].dim() and given[0].shape[1] > 1:
            return func(*self.permuted_channels(given), **(kwargs or {}))
        at = {nn.functional.linear: 0, torch.addmm: 1, torch.matmul: 0, torch.Tensor.matmul: 0, torch.bmm: 0}.get(func)
        pair = given[at : at + 2] if at is not None else []
        if at is not None and len(pair) == 2 and all(x.dim() >= 2 and x.is_floating_point() for x in pair):
            order = self.order(given[at].shape[-1])
            given[at] = given[at][..., order]
            given[at + 1] = given[at + 1][..., order] if func is nn.functional.linear else given[at + 1][..., order, :]
        return func(*given, **(kwargs or {}))


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The floating-point tensors of an output, with their names."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield name or "output", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{name}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{name}[{index}]")


@torch.no_grad()
def run(model: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """A forward pass without a cache; the inputs are moved to the model's device and data type."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    given = on(inputs, parameter.device, parameter.dtype)
    torch.manual_seed(case.SEED)
    if case.HAS_CACHE:
        options.setdefault("use_cache", False)
    if parameter.dtype != torch.float64:
        return model(**given, **options)
    with InDouble():
        return model(**given, **options)


def blocks(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers of every list of layers, and the modules next to them that have weights or constants, such as RoPE's."""
    for name, child in model.named_children():
        path = f"{prefix}{name}"
        inner = any(isinstance(m, nn.ModuleList) and len(m) > 0 for m in child.modules())
        if isinstance(child, nn.ModuleList):
            yield from ((f"{path}.{index}", layer) for index, layer in enumerate(child) if layer is not None)
        elif inner:
            yield from blocks(child, f"{path}.")
        elif any(True for _ in child.parameters()) or any(x.is_floating_point() for x in child.buffers()):
            yield path, child


def record(oracle: Any, inputs: dict[str, Any], only: Sequence[str] | None = None) -> list[Call]:
    """Runs the oracle and returns the first two calls of each block, or of the blocks `only`, with their arguments."""
    calls: list[Call] = []
    counts: dict[str, int] = {}

    def note(block: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            counts[block] = counts.get(block, 0) + 1
            if counts[block] <= 2:
                # Without a cache, which a second call would find filled; some models make one unasked.
                given = {k: None if k in ("cache", "past_key_values") else v for k, v in kwargs.items()}
                calls.append(Call(block, open_rows(clone(args)), open_rows(clone(given))))

        return hook

    chosen = [(name, module) for name, module in blocks(oracle) if only is None or name in only]
    handles = [module.register_forward_pre_hook(note(name), with_kwargs=True) for name, module in chosen]
    run(oracle, inputs)
    for handle in handles:
        handle.remove()
    return calls


def open_rows(value: Any) -> Any:
    """Masks of attention with queries that see no key: these see all. A softmax over nothing is not defined: some
    kernels return zeros, others the mean of all values, and models ignore the result."""
    if isinstance(value, dict) and not hasattr(value, "to_tuple"):
        return {key: open_rows(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(open_rows(item) for item in value)
    if not isinstance(value, torch.Tensor) or value.dim() != 4:
        return value
    if value.dtype == torch.bool:
        first, last = (int(value[..., row, :].sum()) for row in (0, -1))
        hides = first > last or not bool(value.any())  # such as MPT's, which are true for hidden keys
        return value if hides else value | ~value.any(-1, keepdim=True)
    if not value.is_floating_point():
        return value
    hidden = value <= torch.finfo(value.dtype).min / 2
    is_mask = bool((hidden | (value == 0)).all())
    return torch.where(hidden.all(-1, keepdim=True), torch.zeros_like(value), value) if is_mask else value


def clone(value: Any) -> Any:
    """A copy that later writes in place do not reach."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict) and not hasattr(value, "to_tuple"):
        return {key: clone(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(clone(item) for item in value)
    return value


@torch.no_grad()
def run_block(model: Any, call: Call, device: str | torch.device, dtype: torch.dtype) -> list[tuple[str, torch.Tensor]]:
    """Calls one block with the oracle's arguments (teacher forcing); the outputs are on the CPU."""
    module = model.get_submodule(call.block)
    args, kwargs = on(clone(call.args), device, dtype), on(clone(call.kwargs), device, dtype)
    torch.manual_seed(case.SEED)
    if dtype != torch.float64:
        return list(leaves(on(module(*args, **kwargs), "cpu")))
    with InDouble():
        return list(leaves(module(*args, **kwargs)))


def block_output(call: Call, name: str, model: Any) -> torch.Tensor:
    """One output of run_block(), where the model is and in its data type."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    return dict(run_block(model, call, parameter.device, parameter.dtype))[name]


def opened(x: torch.Tensor) -> torch.Tensor:
    """In f64 on the CPU. A data type's smallest number, with which models hide results, becomes minus infinity."""
    x = x.detach().cpu()
    if not x.is_floating_point():
        return x.double()
    return torch.where(x == torch.finfo(x.dtype).min, -math.inf, x.double())


def distance(got: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """Relative errors in the Euclidean and in the maximum norm; infinite where the finite elements differ."""
    got, exact = opened(got), opened(exact)
    if got.shape != exact.shape or not torch.equal(got.isfinite(), exact.isfinite()):
        return math.inf, math.inf
    finite = exact.isfinite()
    difference, exact = (got - exact)[finite], exact[finite]
    if exact.numel() == 0:
        return 0.0, 0.0
    smallest = 1e-30
    euclidean = float(difference.norm() / exact.norm().clamp_min(smallest))
    return euclidean, float(difference.abs().max() / exact.abs().max().clamp_min(smallest))


def depth_of(model: nn.Module) -> int:
    """The longest sum of products in the model: the largest fan-in of its matrices and convolutions."""
    weights: list[torch.Tensor] = [p for p in model.parameters() if p.dim() == 2 and p.numel()]
    weights += [m.weight for m in model.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
    return max((int(p[0].numel()) for p in weights), default=1)


def floor_of(dtype: torch.dtype, depth: int) -> float:
    """The error that is always allowed: 4 rounding errors times the root of the sums' length; one of f16's or bf16's."""
    return 4 * UNIT[dtype] * math.sqrt(depth) if dtype == torch.float32 else UNIT[dtype]


def measure(
    name: str, got: Any, close: Any, exact: Any, dtype: torch.dtype, depth: int, others: Sequence[Any] = ()
) -> dict[str, Any]:
    """Errors and `ratio`, the worst share of the limit. got: the device's, close and others: the CPU's in `dtype`, exact:
    f64. The CPU's largest error counts."""
    errors = distance(got, exact)
    references = [max(both) for both in zip(*(distance(x, exact) for x in (close, *others)), strict=True)]
    floor = floor_of(dtype, depth)
    factor = FACTOR_OF_FEW if exact.numel() < FEW else FACTOR[dtype]
    limits = [factor * r + floor if math.isfinite(r) else 0.0 for r in references]
    ratio = max(e / limit if limit else math.inf for e, limit in zip(errors, limits, strict=True))
    entry = {
        "block": name,
        "dtype": NAMES[dtype],
        "error": errors[0],
        "reference_error": references[0],
        "limit": limits[0],
    }
    return {**entry, "ratio": ratio, "factor": errors[0] / max(references[0], 1e-30)}


def compare(
    name: str,
    got: Any,
    close: Any,
    exact: Any,
    dtype: torch.dtype,
    depth: int,
    again: Again | None = None,
    explain: Callable[[], str] = str,
) -> None:
    """Asserts e <= C * r + floor in both norms. `again` computes the value once more, where the limit is exceeded.

    explain() says more of a failure, such as the first block that is wrong.
    """
    entry = measure_fully(name, got, close, exact, dtype, depth, again)
    MEASURED.append(entry)
    overflows = not math.isfinite(entry["reference_error"])
    assert not overflows, f"{name}: the CPU itself overflows in {NAMES[dtype]}: nothing can be compared"
    if entry["ratio"] > 1.0:
        words = describe(name, got, exact, entry, entry["ratio"])
        raise AssertionError("\n".join([words, *filter(None, [explain()])]))


def measure_fully(
    name: str, got: Any, close: Any, exact: Any, dtype: torch.dtype, depth: int, again: Again | None
) -> dict[str, Any]:
    """measure(); where the limit is exceeded, with the CPU's sums in other orders, then with the oracle's choices. For
    gradients with the device's attention on the CPU first."""
    entry = measure(name, got, close, exact, dtype, depth)
    if again is None or not 1.0 < entry["ratio"] < math.inf:
        return entry
    if not again.holds(lambda value: distance(value, exact)[0] <= UNIT[torch.float32]):
        return entry
    others: list[torch.Tensor] = []
    if math.isfinite(again.comparable):  # gradients: SDPA computes its probabilities again, from rounded scores
        others = again.with_the_subjects_attention(lambda value: distance(value, exact)[0] <= UNIT[torch.float32])
    entry = measure(name, got, close, exact, dtype, depth, others)
    for seed in range(ORDERS):
        if entry["ratio"] <= 1.0:
            break
        with OtherOrder(seed):
            others.append(again.close(seed))
        entry = measure(name, got, close, exact, dtype, depth, others)
    if entry["reference_error"] > again.comparable:
        entry["ratio"] = min(entry["ratio"], 1.0)
    if entry["ratio"] > 1.0:
        pair = again.with_the_oracles_choices(FACTOR[dtype], floor_of(dtype, depth))
        entry = measure(name, *pair, exact, dtype, depth) if pair else entry
    return entry


def require_in_f64(name: str, got: torch.Tensor, exact: torch.Tensor) -> None:
    """Asserts that a property holds for the model itself, in f64 on the CPU: only then can a device break it."""
    error = distance(got, exact)[0]
    assert error <= UNIT[torch.float32], (
        f"{case.MODEL_CLASS} {name}: in f64 on the CPU the property fails already, by {error:.3g}: the fault is "
        "in the model's code or in these inputs, not in a device"
    )


def describe(name: str, got: torch.Tensor, exact: torch.Tensor, entry: dict[str, Any], ratio: float) -> str:
    """What a maintainer needs of a failure: the worst element, the errors, and how to go on."""
    lines = [f"{case.MODEL_CLASS} {name} in {entry['dtype']} on {got.device}: error {ratio:.3g} times the limit"]
    if got.shape == exact.shape and exact.numel():
        difference = (got.detach().cpu().double() - exact.double()).abs().nan_to_num(math.inf, math.inf)
        index = tuple(int(i) for i in torch.unravel_index(difference.argmax(), exact.shape))
        lines.append(f"worst element {index} of {tuple(exact.shape)}: got {got[index]:.9g}, oracle {exact[index]:.9g}")
    else:
        lines.append(f"shape {tuple(got.shape)}, oracle {tuple(exact.shape)}")
    lines.append(f"e = {entry['error']:.3g}, CPU's r = {entry['reference_error']:.3g}, limit {entry['limit']:.3g}")
    lines.append(f"torch {torch.__version__}, transformers {transformers.__version__}, hip {torch.version.hip}")
    return "\n".join(lines)


def require_promise(test: str) -> str | None:
    """The reason why this architecture does not promise what `test` checks, from exceptions.json; None where it does.

    A row is for one check, and with "only" for one of its cases: "left" of test_padding[cpu-f32-tiny-31-left].
    """
    check, _, cases = test.removeprefix("test_").rstrip("]").partition("[")
    for row in json.loads((FOLDER / "exceptions.json").read_text()):
        if row["check"] == check and row.get("only", "") in ["", *cases.split("-")]:
            return f"{row['reason']} ({row['link']})"
    return None


def on_grid(value: Any, dtype: torch.dtype) -> Any:
    """Arguments rounded to `dtype`, in f64: the oracle and the device get the same numbers."""
    if isinstance(value, Call):
        return Call(value.block, on_grid(value.args, dtype), on_grid(value.kwargs, dtype))
    return on(on(value, "cpu", dtype), "cpu", torch.float64)


def float_outputs(output: Any) -> list[tuple[str, torch.Tensor]]:
    """The floating-point tensors of a model's output with their names, without caches."""
    named = dict(output) if isinstance(output, dict) else {"": output}
    return list(leaves({k: v for k, v in named.items() if not k.startswith(("past_key", "cache", "mems"))}))


def outputs(model: Any, inputs: dict[str, Any], **options: Any) -> dict[str, torch.Tensor]:
    """float_outputs() of a forward pass, by name."""
    return dict(float_outputs(run(model, inputs, **options)))


def output(inputs: dict[str, Any], name: str, model: Any) -> torch.Tensor:
    """One of outputs()."""
    return outputs(model, inputs)[name]
