"""A character model of two transformer blocks, with tied weights and generation."""

import math

import gabbro as torch
import gabbro.nn.functional as F
from gabbro import nn

from torch_programs.weights import fill

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
T = 16


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.h = h
        self.register_buffer("mask", torch.tril(torch.ones(T, T)).view(1, 1, T, T), persistent=False)

    def forward(self, x):
        B, L, D = x.size()
        q, k, v = self.qkv(self.ln1(x)).split(D, dim=2)
        q, k, v = (y.view(B, L, self.h, D // self.h).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :L, :L] == 0, float("-inf"))
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(B, L, D)
        x = x + self.proj(y)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab, d=24, h=3, n=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(1, T, d))
        self.blocks = nn.ModuleList([Block(d, h) for _ in range(n)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos[:, : idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx[:, -T:])
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits[:, -1, :], dim=-1), num_samples=1)), dim=1)
        return idx


def losses(steps=10):
    torch.manual_seed(1)
    stoi = {c: i for i, c in enumerate(sorted(set(TEXT)))}
    data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)
    model = GPT(len(stoi))
    fill(torch, model)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), fused=False)
    found = []
    for step in range(steps):
        starts = [(step * 37 + 11 * n) % (len(data) - T - 1) for n in range(8)]
        x = torch.stack([data[i : i + T] for i in starts])
        y = torch.stack([data[i + 1 : i + 1 + T] for i in starts])
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    model.eval()
    assert model.generate(torch.tensor([[stoi["t"]]]), 5).shape == (1, 6)
    return found


if __name__ == "__main__":
    print(losses(100)[-10:])
