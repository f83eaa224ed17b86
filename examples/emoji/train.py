"""Trains a small Stable Diffusion pipeline on the emoji of emoji.npz (pictures.py), for `gabbro image`.

    python examples/emoji/train.py emoji.npz -o FOLDER [--device cuda] [--minutes 8] [--resume FILE]

First an autoencoder of 128 x 128 pixels to 16 x 16 latents of 4 channels, then the U-Net together with a text encoder.
FOLDER has the layout that diffusers and `gabbro image` read. It is written several times on the way, with averages of
the weights so far; --resume goes on from the file of --checkpoint, into which all weights are saved as well.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import folder
import networks
import numpy as np
import text_encoder
import tokenizer

import gabbro as gb
from gabbro import nn

WHITE_VARIANTS, COLORED_VARIANTS = 4, 2
MOST_SHIFT = 6  # pixels
TIMESTEPS = 1000
NO_CAPTION = 0.1  # share of pictures without one, for guidance
COLORED = 0.2  # share of pictures with a colored background


class Trainer:
    """AdamW with averages of the weights, and the loss and its gradients, in one compiled function."""

    def __init__(self, modules: list[nn.Module], loss: Callable[..., gb.Tensor], rate: float, dtype: Any) -> None:
        self.parameters = [parameter for module in modules for parameter in module.parameters()]
        # Copies of values in separate memory: an assignment changes them in place.
        self.averages = [gb.tensor(parameter.numpy().copy()) for parameter in self.parameters]
        self.means = [gb.tensor(np.zeros(p.shape, np.float32)) for p in self.parameters]
        self.squares = [gb.tensor(np.zeros(p.shape, np.float32)) for p in self.parameters]
        self.rate, self.steps = rate, 0
        parameters, averages, means, squares = self.parameters, self.averages, self.means, self.squares

        @gb.compile
        def step(numbers: gb.Tensor, *batch: gb.Tensor) -> gb.Tensor:
            with gb.autocast(gb.bfloat16, enabled=dtype == "bf16"):
                value = loss(*batch)
            gradients = gb.autograd.grad(value, parameters)
            rate, first, second, kept = (numbers[i] for i in range(4))
            with gb.no_grad():
                for p, g, average, mean, square in zip(parameters, gradients, averages, means, squares, strict=True):
                    m = mean * 0.9 + g * 0.1
                    s = square * 0.99 + g * g * 0.01
                    decay = 0.01 if len(p.shape) > 1 else 0.0
                    changed = p - rate * (m / first / (gb.sqrt(s / second) + 1e-8) + decay * p)
                    average[...] = average * kept + changed * (1 - kept)
                    mean[...], square[...], p[...] = m, s, changed
            return value

        self.step = step

    def __call__(self, progress: float, *batch: gb.Tensor) -> gb.Tensor:
        """One step at `progress`, from 0 to 1: the rate rises at first and falls to nothing."""
        self.steps += 1
        rate = self.rate * min(1.0, self.steps / 200) * 0.5 * (1 + np.cos(np.pi * min(progress, 1.0))) + 1e-6
        kept = min(0.999, (1 + self.steps) / (10 + self.steps))
        numbers = [rate, 1 - 0.9**self.steps, 1 - 0.99**self.steps, kept]
        return self.step(gb.tensor(np.array(numbers, np.float32)), *batch)

    def use_averages(self) -> None:
        with gb.no_grad():
            for parameter, average in zip(self.parameters, self.averages, strict=True):
                parameter[...] = average

    def state(self, prefix: str) -> dict[str, gb.Tensor]:
        kinds = {"p": self.parameters, "a": self.averages, "m": self.means, "s": self.squares}
        return {f"{prefix}.{kind}.{i}": t.detach() for kind, all_ in kinds.items() for i, t in enumerate(all_)}

    def load(self, prefix: str, state: dict[str, gb.Tensor], steps: int) -> None:
        self.steps = steps
        with gb.no_grad():
            for name, tensor in self.state(prefix).items():
                tensor[...] = state[name]


def pixels(rgba: gb.Tensor, backgrounds: gb.Tensor) -> gb.Tensor:
    """uint8 [N, H, W, 4] before colors [N, 3] from 0 to 1: [N, 3, H, W] from -1 to 1."""
    x = rgba.to(gb.float32).permute(0, 3, 1, 2) / 255
    return (x[:, :3] + (1 - x[:, 3:]) * backgrounds.reshape(-1, 3, 1, 1)) * 2 - 1


def shifted(pictures: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All pictures moved by one distance."""
    dy, dx = rng.integers(-MOST_SHIFT, MOST_SHIFT + 1, 2)
    edge = MOST_SHIFT
    wide = np.pad(pictures, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    side = pictures.shape[1]
    return wide[:, edge + dy : edge + dy + side, edge + dx : edge + dx + side]


def edges_differ(x: gb.Tensor, y: gb.Tensor) -> gb.Tensor:
    """The mean difference of neighboring pixels' differences."""
    d = x - y
    return (d[:, :, 1:] - d[:, :, :-1]).abs().mean() + (d[:, :, :, 1:] - d[:, :, :, :-1]).abs().mean()


# A compiled function depends on all that its code can reach, so losses get their modules alone: a `self` with pictures
# and counters would be compared in each step.
def loss_of_autoencoder(vae: networks.Autoencoder) -> Callable[..., gb.Tensor]:
    def loss(rgba: gb.Tensor, backgrounds: gb.Tensor) -> gb.Tensor:
        x = pixels(rgba, backgrounds)
        latents = vae.encode(x).to(gb.float32)
        noisy = latents + 0.05 * gb.randn(*latents.shape)
        y = vae.decode(noisy).to(gb.float32)
        return (y - x).abs().mean() + edges_differ(x, y) + 1e-4 * (latents * latents).mean()

    return loss


def loss_of_unet(unet: networks.UNet, text: text_encoder.TextEncoder) -> Callable[..., gb.Tensor]:
    kept = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, TIMESTEPS) ** 2)
    tables = [gb.tensor(np.sqrt(x).astype(np.float32)) for x in (kept, 1 - kept)]  # [TIMESTEPS]

    def loss(latents: gb.Tensor, timesteps: gb.Tensor, ids: gb.Tensor) -> gb.Tensor:
        noise = gb.randn(*latents.shape)
        signal, spread = (table[timesteps].reshape(-1, 1, 1, 1) for table in tables)
        velocity = unet(signal * latents + spread * noise, timesteps.to(gb.float32), text(ids)).to(gb.float32)
        error = velocity - (signal * noise - spread * latents)
        return (error * error).mean()

    return loss


class Clock:
    """A stage ends after its minutes, or its steps."""

    def __init__(self, name: str, end: float, steps: int | None) -> None:
        self.name, self.start, self.end, self.steps = name, time.monotonic(), end, steps
        self.done, self.shown, self.total, self.counted = 0, time.monotonic(), 0.0, 0

    def progress(self) -> float:
        if self.steps is not None:
            return self.done / self.steps
        return (time.monotonic() - self.start) / max(self.end - self.start, 1e-3)

    def is_over(self) -> bool:
        return time.monotonic() >= self.end or (self.steps is not None and self.done >= self.steps)

    def took(self, loss: gb.Tensor) -> None:
        """Counts a step. Reads the loss of one in 25, so that the device has work waiting."""
        self.done += 1
        if self.done % 25 == 0 or self.done < 4:
            self.total, self.counted = self.total + loss.item(), self.counted + 1
            if not np.isfinite(self.total):
                raise SystemExit(f"{self.name}: the loss of step {self.done} is not finite")
        if time.monotonic() - self.shown > 5 and self.counted:
            self.shown = time.monotonic()
            rate = self.done / (self.shown - self.start)
            mean = self.total / self.counted
            print(
                f"{self.name}: step {self.done}, {self.progress():.0%}, loss {mean:.4f}, {rate:.1f} steps/s", flush=True
            )
            self.total, self.counted = 0.0, 0


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.start = options, time.monotonic()
        self.rng = np.random.default_rng(options.seed)
        gb.seed(options.seed)
        with np.load(options.pictures) as file:
            self.pictures, data = file["pictures"][: options.count], json.loads(str(file["data"]))
        self.texts = data["texts"][: options.count]
        self.vocabulary, self.merges = data["vocabulary"], data["merges"]
        self.tokens = tokenizer.Tokenizer(self.vocabulary, self.merges, text_encoder.TOKENS)
        self.vae = networks.Autoencoder()
        self.unet = networks.UNet(text_encoder.TEXT["hidden_size"])
        self.text = text_encoder.TextEncoder(len(self.vocabulary))
        self.colors = np.array([*tokenizer.COLORS.values()], np.float32) / 255
        for table in (
            self.text.text_model.embeddings.token_embedding,
            self.text.text_model.embeddings.position_embedding,
        ):
            nn.init.normal_(table.weight, std=0.02)
        self.vae_trainer = Trainer([self.vae], loss_of_autoencoder(self.vae), 1e-3, options.dtype)
        self.unet_trainer = Trainer([self.unet, self.text], loss_of_unet(self.unet, self.text), 8e-4, options.dtype)
        self.is_vae_done = False
        if options.resume is not None:
            self.resume()

    def at(self, minutes: float) -> float:
        return self.start + 60 * minutes

    # The autoencoder.

    def train_vae(self) -> None:
        o = self.options
        clock = Clock("autoencoder", self.at(o.minutes * o.vae_share), o.vae_steps)
        while not clock.is_over():
            chosen = self.rng.integers(0, len(self.pictures), o.vae_batch)
            colors = np.where(self.rng.random((o.vae_batch, 1)) < 0.5, 1, self.rng.random((o.vae_batch, 3)))
            rgba = shifted(self.pictures[chosen], self.rng)
            clock.took(self.vae_trainer(clock.progress(), gb.tensor(rgba), gb.tensor(colors.astype(np.float32))))
        print(f"autoencoder: {clock.done} steps", flush=True)
        self.vae_trainer.use_averages()
        latents = self.encode(self.pictures[: min(512, len(self.pictures))], np.ones((1, 3), np.float32))
        self.vae.normalize(latents.mean((0, 2, 3)), latents.std((0, 2, 3)))
        self.is_vae_done = True
        self.measure_vae()

    def encode(self, pictures: np.ndarray, colors: np.ndarray) -> np.ndarray:
        vae = self.vae

        @gb.compile
        def latents(rgba: gb.Tensor, backgrounds: gb.Tensor) -> gb.Tensor:
            return vae.encode(pixels(rgba, backgrounds))

        size, found = self.options.vae_batch, []
        colors = np.broadcast_to(colors, (len(pictures), 3))
        with gb.no_grad():
            for first in range(0, len(pictures), size):
                part, backgrounds = pictures[first : first + size], colors[first : first + size]
                missing = size - len(part)  # always one shape, and so one plan
                rgba = np.concatenate([part, np.repeat(part[-1:], missing, 0)])
                backgrounds = np.concatenate([backgrounds, np.repeat(backgrounds[-1:], missing, 0)])
                found.append(latents(gb.tensor(rgba), gb.tensor(backgrounds)).numpy()[: len(part)])
        return np.concatenate(found)

    def measure_vae(self) -> None:
        """Prints how well pictures come back."""
        count = min(self.options.vae_batch, len(self.pictures))
        chosen = self.pictures[self.rng.permutation(len(self.pictures))[:count]]
        latents = self.encode(chosen, np.ones((1, 3), np.float32))
        with gb.no_grad():
            vae = self.vae
            back = gb.compile(lambda z: vae.decode(z))(gb.tensor(latents)).numpy()
            x = pixels(gb.tensor(chosen), gb.tensor(np.ones((count, 3), np.float32))).numpy()
        error = np.mean(((back.clip(-1, 1) - x) / 2) ** 2)
        print(f"autoencoder: PSNR {-10 * np.log10(max(error, 1e-10)):.1f} dB", flush=True)

    # The U-Net and the text encoder.

    def prepare_latents(self) -> None:
        """`latents` [variants · N, 4, h, w] on the device, and `captions`, the rows of `ids` that fit each of them."""
        latents, captions, ids = [], [], []
        rows: dict[str, int] = {}

        def numbers(texts: list[str]) -> list[int]:
            for text in texts:
                if text not in rows:
                    rows[text] = len(ids)
                    ids.append(self.tokens(text))
            return [rows[text] for text in texts]

        self.empty = numbers([""])[0]
        names = list(tokenizer.COLORS)
        for variant in range(WHITE_VARIANTS + COLORED_VARIANTS):
            pictures = self.pictures if variant == 0 else shifted(self.pictures, self.rng)
            if variant < WHITE_VARIANTS:
                latents.append(self.encode(pictures, np.ones((1, 3), np.float32)))
                captions += [numbers(tokenizer.captions(text)) for text in self.texts]
            else:
                chosen = self.rng.integers(0, len(names), len(pictures))
                latents.append(self.encode(pictures, self.colors[chosen]))
                texts = zip(self.texts, chosen, strict=True)
                captions += [numbers(tokenizer.captions(text, names[color])) for text, color in texts]
        self.latents = gb.tensor(np.concatenate(latents))
        self.ids = np.array(ids, np.int32)
        self.counts = np.array([len(fitting) for fitting in captions])
        self.captions = np.array([fitting + [0] * (self.counts.max() - len(fitting)) for fitting in captions])

    def batch(self) -> tuple[gb.Tensor, ...]:
        size, count = self.options.batch, len(self.pictures)
        is_colored = self.rng.random(size) < COLORED
        variants = np.where(
            is_colored,
            self.rng.integers(WHITE_VARIANTS, WHITE_VARIANTS + COLORED_VARIANTS, size),
            self.rng.integers(0, WHITE_VARIANTS, size),
        )
        chosen = variants * count + self.rng.integers(0, count, size)
        rows = self.captions[chosen, (self.rng.random(size) * self.counts[chosen]).astype(int)]
        ids = self.ids[np.where(self.rng.random(size) < NO_CAPTION, self.empty, rows)]
        # Timesteps are spread evenly over each batch.
        timesteps = (np.arange(size) + self.rng.random(size)) / size * TIMESTEPS
        return self.latents[gb.tensor(chosen.astype(np.int32))], gb.tensor(timesteps.astype(np.int32)), gb.tensor(ids)

    def train_unet(self) -> None:
        o = self.options
        clock = Clock("unet", self.at(o.minutes) - o.save_seconds, o.steps)
        saved = time.monotonic()
        while not clock.is_over():
            clock.took(self.unet_trainer(clock.progress(), *self.batch()))
            if time.monotonic() - saved > o.save_every:
                self.save()
                saved = time.monotonic()
        print(f"unet: {clock.done} steps", flush=True)
        self.save()

    # Files.

    def save(self) -> None:
        """The folder with averages of the weights, and the checkpoint."""
        trainer, current = self.unet_trainer, [p.numpy().copy() for p in self.unet_trainer.parameters]
        trainer.use_averages()
        modules = {"vae": self.vae, "unet": self.unet, "text_encoder": self.text}
        folder.save(pathlib.Path(self.options.out), modules, self.vocabulary, self.merges, self.options.weights)
        with gb.no_grad():
            for parameter, value in zip(trainer.parameters, current, strict=True):
                parameter[...] = gb.tensor(value)
        if self.options.checkpoint is not None:
            state = {**trainer.state("unet"), **self.vae_trainer.state("vae")}
            steps = np.array([self.vae_trainer.steps, trainer.steps, self.is_vae_done], np.int32)
            gb.save_state(self.options.checkpoint, {**state, "steps": gb.tensor(steps)})
        print(f"saved {self.options.out} after {(time.monotonic() - self.start) / 60:.1f} minutes", flush=True)

    def resume(self) -> None:
        state = gb.load_state(self.options.resume)
        vae, unet, done = (int(number) for number in state["steps"].numpy())
        self.vae_trainer.load("vae", state, vae)
        self.unet_trainer.load("unet", state, unet)
        self.is_vae_done = bool(done)

    def run(self) -> None:
        if not self.is_vae_done:
            self.train_vae()
            self.save()
        else:
            self.measure_vae()
        self.prepare_latents()
        print(f"{len(self.ids)} captions, {self.latents.shape[0]} latents", flush=True)
        self.train_unet()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pictures")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="bf16", help="of products and convolutions")
    parser.add_argument("--weights", choices=["f32", "f16"], default="f16", help="of the folder's files")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--vae-share", type=float, default=0.35, help="of the minutes, for the autoencoder")
    parser.add_argument("--vae-steps", type=int)
    parser.add_argument("--steps", type=int, help="of the U-Net")
    parser.add_argument("--vae-batch", type=int, default=64)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--count", type=int, help="of pictures: the first of the file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=float, default=90, metavar="SECONDS")
    parser.add_argument("--save-seconds", type=float, default=5, help="kept for the last save")
    parser.add_argument("--checkpoint", help="a file for all that --resume needs")
    parser.add_argument("--resume", help="a file of --checkpoint")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    gb.set_device(options.device)
    Run(options).run()


if __name__ == "__main__":
    main()
