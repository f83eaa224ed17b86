#!/usr/bin/env python3
"""Writes tests/data/llm/text_rotations.safetensors: logits of models whose rotation goes by the length of a text.

Models of tests/data/families with another field in config.json: `dynamic` is llama with dynamic NTK, `longrope` phi3 with
LongRoPE; both rotate otherwise beyond BORDER tokens. For each `.ids` i32 [T], `.short` and `.long` f32 [tokens, V], the
logits of one forward pass over BORDER and over T tokens, and `.grown` f32 [T - FIRST, V]: the last ones of a pass over
FIRST + 1, FIRST + 2 ... T tokens. Keys and values are f32. Needs torch and transformers.
Usage: make_text_rotation_fixtures.py
"""
import json
import pathlib
import tempfile

import torch
import transformers
from safetensors.torch import save_file

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
BORDER, FIRST, TOKENS = 24, 20, 40
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [1.5, 2.5, 4.0, 7.0], "original_max_position_embeddings": BORDER}
CHANGES = {
    "dynamic": ("llama", dict(max_position_embeddings=BORDER,
                              rope_parameters={"rope_type": "dynamic", "rope_theta": 5000.0, "factor": 2.0})),
    "longrope": ("phi3", dict(max_position_embeddings=256, original_max_position_embeddings=BORDER,
                              rope_parameters=LONGROPE)),
}


def load(family, changes):
    """A new model each time: transformers keeps the longest length that dynamic NTK has seen."""
    folder = DATA / "families" / family
    config = json.loads((folder / "config.json").read_text()) | changes
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name)
        (copy / "config.json").write_text(json.dumps(config))
        (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        return transformers.AutoModelForCausalLM.from_pretrained(copy, dtype=torch.float32,
                                                                 attn_implementation="eager").eval()


@torch.no_grad()
def main():
    tensors = {}
    for name, (family, changes) in CHANGES.items():
        ids = torch.randint(3, 96, (1, TOKENS), generator=torch.Generator().manual_seed(7))

        def logits(count):
            return load(family, changes)(ids[:, :count], use_cache=False).logits[0]
        tensors |= {f"{name}.ids": ids[0].to(torch.int32), f"{name}.short": logits(BORDER), f"{name}.long": logits(TOKENS),
                    f"{name}.grown": torch.stack([logits(n)[-1] for n in range(FIRST + 1, TOKENS + 1)])}
    save_file({key: value.contiguous() for key, value in tensors.items()}, DATA / "llm" / "text_rotations.safetensors")


if __name__ == "__main__":
    main()
