"""Every constructor argument of every layer, set after the layer was made: PyTorch's result, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .sides import Outcome, Side, fill, flat, numbers, outcome

IMAGE, LINE, VOLUME = (2, 4, 6, 5), (2, 4, 7), (1, 2, 4, 5, 4)
ROWS = (3, 4)


class Case:
    def __init__(
        self, layer: str, made_with: dict[str, Any], shapes: list[Any], settings: dict[str, list[Any]]
    ) -> None:
        self.layer = layer
        self.made_with = made_with
        self.shapes = shapes  # of inputs; "ids" are integers
        self.settings = settings  # the argument's other values


def conv(layer: str, shape: tuple[int, ...], **more: Any) -> Case:
    made = {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "padding": 1, **more}
    if len(shape) == 5:
        made |= {"in_channels": 2, "out_channels": 2}
    values = {"in_channels": [2], "out_channels": [2], "kernel_size": [1, 2], "stride": [2], "padding": [0, 2, "same"],
              "dilation": [2], "groups": [2, 4], "bias": [None],
              "padding_mode": ["reflect", "replicate", "circular"]}  # fmt: skip
    if layer.startswith("ConvTranspose"):
        values |= {"padding": [0], "output_padding": [1], "padding_mode": ["reflect"]}
    return Case(layer, made, [shape], values)


def pool(layer: str, shape: tuple[int, ...]) -> Case:
    values: dict[str, list[Any]] = {"kernel_size": [3], "stride": [1, 3, None], "padding": [1], "ceil_mode": [True]}
    if layer.startswith("Max"):
        values |= {"dilation": [2], "return_indices": [True]}
    else:
        values |= {"count_include_pad": [False]} | ({"divisor_override": [3]} if layer != "AvgPool1d" else {})
    return Case(layer, {"kernel_size": 2}, [shape], values)


def batch_norm(layer: str, shape: tuple[int, ...], **more: Any) -> Case:
    settings = {"num_features": [3], "eps": [0.5], "momentum": [0.5, 1.0, None], "affine": [False],
                "track_running_stats": [False, True]}  # fmt: skip
    return Case(layer, {"num_features": shape[1], **more}, [shape], settings)


# Recurrent layers of PyTorch then read beyond their weights; here setting these raises AttributeError.
SHAPING = {"input_size": 3, "hidden_size": 2, "num_layers": 1, "bias": False, "bidirectional": True, "proj_size": 2}


def recurrent(layer: str, **more: Any) -> Case:
    settings = {"batch_first": [True], "dropout": [1.0, 0.0], "nonlinearity": ["relu"],
                **{name: [value] for name, value in SHAPING.items()}}  # fmt: skip
    if layer != "RNN":
        settings.pop("nonlinearity")
    return Case(layer, {"input_size": 4, "hidden_size": 3, "num_layers": 2, **more}, [(3, 3, 4)], settings)


def transformer(layer: str, inputs: int) -> Case:
    made = {"d_model": 4, "nhead": 2, "dim_feedforward": 6, "dropout": 0.0}
    settings = {"d_model": [2], "nhead": [1], "dim_feedforward": [4], "dropout": [0.5], "activation": ["gelu"],
                "layer_norm_eps": [0.5], "batch_first": [True], "norm_first": [True], "bias": [False]}  # fmt: skip
    return Case(layer, made, [(3, 3, 4)] * inputs, settings)


IN_PLACE = {"inplace": [True]}
PLAIN = ("Sigmoid", "Tanh", "Softsign", "LogSigmoid", "Identity")
CASES = [
    Case("Linear", {"in_features": 4, "out_features": 3}, [ROWS],
         {"in_features": [3], "out_features": [4], "bias": [None]}),
    Case("Bilinear", {"in1_features": 4, "in2_features": 4, "out_features": 3}, [ROWS, ROWS],
         {"in1_features": [3], "in2_features": [3], "out_features": [4], "bias": [None]}),
    Case("Embedding", {"num_embeddings": 5, "embedding_dim": 3}, ["ids"],
         {"num_embeddings": [4], "embedding_dim": [2], "padding_idx": [2, -1], "max_norm": [0.5], "norm_type": [1.0],
          "scale_grad_by_freq": [True], "sparse": [True]}),
    Case("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": 1}, ["ids"],
         {"padding_idx": [None, 3]}),
    conv("Conv1d", LINE), conv("Conv2d", IMAGE), conv("Conv3d", VOLUME),
    conv("Conv2d", IMAGE, padding_mode="reflect"), conv("Conv1d", LINE, padding="same"),
    conv("Conv1d", LINE, padding="same", padding_mode="replicate"), conv("Conv2d", IMAGE, padding_mode="circular"),
    conv("ConvTranspose1d", LINE, stride=2), conv("ConvTranspose3d", VOLUME, stride=2),
    conv("ConvTranspose2d", IMAGE, stride=2),
    pool("MaxPool1d", LINE), pool("MaxPool2d", IMAGE), pool("MaxPool3d", VOLUME),
    pool("AvgPool1d", LINE), pool("AvgPool2d", IMAGE), pool("AvgPool3d", VOLUME),
    Case("AdaptiveAvgPool2d", {"output_size": 2}, [IMAGE], {"output_size": [3, (1, 2)]}),
    Case("AdaptiveAvgPool1d", {"output_size": 2}, [LINE], {"output_size": [3]}),
    Case("AdaptiveAvgPool3d", {"output_size": 2}, [VOLUME], {"output_size": [3, (1, 2, 3)]}),
    Case("AdaptiveMaxPool1d", {"output_size": 2}, [LINE], {"output_size": [3], "return_indices": [True]}),
    Case("AdaptiveMaxPool2d", {"output_size": 2}, [IMAGE], {"output_size": [3], "return_indices": [True]}),
    Case("AdaptiveMaxPool3d", {"output_size": 2}, [VOLUME], {"output_size": [3], "return_indices": [True]}),
    Case("UpsamplingNearest2d", {"size": 4}, [IMAGE], {"size": [3], "mode": ["bilinear", "bicubic"]}),
    Case("UpsamplingBilinear2d", {"scale_factor": 2}, [IMAGE], {"scale_factor": [1.5], "align_corners": [False]}),
    Case("Upsample", {"size": 3, "mode": "linear"}, [LINE], {"size": [5], "align_corners": [True], "mode": ["area"]}),
    Case("Upsample", {"size": (4, 4)}, [IMAGE],
         {"size": [(3, 3), 2, None], "scale_factor": [2.0], "mode": ["bilinear", "area", "nearest-exact"],
          "align_corners": [True], "recompute_scale_factor": [True]}),
    Case("Upsample", {"size": (4, 4), "mode": "bicubic"}, [IMAGE], {"size": [7], "align_corners": [True]}),
    Case("Upsample", {"scale_factor": 1.5, "mode": "bilinear"}, [IMAGE],
         {"size": [(3, 3)], "scale_factor": [2.0, (2.0, 1.0), None], "mode": ["nearest"],
          "align_corners": [True, False], "recompute_scale_factor": [True]}),
    batch_norm("BatchNorm1d", ROWS), batch_norm("BatchNorm2d", IMAGE), batch_norm("BatchNorm3d", VOLUME),
    batch_norm("BatchNorm1d", LINE, track_running_stats=False), batch_norm("BatchNorm1d", LINE, affine=False),
    batch_norm("BatchNorm1d", LINE, momentum=None),
    Case("LayerNorm", {"normalized_shape": 4}, [ROWS],
         {"normalized_shape": [(3, 4), (4,)], "eps": [0.5], "elementwise_affine": [False], "bias": [None]}),
    Case("LayerNorm", {"normalized_shape": 4, "elementwise_affine": False}, [ROWS],
         {"normalized_shape": [(3, 4)], "eps": [0.5], "elementwise_affine": [True]}),
    Case("RMSNorm", {"normalized_shape": 4}, [ROWS],
         {"normalized_shape": [(3, 4)], "eps": [0.5, None], "elementwise_affine": [False]}),
    Case("GroupNorm", {"num_groups": 2, "num_channels": 4}, [IMAGE],
         {"num_groups": [1, 4, 3], "num_channels": [2], "eps": [0.5], "affine": [False]}),
    Case("Dropout", {"p": 0.5}, [ROWS], {"p": [0.0, 1.0], **IN_PLACE}),
    Case("Dropout2d", {"p": 0.5}, [IMAGE], {"p": [0.0, 1.0], **IN_PLACE}),
    Case("LeakyReLU", {}, [ROWS], {"negative_slope": [0.5], **IN_PLACE}),
    Case("ELU", {}, [ROWS], {"alpha": [0.5], **IN_PLACE}),
    Case("CELU", {}, [ROWS], {"alpha": [0.5], **IN_PLACE}),
    Case("GELU", {}, [ROWS], {"approximate": ["tanh"]}),
    Case("Softplus", {}, [ROWS], {"beta": [0.5], "threshold": [0.5]}),
    Case("Hardtanh", {}, [ROWS], {"min_val": [-0.5], "max_val": [0.5], **IN_PLACE}),
    Case("Softmax", {"dim": 1}, [ROWS], {"dim": [0, None]}),
    Case("Softmax", {}, [LINE], {"dim": [0, 1, 2]}),
    Case("LogSoftmax", {"dim": 1}, [ROWS], {"dim": [0, None]}),
    Case("GLU", {}, [IMAGE[:2]], {"dim": [0]}),
    Case("PReLU", {}, [ROWS], {"num_parameters": [4], "init": [0.5]}),
    Case("Flatten", {}, [IMAGE], {"start_dim": [0, 2], "end_dim": [2]}),
    *(Case(name, {}, [ROWS], IN_PLACE) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid",
    "Hardswish")),
    *(Case(name, {}, [ROWS], {}) for name in PLAIN),
    recurrent("RNN"), recurrent("LSTM"), recurrent("GRU"), recurrent("LSTM", dropout=1.0),
    Case("MultiheadAttention", {"embed_dim": 4, "num_heads": 2}, [(3, 3, 4)] * 3,
         {"embed_dim": [8], "num_heads": [1, 4, 3], "dropout": [1.0], "bias": [False], "add_bias_kv": [True],
          "add_zero_attn": [True], "kdim": [3], "vdim": [3], "batch_first": [True]}),
    transformer("TransformerEncoderLayer", 1), transformer("TransformerDecoderLayer", 2),
    Case("MSELoss", {}, [ROWS, ROWS], {"reduction": ["sum", "none"]}),
    Case("L1Loss", {}, [ROWS, ROWS], {"reduction": ["sum", "none"]}),
    Case("SmoothL1Loss", {}, [ROWS, ROWS], {"reduction": ["sum"], "beta": [0.3]}),
    Case("HuberLoss", {}, [ROWS, ROWS], {"reduction": ["sum"], "delta": [0.3]}),
    Case("KLDivLoss", {}, [ROWS, "shares"], {"reduction": ["sum", "none", "batchmean"], "log_target": [True]}),
    Case("BCELoss", {}, ["shares", "shares"], {"reduction": ["sum", "none"], "weight": [None]}),
    Case("BCEWithLogitsLoss", {}, [ROWS, "shares"], {"reduction": ["sum", "none"]}),
    Case("NLLLoss", {}, [ROWS, "classes"], {"reduction": ["sum", "none"], "ignore_index": [1]}),
    Case("CTCLoss", {}, [(7, 2, 4), [[1, 2, 2], [3, 1, 0]], [7, 6], [3, 2]],
         {"reduction": ["sum", "none"], "blank": [3], "zero_infinity": [True]}),
    Case("CrossEntropyLoss", {}, [ROWS, "classes"],
         {"reduction": ["sum", "none"], "ignore_index": [1], "label_smoothing": [0.5]}),
]  # fmt: skip
# Not of PyTorch, or made of modules: Lion's like. Their tests are elsewhere.
OTHERS = {"Module", "Layer", "Parameter", "Sequential", "ModuleList", "ModuleDict",
          "TransformerEncoder", "TransformerDecoder"}  # fmt: skip
# Variants for another number of axes of layers that are compared, and modules that compute nothing.
UNTESTED = {
    "CircularPad1d", "CircularPad3d", "ConstantPad2d",
    "ConstantPad3d", "DataParallel", "Dropout3d", "InstanceNorm3d", "PixelUnshuffle", "ReflectionPad1d",
    "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "Transformer", "ZeroPad1d", "ZeroPad3d",
}  # fmt: skip


def inputs_of(side: Side, case: Case) -> list[Any]:
    made = []
    for number, shape in enumerate(case.shapes):
        if shape == "ids":
            made.append(side.tensor(np.array([[0, 1, 2], [4, 3, 1]], np.int64 if side.is_torch else np.int32)))
        elif shape == "classes":
            made.append(side.tensor(np.array([1, 0, 3], np.int64 if side.is_torch else np.int32)))
        elif isinstance(shape, list):  # integers
            made.append(side.tensor(np.array(shape, np.int64 if side.is_torch else np.int32)))
        elif shape == "shares":
            made.append(side.tensor(np.abs(numbers(ROWS, number + 20)) / 2.5, number == 0))
        else:
            made.append(side.tensor(numbers(shape, number), True))
    return made


def made(side: Side, case: Case) -> Any:
    layer = getattr(side.nn, case.layer)(**case.made_with)
    if hasattr(layer, "state_dict"):
        fill(side, layer)
    return layer


def results(side: Side, case: Case, layer: Any) -> Iterator[Any]:
    """In training and not: outputs, gradients by inputs and parameters, and the buffers afterward."""
    for training in (True, False):
        layer.train(training)
        inputs = inputs_of(side, case)
        output = layer(*inputs)
        arrays = flat(side, output)
        yield from arrays
        first = output[0] if isinstance(output, tuple) else output
        parameters = list(layer.parameters())
        if not first.requires_grad:
            continue
        weights = side.tensor(numbers(arrays[0].shape, 7))
        (first * weights).sum().backward()
        for tensor in (*inputs, *parameters):
            if getattr(tensor, "grad", None) is not None:
                yield side.array(tensor.grad)
                tensor.grad = None
        yield from (side.array(buffer) for buffer in layer.buffers())


def after_setting(side: Side, case: Case, name: str, value: Any) -> Outcome:
    if side.is_torch and name in SHAPING and case.layer in ("RNN", "LSTM", "GRU"):
        return {"refused": True}

    def run() -> list[Any]:
        layer = made(side, case)
        setattr(layer, name, value)
        return list(results(side, case, layer))

    return outcome(side, run)


def settings() -> Iterator[tuple[str, Case, str, Any]]:
    """(key, case, argument, value) of everything that is set."""
    for number, case in enumerate(CASES):
        for name, values in case.settings.items():
            for value in values:
                yield f"{number} {case.layer}.{name}={value!r}", case, name, value
