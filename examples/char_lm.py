"""Trains a small transformer to go on with a text, character by character, and writes some text with it.

python examples/char_lm.py TEXT_FILE [--steps 500] [--length 300]
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import gabbro as gb
from gabbro import nn

CONTEXT = 64


class CharacterModel(nn.Module):
    """What comes next after each character: [B, T] numbers of characters to [B, T, V]."""

    def __init__(self, characters: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width))
        self.output = nn.Linear(width, characters)

    def forward(self, ids: gb.Tensor) -> gb.Tensor:
        places = gb.arange(ids.shape[1], device=ids.device)
        x = self.characters(ids) + self.places(places)  # [B, T, C]
        return self.output(self.layers(x, is_causal=True))


def show_progress(done: int, steps: int, loss: float) -> None:
    width = 30
    bar = "#" * (width * done // steps)
    print(f"\r[{bar:<{width}}] {done}/{steps}, loss {loss:.3f}", end="", file=sys.stderr, flush=True)
    if done == steps:
        print(file=sys.stderr)


def sample(model: nn.Module, ids: list[int], length: int, rng: np.random.Generator, temperature: float) -> list[int]:
    """`ids` and `length` more, each drawn with the probability that the model gives it."""
    model.eval()
    ids = list(ids)
    with gb.no_grad():
        for _ in range(length):
            window = ids[-CONTEXT:]
            # Always of one length, so that there is one plan: what is behind the end cannot be seen from before it.
            padded = window + [0] * (CONTEXT - len(window))
            logits = model(gb.tensor([padded], dtype=gb.int32))[0, len(window) - 1]
            weights = gb.softmax(logits / temperature).numpy().astype(np.float64)
            ids.append(int(rng.choice(len(weights), p=weights / weights.sum())))
    model.train()
    return ids


def train(text: str, steps: int, length: int, batch: int = 16, seed: int = 0) -> tuple[float, str]:
    """The mean loss of the last steps, in nats a character, and a text that the model wrote."""
    gb.seed(seed)
    rng = np.random.default_rng(seed)
    alphabet = sorted(set(text))
    number = {character: i for i, character in enumerate(alphabet)}
    ids = np.array([number[character] for character in text], np.int32)
    if len(ids) <= CONTEXT:
        raise SystemExit(f"the text has {len(ids)} characters: more than {CONTEXT} are wanted")
    model = CharacterModel(len(alphabet))
    optimizer = gb.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = gb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=3e-4)
    losses = []
    for step in range(steps):
        starts = rng.integers(0, len(ids) - CONTEXT, batch)
        windows = np.stack([ids[start : start + CONTEXT + 1] for start in starts])  # [B, T + 1]
        logits = model(gb.tensor(windows[:, :-1]))
        loss = nn.functional.cross_entropy(
            logits.reshape(-1, len(alphabet)), gb.tensor(windows[:, 1:].reshape(-1).copy())
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        losses.append(loss.item())
        show_progress(step + 1, steps, losses[-1])
    written = sample(model, list(ids[:8]), length, rng, temperature=0.8)
    return float(np.mean(losses[-10:])), "".join(alphabet[i] for i in written)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--length", type=int, default=300)
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8") as file:
        final_loss, written = train(file.read(), arguments.steps, arguments.length)
    print(f"{final_loss / math.log(2):.2f} bits a character\n{written}")
