"""Fine-tunes a language model in a folder of safetensors with adapters of low rank (LoRA: Hu et al. 2021).

    python examples/lora.py FOLDER TEXT_FILE [--steps 40]

FOLDER holds model.safetensors of a Llama-like model and config.json, as Hugging Face has them. Tokens are bytes here.
The adapters of the attention are trained, and saved as adapters.safetensors.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import gabbro as torch
from gabbro import nn
from gabbro.nn import functional as F


class LoRA(nn.Module):
    """A frozen matrix W and a trained product of low rank: x W' + scale · x A' B'."""

    def __init__(self, weight: torch.Tensor, rank: int, scale: float = 2.0) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.a = nn.Parameter(torch.randn(rank, weight.shape[1]) / math.sqrt(weight.shape[1]))
        self.b = nn.Parameter(torch.zeros(weight.shape[0], rank))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.a), self.b)


class Block(nn.Module):
    """Attention with adapters and a gated MLP without."""

    def __init__(self, weights: dict[str, torch.Tensor], prefix: str, config: dict, rank: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.eps, self.theta = config["rms_norm_eps"], config.get("rope_theta", 10000.0)
        for name in ("q", "k", "v", "o"):
            setattr(self, name, LoRA(weights[f"{prefix}self_attn.{name}_proj.weight"], rank))
        frozen = {name: f"mlp.{name}_proj" for name in ("gate", "up", "down")}
        for name, key in {**frozen, "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}.items():
            self.register_buffer(name, weights[f"{prefix}{key}.weight"], persistent=False)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        half = x.size(-1) // 2
        angles = torch.outer(torch.arange(x.size(-2)).float(), self.theta ** (-torch.arange(half).float() / half))
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = F.rms_norm(x, (width,), self.norm1, self.eps)
        counts = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        q, k, v = (getattr(self, n)(y).view(batch, length, count, -1).transpose(1, 2) for n, count in counts.items())
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, -1))
        y = F.rms_norm(x, (width,), self.norm2, self.eps)
        return x + F.linear(F.silu(F.linear(y, self.gate)) * F.linear(y, self.up), self.down)


class Model(nn.Module):
    """The model of the folder, with adapters."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        weights = {k: v.float() for k, v in torch.load_state(str(folder / "model.safetensors")).items()}
        self.eps = config["rms_norm_eps"]
        self.register_buffer("embedding", weights["model.embed_tokens.weight"], persistent=False)
        self.register_buffer("norm", weights["model.norm.weight"], persistent=False)
        self.register_buffer("head", weights.get("lm_head.weight", self.embedding), persistent=False)
        layers = range(config["num_hidden_layers"])
        self.blocks = nn.Sequential(*(Block(weights, f"model.layers.{i}.", config, rank) for i in layers))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.embedding(ids, self.embedding))
        return F.linear(F.rms_norm(x, (x.size(-1),), self.norm, self.eps), self.head)  # [N, T, V]


def tune(
    folder: Path, text: bytes, steps: int, rank: int = 4, length: int = 32, seed: int = 0
) -> tuple[Model, list[float]]:
    """The model with trained adapters, and the loss of each step."""
    torch.manual_seed(seed)
    model, ids = Model(folder, rank), torch.tensor(list(text))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        starts = torch.randint(0, len(ids) - length, (8,))
        batch = ids[starts[:, None] + torch.arange(length + 1)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    tuned, history = tune(options.folder, options.text.read_bytes(), options.steps)
    print(f"loss {history[0]:.3f} to {history[-1]:.3f}")
    torch.save_state("adapters.safetensors", tuned)
