"""Trains a small convolutional network on the handwritten digits that come with scikit-learn: 10 classes.

    python examples/digits.py [--epochs 12]

It prints the loss and the accuracy on digits that it was not trained with.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits

import gabbro as gb
from gabbro import nn

TEST_SHARE = 5  # one in five


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images: gb.Tensor) -> gb.Tensor:
        x = self.features(images)  # [N, 32, 4, 4]
        return self.classifier(x.reshape(x.shape[0], -1))  # [N, 10]


def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images [N, 1, 8, 8] from 0 to 1 and their classes: for training, and for the test."""
    data = load_digits()
    images = (data.images[:, None] / 16).astype(np.float32)
    order = rng.permutation(len(images))
    images, classes = images[order], data.target[order].astype(np.int32)
    count = len(images) // TEST_SHARE
    return images[count:], classes[count:], images[:count], classes[:count]


def accuracy(model: nn.Module, images: np.ndarray, classes: np.ndarray) -> float:
    model.eval()
    with gb.no_grad():
        said = model(gb.tensor(images)).argmax(-1)
    model.train()
    return float((said.numpy() == classes).mean())


def train(epochs: int, batch: int = 60, seed: int = 0) -> float:
    """The accuracy on the test's digits, from 0 to 1."""
    gb.seed(seed)
    rng = np.random.default_rng(seed)
    images, classes, test_images, test_classes = digits(rng)
    model = Net()
    optimizer = gb.optim.AdamW(model.parameters(), lr=3e-3)
    steps = len(images) // batch
    scheduler = gb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * steps)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        order = rng.permutation(len(images))
        for i in range(steps):
            chosen = order[i * batch : (i + 1) * batch]
            loss = loss_function(model(gb.tensor(images[chosen])), gb.tensor(classes[chosen]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            total += loss.item()
        share = accuracy(model, test_images, test_classes)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1:2}: loss {total / steps:.4f}, test accuracy {share:.2%}, {seconds:.1f} s")
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    print(f"test accuracy {train(parser.parse_args().epochs):.2%}")
