"""Steps of a transformer's training in Gabbro and in PyTorch, and how busy a DataLoader keeps a small network.

    python bench/transformer_step.py [--device cuda] [--layers 6] [--width 512] [--batch 16] [--tokens 256] [--steps 30]
    python bench/transformer_step.py --loader [--device cuda]

The first needs PyTorch next to Gabbro. Each program runs in its own process: PyTorch as written and with
torch.compile, Gabbro as written and with gabbro.compile around loss and gradients; in f32, and under autocast in bf16.
All begin with equal weights and take equal batches; the losses of the first steps are compared. A time is the median of
five repetitions of --steps steps, with AdamW (in PyTorch fused). The last line compares Gabbro's best with torch.compile.

--loader: the time of a step whose batch is there already, as a part of the time with a DataLoader that reads rows in
worker processes, copies and shuffles them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

VOCABULARY = 8192
HEADS = 8
COMPARED = 10  # steps whose losses are compared
PROGRAMS = [("torch", "plain"), ("torch", "compiled"), ("gabbro", "plain"), ("gabbro", "compiled")]


def library(name: str) -> Any:
    if name == "torch":
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        return torch
    import gabbro

    return gabbro


def make_model(torch: Any, layers: int, width: int, tokens: int) -> Any:
    """A transformer that sees what came before: [B, T] numbers of tokens to [B, T, V]."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(tokens, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


def set_weights(torch: Any, model: Any) -> None:
    """Equal numbers in both libraries: matrices of a small spread, ones in norms, and no biases."""
    numbers = np.random.default_rng(0)
    state = {}
    for name, value in model.state_dict().items():
        shape = tuple(value.shape)
        drawn = numbers.standard_normal(shape) * 0.02 if len(shape) == 2 else np.full(shape, not name.endswith("bias"))
        state[name] = torch.from_numpy(drawn.astype(np.float32))
    model.load_state_dict(state)


class Training:
    """A model with its optimizer: step(ids, targets) gives the loss as a tensor."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.torch = torch = library(options.library)
        self.options = options
        self.model = make_model(torch, options.layers, options.width, options.tokens)
        set_weights(torch, self.model)
        self.model = self.model.to(options.device)
        more = {"fused": True} if options.library == "torch" and options.device != "cpu" else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **more)
        self.loss = self.loss_of
        self.gradients: Any = None
        if options.mode == "compiled":
            if options.library == "torch":
                self.loss = torch.compile(self.loss_of)
            else:
                self.parameters = list(self.model.parameters())
                self.gradients = torch.compile(self.loss_and_gradients)

    def loss_of(self, ids: Any, targets: Any) -> Any:
        torch, options = self.torch, self.options
        with torch.autocast(options.device.split(":")[0], dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            logits = self.model(ids)
        return torch.nn.functional.cross_entropy(logits.float().view(-1, VOCABULARY), targets.view(-1))

    def loss_and_gradients(self, ids: Any, targets: Any) -> Any:
        loss = self.loss_of(ids, targets)
        return loss, list(self.torch.autograd.grad(loss, self.parameters))

    def step(self, ids: Any, targets: Any) -> Any:
        if self.gradients is None:
            self.optimizer.zero_grad()
            loss = self.loss(ids, targets)
            loss.backward()
        else:
            loss, gradients = self.gradients(ids, targets)
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
        self.optimizer.step()
        return loss


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """{"losses": of the first steps, "ms": median of a step, "all": of each repetition}"""
    training = Training(options)
    torch, numbers = training.torch, np.random.default_rng(1)
    made = [numbers.integers(0, VOCABULARY, (options.batch, options.tokens + 1)) for _ in range(COMPARED)]
    batches = [[torch.from_numpy(x.copy()).to(options.device) for x in (rows[:, :-1], rows[:, 1:])] for rows in made]
    losses = [float(training.step(*batch)) for batch in batches]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for number in range(options.steps):
            loss = training.step(*batches[number % COMPARED])
        float(loss)
        times.append((time.perf_counter() - started) / options.steps * 1e3)
    return {"losses": losses, "ms": round(statistics.median(times), 3), "all": [round(x, 3) for x in times]}


def in_process(options: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """The last line of this program with more arguments, as JSON."""
    sizes = [f"--{name}={getattr(options, name)}" for name in ("device", "layers", "width", "batch", "tokens", "steps")]
    done = subprocess.run([sys.executable, __file__, *sizes, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def compare(options: argparse.Namespace) -> int:
    """Prints a line for each program; 1 where losses differ or one does not run, or where Gabbro is the slower one."""
    good = True
    for dtype in options.dtypes.split(","):
        found = {}
        for name, mode in PROGRAMS:
            row = in_process(options, ["--library", name, "--mode", mode, "--dtype", dtype])
            found[name, mode] = row
            text = row.get("error") or f"{row['ms']} ms a step, {row['all']}"
            print(f"{dtype} {name} {mode}: {text}", flush=True)
        times = {key: row["ms"] for key, row in found.items() if "ms" in row}
        expected = found["torch", "plain"].get("losses")
        for key, row in found.items():
            if expected and "losses" in row:
                worst = max(abs(a - b) / abs(b) for a, b in zip(row["losses"], expected, strict=True))
                print(f"{dtype} {' '.join(key)}: losses are at most {worst:.2g} from PyTorch's, of their size")
                good = good and worst < (1e-4 if dtype == "f32" else 1e-2)
        mine = [times[key] for key in times if key[0] == "gabbro"]
        good = good and len(times) == len(PROGRAMS)
        if mine and ("torch", "compiled") in times:
            ratio = times["torch", "compiled"] / min(mine)
            good = good and ratio >= 1.0
            print(f"{dtype}: Gabbro's best step {min(mine)} ms, {ratio:.3f} of torch.compile's speed", flush=True)
    return int(not good)


class Rows:
    """A data set in memory: pictures of 28 x 28 numbers of a byte, which an item makes floats of."""

    def __init__(self, count: int) -> None:
        numbers = np.random.default_rng(2)
        self.pictures = numbers.integers(0, 256, (count, 1, 28, 28), dtype=np.uint8)
        self.classes = numbers.integers(0, 10, count)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        return self.pictures[number].astype(np.float32) / 255, int(self.classes[number])


def small_network(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))  # fmt: skip


def loader_busy(options: argparse.Namespace) -> dict[str, Any]:
    """{"fixed_ms", "loader_ms": of a step, "busy"} of one library."""
    torch = library(options.library)
    from importlib import import_module

    data = import_module(f"{options.library}.utils.data")
    model = small_network(torch).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(pictures: Any, classes: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
        return loss

    loader = data.DataLoader(Rows(256 * options.steps), batch_size=256, shuffle=True, num_workers=options.workers,
                             pin_memory=options.device != "cpu", drop_last=True, persistent_workers=True)
    times: dict[str, list[float]] = {"fixed": [], "loader": []}
    fixed = [x.to(options.device) for x in next(iter(loader))]
    for turn in range(4):  # the first one warms up
        for name in times:
            source = ([fixed] * options.steps) if name == "fixed" else loader
            started = time.perf_counter()
            for pictures, classes in source:
                loss = step(pictures.to(options.device), classes.to(options.device))
            float(loss)
            if turn:
                times[name].append((time.perf_counter() - started) / options.steps * 1e3)
    fixed_ms, loader_ms = (min(times[name]) for name in ("fixed", "loader"))
    return {"fixed_ms": round(fixed_ms, 3), "loader_ms": round(loader_ms, 3), "busy": round(fixed_ms / loader_ms, 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("layers", 6), ("width", 512), ("batch", 16), ("tokens", 256), ("steps", 30), ("workers", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--mode")
    parser.add_argument("--library")
    parser.add_argument("--loader", action="store_true")
    options = parser.parse_args()
    if options.loader and options.library:
        print(json.dumps(loader_busy(options)))
        return 0
    if options.library:
        print(json.dumps(measure(options)))
        return 0
    if not options.loader:
        return compare(options)
    good = True
    for name in ("gabbro", "torch"):
        words = ["--loader", "--library", name, f"--workers={options.workers}"]
        row = in_process(options, words)
        print(f"{name}: {row.get('error') or row}", flush=True)
        good = good and (name == "torch" or row.get("busy", 0) >= 0.9)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
