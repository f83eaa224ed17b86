#!/usr/bin/env python3
"""Writes tests/data/nn/rope.json: inverse frequencies of transformers' ROPE_INIT_FUNCTIONS.

Needs torch and transformers. Usage: make_rope_fixtures.py [output file]
"""
import json
import math
import pathlib
import sys

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


def config(dim, theta, scaling, context):
    return LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim, max_position_embeddings=context,
                       rope_parameters={"rope_theta": theta, **scaling})


def llama3_factors(dim, theta, s):
    """The divisors that converters write as rope_freqs.weight (Llama 3.1's rule)."""
    old = s["original_max_position_embeddings"]
    low, high = old / s["low_freq_factor"], old / s["high_freq_factor"]
    factors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * theta ** (i / dim)
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(s["factor"])
        else:
            smooth = (old / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / s["factor"] + smooth))
    return factors


def main():
    cases = []

    def case(dim, theta, context, ours, factors=(), **scaling):
        if scaling["rope_type"] == "default":
            inverse, magnitude = [theta ** (-i / dim) for i in range(0, dim, 2)], 1.0
        else:
            init = ROPE_INIT_FUNCTIONS[scaling["rope_type"]]
            inverse, magnitude = init(config(dim, theta, scaling, context), "cpu", seq_len=ours.get("length"))
            inverse = inverse.tolist()
        cases.append({"dimensions": dim, "base": theta, "factors": list(factors), **ours, "inverse": inverse,
                      "magnitude": magnitude})

    case(64, 10000.0, 2048, {"scaling": "none"}, rope_type="default")
    case(128, 500000.0, 2048, {"scaling": "none"}, rope_type="default")
    case(64, 10000.0, 8192, {"scaling": "linear", "factor": 4.0}, rope_type="linear", factor=4.0)
    for dim, theta, factor, old in [(64, 10000.0, 4.0, 2048), (128, 1000000.0, 4.0, 32768), (32, 10000.0, 16.0, 4096)]:
        case(dim, theta, int(factor * old), {"scaling": "yarn", "factor": factor, "original_context": old},
             rope_type="yarn", factor=factor, original_max_position_embeddings=old)
    case(64, 10000.0, 8192,
         {"scaling": "yarn", "factor": 4.0, "original_context": 2048, "beta_fast": 16.0, "beta_slow": 2.0},
         rope_type="yarn", factor=4.0, original_max_position_embeddings=2048, beta_fast=16.0, beta_slow=2.0)
    llama3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    for dim in [64, 128]:
        case(dim, 500000.0, 131072, {"scaling": "none"}, llama3_factors(dim, 500000.0, llama3), rope_type="llama3",
             **llama3)
    for length in [1000, 2048, 2049, 6000]:  # of a text
        case(64, 10000.0, 2048, {"scaling": "dynamic", "factor": 2.0, "original_context": 2048, "length": length},
             rope_type="dynamic", factor=2.0)
    short, long = [1 + 0.05 * i for i in range(16)], [1.5 + 0.7 * i for i in range(16)]
    for context, used in [(16384, long)]:
        # Converters write this as rope.scaling.attn_factor for LongRoPE.
        attention = math.sqrt(1 + math.log(context / 4096) / math.log(4096))
        case(32, 10000.0, context,
             {"scaling": "longrope", "factor": 4.0, "original_context": 4096, "attention_factor": attention}, used,
             rope_type="longrope", short_factor=short, long_factor=long, factor=context / 4096,
             original_max_position_embeddings=4096)
        inverse, _ = ROPE_INIT_FUNCTIONS["longrope"](
            config(32, 10000.0, dict(rope_type="longrope", short_factor=short, long_factor=long, factor=context / 4096,
                                     original_max_position_embeddings=4096), context), "cpu", seq_len=context)
        cases[-1]["inverse"] = inverse.tolist()  # of a sequence that is longer than the original context
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parent.parent / "data" / "nn" / "rope.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("[" + ",\n".join(json.dumps(c) for c in cases) + "]\n")


main()
