"""Cuts, replaces and overwrites model files at random moments of load, run, logits, convert and inspect:

    tests/cli/changed_files.py [--rounds 100] [--seed N]

Each round ends with one line of error that names the file, or with the right answer for the old or the new file. There is
no signal, no result under its final name after an error, and no file left but a conversion that can be resumed."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from random_model import Shape, write
from support import PROGRAM

SMALL = Shape(layers=2, embedding=256, heads=4, kv_heads=2, feed_forward=512, vocabulary=1024, head_dimension=64)
LARGE = Shape(layers=6, embedding=512, heads=8, kv_heads=2, feed_forward=1024, vocabulary=4096, head_dimension=64)
CHANGES = ("cut", "cut_to_nothing", "replace", "remove", "overwrite", "zeros", "header", "rewrite", "other")


def bf16_bytes(source, count):
    """Random numbers of a magnitude of some hundredths."""
    table = bytes(0x3C if i < 128 else 0xBC for i in range(256))
    numbers = bytearray(2 * count)
    numbers[0::2] = source.randbytes(count)
    numbers[1::2] = source.randbytes(count).translate(table)
    return bytes(numbers)


def write_folder(folder, shape, seed):
    """A folder as the Hub has it, of a Llama of random bf16 weights."""
    folder.mkdir()
    source, c, q, kv = random.Random(seed), shape.embedding, shape.heads * shape.head_dimension, shape.kv_heads * shape.head_dimension
    lengths = {"model.embed_tokens.weight": [shape.vocabulary, c], "lm_head.weight": [shape.vocabulary, c], "model.norm.weight": [c]}
    for i in range(shape.layers):
        for name, length in {"input_layernorm": [c], "post_attention_layernorm": [c], "self_attn.q_proj": [q, c],
                             "self_attn.k_proj": [kv, c], "self_attn.v_proj": [kv, c], "self_attn.o_proj": [c, q],
                             "mlp.gate_proj": [shape.feed_forward, c], "mlp.up_proj": [shape.feed_forward, c],
                             "mlp.down_proj": [c, shape.feed_forward]}.items():
            lengths[f"model.layers.{i}.{name}.weight"] = length
    header, at, data = {}, 0, []
    for name, length in lengths.items():
        count = length[0] * (length[1] if len(length) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": length, "data_offsets": [at, at + 2 * count]}
        data.append(bf16_bytes(source, count))
        at += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": c,
              "intermediate_size": shape.feed_forward, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
              "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dimension, "vocab_size": shape.vocabulary,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))


class Model:
    """Two models of the same shape, and copies of the first that a round may spoil."""

    def __init__(self, folder, kind, shape):
        self.kind, self.is_folder = kind, kind == "folder"
        self.first, self.second = (folder / f"{kind}-{i}" for i in (1, 2))
        for seed, path in enumerate((self.first, self.second)):
            if self.is_folder:
                write_folder(path, shape, seed)
            else:
                write(path.with_suffix(".gguf"), shape, kind, quiet_from=seed)
        self.memory = 0
        if not self.is_folder:
            self.first, self.second = self.first.with_suffix(".gguf"), self.second.with_suffix(".gguf")
            self.memory = least_memory(self.first)

    def copy(self, folder):
        target = folder / self.first.name
        shutil.copytree(self.first, target) if self.is_folder else shutil.copy(self.first, target)
        return target

    def file_of(self, path):
        return path / "model.safetensors" if self.is_folder else path


def change(file, other, how, source):
    """Changes a file as downloads, copies and broken disks do."""
    size = file.stat().st_size
    if how == "cut":
        os.truncate(file, source.choice([source.randrange(size), size - source.randrange(1, 4096), 4096]))
    elif how == "cut_to_nothing":
        os.truncate(file, 0)
    elif how == "replace":
        shutil.copy(other, file.with_name("new"))
        os.replace(file.with_name("new"), file)
    elif how == "remove":
        os.remove(file)
    elif how in ("overwrite", "zeros", "header"):
        at = source.randrange(200) if how == "header" else source.randrange(size)
        count = source.randrange(1, 400 if how == "header" else 1 << 20)
        with open(file, "r+b") as opened:
            opened.seek(at)
            opened.write(bytes(min(count, size - at)) if how == "zeros" else source.randbytes(min(count, size - at)))
    else:  # as cp writes it, over the old file: the same contents, or another model's
        content = (file if how == "rewrite" else other).read_bytes()
        with open(file, "wb") as opened:
            for begin in range(0, len(content), 1 << 20):
                opened.write(content[begin:begin + (1 << 20)])


def least_memory(model):
    """MiB that streaming needs at least."""
    tried = subprocess.run([PROGRAM, "logits", str(model), "--tokens", "1", "--out", "/dev/null", "--memory", "1MiB"],
                           capture_output=True, text=True)
    return int(re.search(r"(\d+) MiB are the least", tried.stderr)[1]) + 3  # it counts what the program takes


def commands(path, out, is_folder, memory):
    """Command lines, and where each puts its result: a file, or None for standard output."""
    tokens = ",".join(str(i % 200 + 1) for i in range(64))
    yield ["logits", path, "--tokens", tokens, "--step", "1", "--out", out], out
    yield ["convert", path, "--type", "q5_k_m", "-o", out], out
    yield ["inspect", path, "--check", "--json"], None
    if not is_folder:
        yield ["run", path, "--raw", "-n", "60", "--json", "Once upon a time"], None
        yield ["run", path, "--raw", "-n", "8", "--prompts", path.parent / "prompts.txt", "--parallel", "2"], None
        yield ["perplexity", path, "--file", path.parent / "prompts.txt", "--ctx", "64", "--json"], None
        yield ["logits", path, "--tokens", tokens, "--step", "8", "--memory", f"{memory}MiB", "--out", out], out


def without_times(text):
    """Standard output but for what differs from run to run."""
    lines = []
    for line in text.decode(errors="replace").splitlines():
        if not any(word in line for word in ("seconds", "per_second", "bandwidth", '"seed"')):
            lines.append(line)
    return "\n".join(lines)


class Round:
    def __init__(self, model, folder, source):
        self.model, self.folder, self.source = model, folder, source
        self.path = model.copy(folder)
        (folder / "prompts.txt").write_text("".join(f"Question {i}: what is basalt, and how deep is the sea?\n" for i in range(40)))
        self.file = model.file_of(self.path)
        self.out = folder / "out.gguf"
        self.arguments, self.result = source.choice(list(commands(self.path, self.out, model.is_folder, model.memory)))
        self.how = source.choice(CHANGES)

    def run(self, delay=None):
        """Exit code, result and standard error; the file is changed after `delay` seconds."""
        self.out.unlink(missing_ok=True)
        arguments = [PROGRAM, *map(str, self.arguments), "--log-level", "error", "--threads", "2"] if self.arguments[0] not in (
            "convert", "inspect") else [PROGRAM, *map(str, self.arguments)]
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if delay is not None:
            time.sleep(delay)
            change(self.file, self.model.file_of(self.model.second), self.how, self.source)
        out, err = process.communicate(timeout=300)
        result = self.out.read_bytes() if self.result and self.out.exists() else without_times(out)
        return process.returncode, result, err.decode(errors="replace")

    def clean(self):
        for path in self.folder.glob("out.gguf*"):
            path.unlink()

    def check(self):
        """None, or what is wrong. Returns (verdict, problem)."""
        start = time.monotonic()
        code, right, err = self.run()
        if code != 0:
            return "failed", f"without a change: {code} {err}"
        delay = self.source.uniform(0, (time.monotonic() - start) * 1.05)
        self.clean()
        code, result, err = self.run(delay)
        if code < 0:
            return "signal", f"signal {-code}: {err}"
        leftover = [p.name for p in self.folder.iterdir() if p.name.startswith("out.gguf") and p.name != "out.gguf"]
        if code != 0:
            errors = [line for line in err.splitlines() if line.startswith("gabbro: error: ")]
            if code not in (1, 2, 3) or len(errors) != 1 or str(self.path) not in errors[0]:
                return "failed", f"exit code {code}: {err}"
            if self.result and self.out.exists():
                return "failed", "there is a result after an error"
            if any(not name.startswith("out.gguf.partial") for name in leftover):
                return "failed", f"left behind: {leftover}"
            return "error", None
        if leftover:
            return "failed", f"left behind: {leftover}"
        if result == right:
            return "right", None
        self.clean()
        code, since, err = self.run()
        return ("since", None) if code == 0 and since == result else ("failed", "a wrong result, and exit code 0")


def rounds(count, seed, shape, kinds=("f16", "q4_0", "folder"), say=lambda text: None):
    """Runs them, and returns the problems and how often each verdict came."""
    problems, verdicts = [], {}
    source = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = [Model(folder, kind, shape) for kind in kinds]
        for number in range(count):
            place = folder / f"round{number}"
            place.mkdir()
            one = Round(source.choice(models), place, source)
            verdict, problem = one.check()
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            title = f"{number}: {one.how} {one.model.kind} {one.arguments[0]}"
            say(f"{title}: {verdict}")
            if problem:
                problems.append(f"{title}: {problem}")
                say(problem)
            shutil.rmtree(place)
    return problems, verdicts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    problems, verdicts = rounds(options.rounds, options.seed, LARGE, say=lambda text: print(text, flush=True))
    print(f"seed {options.seed}: {verdicts}, {len(problems)} problems")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
