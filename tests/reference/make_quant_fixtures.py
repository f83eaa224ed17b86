#!/usr/bin/env python3
"""Fixtures of the block formats, from gguf-py (pip install gguf) and ggml's own quantizers.

usage: make_quant_fixtures.py [LIBGGML_BASE.SO]

For every format, in tests/data/formats/quant/: NAME.blocks (raw blocks: some of random bits, some with scales like a
model's) and NAME.f32 (what gguf.quants.dequantize makes of them). For the formats that we quantize: NAME.encoded, the
blocks that ggml makes of values.f32. Without the library, only the formats of RANDOM are written.
"""
import ctypes
import pathlib
import sys

import gguf
import numpy as np

FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
ENCODED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
# Formats with blocks of random bits alone, and where a block's f16 scale is; None: any scale is like a model's.
RANDOM = {"Q1_0": 0, "Q2_0": 0, "TQ1_0": 52, "TQ2_0": 64, "IQ1_S": 0, "IQ1_M": None, "IQ2_XXS": 0, "IQ2_XS": 0, "IQ2_S": 0,
          "IQ3_XXS": 0, "IQ3_S": 0, "MXFP4": None, "NVFP4": None}
SIZES = {"Q1_0": (128, 18), "Q2_0": (64, 18)}  # formats that gguf-py does not read
# Formats of safetensors folders alone (include/gabbro/quant_traits.h): elements and bytes of a block.
PUBLISHED = {"INT4_ZP": (32, 20), "INT8_F32": (32, 36), "FP8_E4M3": (32, 36), "NF4": (64, 36)}
# create_normal_map() of bitsandbytes.
NF4_LEVELS = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                       0.7229568362236023, 1.0], np.float32)
FOLDER = pathlib.Path(__file__).parent.parent / "data" / "formats" / "quant"


def quantize(library, name, values):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    out = np.zeros(values.size // elements * size, np.uint8)
    function = getattr(library, "quantize_row_%s_ref" % (name.lower().replace("_k", "_K")))
    function(values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values.size))
    return out


def rows_of_every_kind(random):
    rows = [random.normal(0, scale, 32) for scale in (1e-7, 1e-3, 0.02, 1, 300)]
    rows += [np.zeros(32), np.full(32, 0.75), np.full(32, -3.0), np.arange(32) - 16.0, np.arange(32) / 8]
    spike = np.zeros(32)
    spike[17] = -2.5
    rows += [spike, random.uniform(0, 1, 32), random.uniform(-1, 0, 32), random.laplace(0, 0.05, 32)]
    return np.concatenate(rows).astype(np.float32)


def dequantize(blocks, name):
    """Of blocks [N, bytes]."""
    if name not in SIZES:
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32)
    # ggml-quants.c, dequantize_row_q1_0 and dequantize_row_q2_0: f16 d, then codes from the lowest bits up.
    bits = 1 if name == "Q1_0" else 2
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    codes = (blocks[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & (2**bits - 1)
    levels = codes.reshape(len(blocks), -1).astype(np.float32)
    return scale * (2 * levels - 1 if bits == 1 else levels - 1)


def e4m3_values():
    """Values of all codes (OCP 8-bit Floating Point Specification), with NaN codes as further numbers."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0**(exponent - 10))
    return np.where(codes < 128, size, -size).astype(np.float32)


def make_published(name, count):
    random = np.random.default_rng([20261126, *name.encode()])
    elements, size = PUBLISHED[name]
    blocks = random.integers(0, 256, (count // elements, size), dtype=np.uint8)
    scales = random.uniform(-0.01, 0.01, len(blocks))
    if name == "INT4_ZP":
        points = random.integers(0, 17, len(blocks)).astype(np.float32)
        blocks[:, :2] = scales.astype(np.float16)[:, None].view(np.uint8)
        blocks[:, 2:4] = (-points).astype(np.float16)[:, None].view(np.uint8)
        codes = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
        values = scales.astype(np.float16).astype(np.float32)[:, None] * (codes.astype(np.float32) - points[:, None])
    else:
        blocks[:, :4] = scales.astype(np.float32)[:, None].view(np.uint8)
        codes = blocks[:, 4:]
        if name == "NF4":
            levels = NF4_LEVELS[np.concatenate([codes & 15, codes >> 4], axis=1)]
        else:
            levels = codes.view(np.int8).astype(np.float32) if name == "INT8_F32" else e4m3_values()[codes]
        values = scales.astype(np.float32)[:, None] * levels
    blocks.tofile(FOLDER / f"{name.lower()}.blocks")
    values.astype(np.float32).tofile(FOLDER / f"{name.lower()}.f32")


def make_random(name, scale_at, count):
    random = np.random.default_rng([20261125, *name.encode()])
    elements, size = SIZES.get(name) or gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (count // elements, size), dtype=np.uint8)
    if name == "IQ1_M":  # f16 scales in the top nibbles of four words: no infinity
        blocks[:, 55] &= 0xbf
    elif scale_at is not None:
        some = blocks[len(blocks) // 3:]
        scales = (random.uniform(-0.01, 0.01, len(some))).astype(np.float16)
        some[:, scale_at:scale_at + 2] = scales[:, None].view(np.uint8)
    blocks.tofile(FOLDER / f"{name.lower()}.blocks")
    with np.errstate(all="ignore"):
        dequantize(blocks, name).tofile(FOLDER / f"{name.lower()}.f32")


def main():
    for name, scale_at in RANDOM.items():
        make_random(name, scale_at, 1536)
    for name in PUBLISHED:
        make_published(name, 1536)
    if len(sys.argv) < 2:
        return
    library = ctypes.CDLL(sys.argv[1])
    random = np.random.default_rng(20261121)
    FOLDER.mkdir(parents=True, exist_ok=True)
    weights = random.laplace(0, 0.03, 1024).astype(np.float32)
    values = rows_of_every_kind(random)
    values.tofile(FOLDER / "values.f32")
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 4 if elements == 256 else 24
        noise = random.integers(0, 256, count * size, dtype=np.uint8)
        real = quantize(library, name, weights)
        blocks = np.concatenate([noise, real]).reshape(-1, size)
        blocks.tofile(FOLDER / f"{name.lower()}.blocks")
        with np.errstate(all="ignore"):
            gguf.quants.dequantize(blocks, kind).astype(np.float32).tofile(FOLDER / f"{name.lower()}.f32")
    for name in ENCODED:
        quantize(library, name, values).tofile(FOLDER / f"{name.lower()}.encoded")


main()
