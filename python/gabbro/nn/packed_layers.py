"""RNN, LSTM and GRU of packed sequences: step by step, with the layers' own weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import GRU, LSTM, RNN, Tensor
from .utils.packed import PackedSequence, lengths_of, padded_steps, sizes_of

State = tuple[Tensor, ...]  # h, or h and c


def _rnn_step(module: Any, a: Tensor, b: Tensor, state: State) -> State:
    return ((_core.relu if module.nonlinearity == "relu" else _core.tanh)(a + b),)


def _lstm_step(module: Any, a: Tensor, b: Tensor, state: State) -> State:
    i, f, g, o = _core.split(a + b, indices_or_sections=4, axis=-1)
    c = _core.sigmoid(f) * state[1] + _core.sigmoid(i) * _core.tanh(g)
    return _core.sigmoid(o) * _core.tanh(c), c


def _gru_step(module: Any, a: Tensor, b: Tensor, state: State) -> State:
    ar, az, an = _core.split(a, indices_or_sections=3, axis=-1)
    br, bz, bn = _core.split(b, indices_or_sections=3, axis=-1)
    z = _core.sigmoid(az + bz)
    n = _core.tanh(an + _core.sigmoid(ar + br) * bn)
    return (n + z * (state[0] - n),)


_STEPS: dict[Any, Callable[..., State]] = {RNN: _rnn_step, LSTM: _lstm_step, GRU: _gru_step}


def _direction(
    module: Any, x: Tensor, sizes: list[int], state: State, suffix: str, backwards: bool
) -> tuple[Tensor, State]:
    """The outputs [T, B, H] of a layer in one direction, and the states after each sequence's last step."""
    weight, recurrent = getattr(module, f"weight_ih_{suffix}"), getattr(module, f"weight_hh_{suffix}")
    bias, other = (getattr(module, f"bias_{kind}_{suffix}", None) if module.bias else None for kind in ("ih", "hh"))
    step = next(function for kind, function in _STEPS.items() if isinstance(module, kind))
    inputs = _core.linear(x, weight, bias)
    outputs: list[Any] = [None] * len(sizes)
    count = state[0].shape[0]
    for at in reversed(range(len(sizes))) if backwards else range(len(sizes)):
        size = sizes[at]
        now = tuple(part[:size] for part in state)
        after = step(module, inputs[at, :size], _core.linear(now[0], recurrent, other), now)
        state = tuple(
            new if size == count else _core.concat([new, old[size:]], 0) for new, old in zip(after, state, strict=True)
        )
        row = after[0]
        outputs[at] = row if size == count else _core.pad(row, [(0, count - size), (0, 0)])
    return _core.stack(outputs, 0), state


def _initial(module: Any, packed: PackedSequence, hx: Any, count: int) -> State:
    """The states [layers · directions, B, H] in the order of the sequences' lengths."""
    parts = 2 if isinstance(module, LSTM) else 1
    layers = module.num_layers * (2 if module.bidirectional else 1)
    if hx is None:
        shape = (layers, count, module.hidden_size)
        zeros = _core.zeros(shape, dtype=packed.data.dtype, device=packed.data.device)
        return (zeros,) * parts
    given = tuple(hx) if parts == 2 else (hx,)
    for part in given:
        if part.shape != (layers, count, module.hidden_size):
            raise ValueError(f"[{type(module).__name__}] the state has shape {part.shape}")
    if packed.sorted_indices is None:
        return given
    return tuple(_core.take(part, packed.sorted_indices, axis=1) for part in given)


def _forward(module: Any, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
    if packed.data.ndim != 2 or packed.data.shape[1] != module.input_size:
        raise ValueError(
            f"[{type(module).__name__}] packed data {packed.data.shape}: [N, {module.input_size}] is wanted"
        )
    if getattr(module, "proj_size", 0):
        raise ValueError("[LSTM] proj_size is not supported for packed sequences")
    lengths = lengths_of(packed)
    sizes = sizes_of(lengths)
    x, first = padded_steps(packed), _initial(module, packed, hx, len(lengths))
    directions = 2 if module.bidirectional else 1
    last: list[State] = []
    for layer in range(module.num_layers):
        outputs = []
        for way in range(directions):
            number = layer * directions + way
            suffix = f"l{layer}" + ("_reverse" if way else "")
            y, state = _direction(module, x, sizes, tuple(part[number] for part in first), suffix, bool(way))
            outputs.append(y)
            last.append(state)
        x = outputs[0] if directions == 1 else _core.concat(outputs, -1)
        if module.dropout and module.training and layer + 1 < module.num_layers:
            x = _core._dropout(x, module.dropout, True, False)
    data = _core.concat([x[at, :size] for at, size in enumerate(sizes)], 0)
    states = tuple(_core.stack(parts, 0) for parts in zip(*last, strict=True))
    if packed.unsorted_indices is not None:
        states = tuple(_core.take(part, packed.unsorted_indices, axis=1) for part in states)
    return packed._replace(data=data), states if isinstance(module, LSTM) else states[0]


def _taking_packed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def taking(self: Any, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return _forward(self, input, hx)
        return forward(self, input) if hx is None else forward(self, input, hx)

    taking.__name__, taking.__qualname__ = "forward", forward.__qualname__
    taking.__doc__ = (forward.__doc__ or "The outputs and the last states.") + "\n\nAlso of a `PackedSequence`."
    return taking


def install() -> None:
    """Lets the recurrent layers take packed sequences."""
    for kind in _STEPS:
        kind.forward = _taking_packed(kind.forward)
