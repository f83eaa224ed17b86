#!/usr/bin/env python3
"""Writes tests/data/llm/logits.json: what transformers computes in float32 for tiny models of the llama family.

The weights come from a formula that tests/llm/tiny_model.cc shares, so no weights are stored. Needs torch and
transformers. Usage: make_llm_fixtures.py [output file]
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from transformers import GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM

C, H, G, D, F, V, L, CONTEXT = 64, 2, 1, 32, 96, 300, 2, 256
IDS = [(7 * i + 3) % V for i in range(12)]


def weight(name, shape):
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    i = np.arange(1, math.prod(shape) + 1, dtype=np.uint32)
    x = i * np.uint32(2654435761) + np.uint32(seed)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    value = ((x % np.uint32(257)).astype(np.float32) - 128) / 512
    if "norm" in name:
        value += 1
    if name in ("token_embd.weight", "output.weight"):
        value *= 4
    return value.reshape(shape)


def rotate_half_order(x, heads):
    """Rows in the order of GGUF files, where pairs are neighbors, into that of transformers."""
    return x.reshape(heads, D // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


def load(model, tied, bias):
    def tensor(name, *shape):
        return torch.from_numpy(weight(name, shape).copy())

    state = {"model.embed_tokens.weight": tensor("token_embd.weight", V, C),
             "model.norm.weight": tensor("output_norm.weight", C)}
    state["lm_head.weight"] = state["model.embed_tokens.weight"] if tied else tensor("output.weight", V, C)
    for i in range(L):
        theirs, ours = f"model.layers.{i}.", f"blk.{i}."
        state[theirs + "input_layernorm.weight"] = tensor(ours + "attn_norm.weight", C)
        state[theirs + "post_attention_layernorm.weight"] = tensor(ours + "ffn_norm.weight", C)
        for their, our, rows, columns, heads in [
            ("self_attn.q_proj", "attn_q", H * D, C, H), ("self_attn.k_proj", "attn_k", G * D, C, G),
            ("self_attn.v_proj", "attn_v", G * D, C, 0), ("self_attn.o_proj", "attn_output", C, H * D, 0),
            ("mlp.gate_proj", "ffn_gate", F, C, 0), ("mlp.up_proj", "ffn_up", F, C, 0),
            ("mlp.down_proj", "ffn_down", C, F, 0),
        ]:
            parts = [("weight", (rows, columns))]
            if bias:
                parts.append(("bias", (rows,)))
            for part, shape in parts:
                value = weight(f"{ours}{our}.{part}", shape)
                state[f"{theirs}{their}.{part}"] = torch.from_numpy((rotate_half_order(value, heads) if heads else value).copy())
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("rotary" in m for m in missing), (missing, unexpected)


def config_of(model):
    """config.json, without what says how transformers computes it."""
    kept = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rms_norm_eps", "hidden_act",
            "tie_word_embeddings", "attention_bias", "mlp_bias", "rope_parameters", "embedding_multiplier", "attention_multiplier",
            "residual_multiplier", "logits_scaling")
    config = model.config.to_dict()
    return {key: config[key] for key in kept if key in config}


def main():
    cases = []

    def case(name, ours, rope=None, tied=True, bias=False, granite=None, factors=()):
        settings = dict(hidden_size=C, intermediate_size=F, num_hidden_layers=L, num_attention_heads=H,
                        num_key_value_heads=G, head_dim=D, vocab_size=V, max_position_embeddings=CONTEXT,
                        rms_norm_eps=1e-5, tie_word_embeddings=tied, attention_bias=bias, mlp_bias=bias,
                        rope_parameters=rope or {"rope_type": "default", "rope_theta": 10000.0},
                        attn_implementation="eager")
        model = GraniteForCausalLM(GraniteConfig(**settings, **granite)) if granite else LlamaForCausalLM(
            LlamaConfig(**settings))
        load(model.float().eval(), tied, bias)
        with torch.no_grad():
            logits = model(torch.tensor([IDS])).logits[0]
        cases.append({"name": name, "architecture": "granite" if granite else "llama", "fields": ours, "tied": tied,
                      "bias": bias, "factors": list(factors), "config": config_of(model),
                      "ids": IDS, "positions": [0, 5, 11],
                      "logits": [[float(f"{v:.7g}") for v in logits[p].tolist()] for p in (0, 5, 11)]})

    case("tied", {})
    case("untied head", {}, tied=False)
    case("biases", {}, bias=True)
    case("base of a million", {"rope.freq_base": 1e6}, {"rope_type": "default", "rope_theta": 1e6})
    case("linear", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
         {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})
    case("yarn", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                  "rope.scaling.original_context_length": 64},
         {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64})
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    config = LlamaConfig(hidden_size=C, num_attention_heads=H, head_dim=D, rope_parameters=llama3)
    inverse, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    factors = [10000.0 ** (-2 * i / D) / v for i, v in enumerate(inverse.tolist())]
    case("llama 3", {}, llama3, factors=factors)
    case("granite", {"embedding_scale": 12.0, "attention.scale": 0.0625, "residual_scale": 0.25, "logit_scale": 8.0},
         granite=dict(embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.25,
                      logits_scaling=8.0))
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parent.parent / "data" / "llm" / "logits.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]\n")


main()
