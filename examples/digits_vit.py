"""Trains a small vision transformer (Dosovitskiy et al. 2021) on scikit-learn's handwritten digits: 10 classes.

    python examples/digits_vit.py [--epochs 15]

It is an ordinary PyTorch program with another import. It prints the loss, and the accuracy on digits that it was not
trained with.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import gabbro as torch
from gabbro import nn
from gabbro.nn import functional as F
from gabbro.utils.data import DataLoader, TensorDataset, random_split


class VisionTransformer(nn.Module):
    """Images [N, 1, 8, 8] in patches of 2 x 2 pixels: 16 tokens and one for the class."""

    def __init__(self, width: int = 32, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width))
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # [N, 16, width]
        x = torch.cat([self.class_token.expand(x.size(0), -1, -1), x], dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])  # [N, 10]


def train(epochs: int, seed: int = 0) -> float:
    """The accuracy on the test's digits, from 0 to 1."""
    torch.manual_seed(seed)
    data = load_digits()
    images = torch.tensor(data.images[:, None].astype(np.float32)) / 16
    digits = TensorDataset(images, torch.tensor(data.target))
    training, test = random_split(digits, [len(digits) - 360, 360])
    model = VisionTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    loader = DataLoader(training, batch_size=48, shuffle=True, drop_last=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print(f"epoch {epoch + 1:2}: loss {total / len(loader):.4f}, test accuracy {accuracy(model, test):.2%}")
    return accuracy(model, test)


def accuracy(model: nn.Module, test: object) -> float:
    """The share of right answers."""
    model.eval()
    right = count = 0
    with torch.no_grad():
        for inputs, targets in DataLoader(test, batch_size=360):
            right += (model(inputs).argmax(1) == targets).sum().item()
            count += targets.numel()
    return right / count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    print(f"test accuracy {train(parser.parse_args().epochs):.2%}")
