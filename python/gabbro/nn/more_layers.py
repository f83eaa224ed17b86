"""Layers that are made of functions: pools, instance norms, cells, the whole transformer."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Module, Parameter, Tensor, TransformerDecoderLayer, TransformerEncoderLayer
from . import functional, init
from .containers import TransformerDecoder, TransformerEncoder


class _AdaptivePool(Module):
    _function: Any

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The pooled tensor."""
        result: Tensor = type(self)._function(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """`functional.adaptive_avg_pool1d`."""

    _function = staticmethod(functional.adaptive_avg_pool1d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """`functional.adaptive_avg_pool3d`."""

    _function = staticmethod(functional.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The pooled tensor; with `return_indices` also the positions."""
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """`functional.adaptive_max_pool1d`."""

    _function = staticmethod(functional.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """`functional.adaptive_max_pool2d`."""

    _function = staticmethod(functional.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """`functional.adaptive_max_pool3d`."""

    _function = staticmethod(functional.adaptive_max_pool3d)


class _InstanceNorm(Module):
    _axes = 1
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(_core.ones(num_features, **options)) if affine else None
        self.bias = Parameter(_core.zeros(num_features, **options)) if affine else None
        if track_running_stats:
            self.register_buffer("running_mean", _core.zeros(num_features, **options))
            self.register_buffer("running_var", _core.ones(num_features, **options))
            self.register_buffer("num_batches_tracked", _core.zeros((), dtype=_core.int64, device=device))
        else:
            self.running_mean = self.running_var = None

    def forward(self, input: Tensor) -> Tensor:
        """The normalized tensor."""
        if input.ndim not in (self._axes + 1, self._axes + 2):
            raise ValueError(f"[{type(self).__name__}] of {self._axes + 2} axes, not of shape {input.shape}")
        batch = input if input.ndim == self._axes + 2 else _core.expand_dims(input, 0)
        y = functional.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum,
            self.eps,
        )
        return y if batch is input else y[0]

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each item with mean 0 and variance 1: [N, C, L]."""


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each item with mean 0 and variance 1: [N, C, H, W]."""

    _axes = 2


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each item with mean 0 and variance 1: [N, C, D, H, W]."""

    _axes = 3


class _Cell(Module):
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(self, input_size: int, hidden_size: int, bias: bool, chunks: int, device: Any, dtype: Any) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(_core.zeros((chunks * hidden_size, input_size), **options))
        self.weight_hh = Parameter(_core.zeros((chunks * hidden_size, hidden_size), **options))
        self.bias_ih = Parameter(_core.zeros(chunks * hidden_size, **options)) if bias else None
        self.bias_hh = Parameter(_core.zeros(chunks * hidden_size, **options)) if bias else None
        bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _gates(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return _core.linear(x, self.weight_ih, self.bias_ih), _core.linear(h, self.weight_hh, self.bias_hh)

    def _state(self, x: Tensor) -> Tensor:
        return _core.zeros((*x.shape[:-1], self.hidden_size), dtype=x.dtype, device=x.device)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """A step of `RNN`: [N, input_size] and [N, hidden_size] to [N, hidden_size]."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"[RNNCell] nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        a, b = self._gates(input, self._state(input) if hx is None else hx)
        return (_core.tanh if self.nonlinearity == "tanh" else _core.relu)(a + b)


class LSTMCell(_Cell):
    """A step of `LSTM`: [N, input_size] and two states [N, hidden_size] to the next two."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next states, h and c."""
        h, c = (self._state(input), self._state(input)) if hx is None else hx
        a, b = self._gates(input, h)
        i, f, g, o = _core.split(a + b, indices_or_sections=4, axis=-1)
        c = _core.sigmoid(f) * c + _core.sigmoid(i) * _core.tanh(g)
        return _core.sigmoid(o) * _core.tanh(c), c


class GRUCell(_Cell):
    """A step of `GRU`: [N, input_size] and [N, hidden_size] to [N, hidden_size]."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        h = self._state(input) if hx is None else hx
        a, b = self._gates(input, h)
        ar, az, an = _core.split(a, indices_or_sections=3, axis=-1)
        br, bz, bn = _core.split(b, indices_or_sections=3, axis=-1)
        z = _core.sigmoid(az + bz)
        n = _core.tanh(an + _core.sigmoid(ar + br) * bn)
        return n + z * (h - n)


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a trained table: integers [B, N] to [B, embedding_dim]."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise ValueError("[EmbeddingBag] max_norm, scale_grad_by_freq and sparse are not supported")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.weight = Parameter(_core.zeros((num_embeddings, embedding_dim), device=device, dtype=dtype))
        init.normal_(self.weight)

    def forward(self, input: Tensor, offsets: None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """The sums, means or maxima."""
        return functional.embedding_bag(input, self.weight, offsets, self.mode, per_sample_weights=per_sample_weights)


class Transformer(Module):
    """An encoder and a decoder of transformer layers (Vaswani et al. 2017)."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"device": device} if dtype is None else {"device": device, "dtype": dtype}
        shared = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> Module:
            return _core.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*shared, **options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*shared, **options), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output, of the shape of `tgt`."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )
        return result

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Minus infinity above the diagonal, else 0: [sz, sz]."""
        full = _core.full((sz, sz), -math.inf, device=device, dtype=dtype or _core.float32)
        return _core.triu(full, 1)


def from_pretrained(
    cls: Any,
    embeddings: Tensor,
    freeze: bool = True,
    padding_idx: int | None = None,
    max_norm: None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """An Embedding with the rows of a tensor, by default without a gradient."""
    if embeddings.ndim != 2:
        raise ValueError(f"[from_pretrained] a table [V, C], not of shape {embeddings.shape}")
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise ValueError("[from_pretrained] max_norm, scale_grad_by_freq and sparse are not supported")
    made = cls(*embeddings.shape, padding_idx, device=embeddings.device, dtype=embeddings.dtype)
    made.weight = embeddings
    made.weight.requires_grad = not freeze
    return made


setattr(_core.Embedding, "from_pretrained", classmethod(from_pretrained))  # noqa: B010
