#!/usr/bin/env python3
"""Writes tests/data/llm/family_logits_f32.safetensors: logits of the models of tests/data/families, all in float32.

The logits next to the models (make_family_fixtures.py) are of keys and values in f16; these are of none rounded. A
tensor for each family, f32 [rows, V], of the tokens `rows`. `flip.ids` i32 [T] are tokens of mixtral at which keys and
values in f16 change a router's choice of an expert, and `flip.logits` f32 [T, V]. Needs torch and transformers.
Usage: make_kv_type_fixtures.py
"""
import pathlib

import torch
import transformers
from make_family_fixtures import HalfCache
from safetensors.torch import load_file, save_file

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
ROWS = [0, 9, 19, 21, 23, 25, 26, 27]


def load(folder):
    # Falcon's own attention adds linear biases twice, to the scores and to the mask.
    attention = "sdpa" if folder.name == "falcon_rw" else "eager"
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation=attention).eval()


def logits_of(folder):
    ids = load_file(folder / "expected.safetensors")["ids"].long()[None]
    return load(folder)(ids).logits[0, ROWS].float()


def flipped_expert():
    """The first random tokens whose logits in f16 and f32 are not of the same experts."""
    model = load(DATA / "families" / "mixtral")
    for seed in range(1000):
        ids = torch.randint(3, 96, (16, 40), generator=torch.Generator().manual_seed(seed))
        exact = model(ids).logits
        error = (model(ids, past_key_values=HalfCache(config=model.config)).logits - exact).norm(dim=-1)
        worst = (error / exact.norm(dim=-1)).amax(dim=-1)
        if worst.max() > 0.1:
            row = worst.argmax()
            return {"flip.ids": ids[row].to(torch.int32), "flip.logits": exact[row].clone()}
    raise SystemExit("no flip was found")


@torch.no_grad()
def main():
    tensors = {"rows": torch.tensor(ROWS, dtype=torch.int32)}
    for folder in sorted((DATA / "families").iterdir()):
        tensors[folder.name] = logits_of(folder).contiguous()
    tensors |= flipped_expert()
    save_file(tensors, DATA / "llm" / "family_logits_f32.safetensors")
    print(f"{len(tensors) - 3} families")


if __name__ == "__main__":
    main()
