#!/usr/bin/env python3
"""Random conversions: type x model x damage x interruption x a second writer.

    tests/cli/random_conversions.py --count 500 [--seed 1] [--only 17]

With the Python package gguf of llama.cpp it decodes the new files, else `convert --type f32` does.
Every file that is reported as done can be read, and its values are within the format's bound of the model's, which are
known without the program; no input changes; what fails leaves no file. A failure prints its number for --only."""
import argparse
import array
import functools
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import tiny_folder

try:
    import gguf
except ImportError:
    gguf = None
from gguf_edit import ARRAY, F32, STRING, U32, Gguf, Tensor
from support import PROGRAM, ROOT, TINY_F16, gguf_types

FAMILIES, ENCODERS, QUANTIZED, ADAPTERS = (ROOT / "tests" / "data" / name
                                           for name in ("families", "encoders", "quantized", "adapters"))
NEED_IMPORTANCE = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "q2_k_s"}
# The largest error of a value, in units of its block's peak, by the formats of GGUF: a step of the coarsest levels,
# which encoders that minimize squares may clip by, and for the scales of the block and its groups some more. Formats
# with an even number of signs may change one.
ERROR = {"F32": 0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 2**-7, "Q6_K": 2**-4, "Q5_0": 2**-3, "Q5_1": 2**-3,
         "Q5_K": 2**-3, "Q4_0": 2**-2, "Q4_1": 2**-2, "Q4_K": 2**-2, "IQ4_NL": 2**-2, "IQ4_XS": 2**-2,
         "MXFP4": 0.4, "NVFP4": 0.4, "Q3_K": 0.5, "IQ3_S": 0.6, "Q2_K": 0.8}  # others: 1.1
# The root of the mean squared error of 2000 normal values or more, in units of that of the values: 1.25 times the
# largest of 200 conversions.
SQUARES = {"F16": 0.0003, "BF16": 0.0022, "Q8_0": 0.0071, "Q6_K": 0.022, "Q5_K": 0.045, "Q5_1": 0.049, "Q5_0": 0.056,
           "Q4_K": 0.09, "IQ4_NL": 0.095, "Q4_1": 0.1, "IQ4_XS": 0.1, "NVFP4": 0.105, "Q4_0": 0.114, "MXFP4": 0.145,
           "IQ3_S": 0.167, "Q3_K": 0.183, "IQ3_XXS": 0.233, "IQ2_S": 0.31, "Q2_K": 0.34, "IQ2_XS": 0.373,
           "IQ2_XXS": 0.43, "Q2_0": 0.45, "IQ1_M": 0.53, "TQ1_0": 0.545, "TQ2_0": 0.545, "IQ1_S": 0.6, "Q1_0": 0.76}
BLOCKS = {"F32": 1, "F16": 1, "BF16": 1, "Q8_0": 32, "Q5_0": 32, "Q5_1": 32, "Q4_0": 32, "Q4_1": 32, "IQ4_NL": 32,
          "MXFP4": 32, "NVFP4": 64, "Q1_0": 128, "Q2_0": 64}  # others: 256
SMALLEST = {"F16": 2**-25, "NVFP4": 6 * 2**-9}  # an error of any value: half of the least f16, a step of the scales


class Failure(Exception):
    pass


def program(*arguments, **options):
    return subprocess.Popen([PROGRAM, *map(os.fspath, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def finish(process):
    out, err = process.communicate(timeout=120)
    if process.returncode not in (0, 1, 2, 130, -signal.SIGINT, -signal.SIGKILL):
        raise Failure(f"exit code {process.returncode}: {err.decode(errors='replace')}")
    return process.returncode, out, err.decode(errors="replace")


def run(*arguments):
    return finish(program(*arguments))


def hashes(paths):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest()
            for root in paths for path in (sorted(root.rglob("*")) if root.is_dir() else [root]) if path.is_file()}


def rotated(row, head):
    """The row of transformers' layout that is row `row` of GGUF's: pairs are (i, i + head / 2) there."""
    i = row % head
    return row - i + i // 2 + i % 2 * (head // 2)


def expected_of_llama(tensors, heads):
    """{name in GGUF: (columns, values)} of the matrices of tiny_folder's models."""
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    found = {}
    for name, (shape, values) in tensors.items():
        if len(shape) != 2:
            continue
        rows, columns = shape
        if name.startswith("model.layers."):
            layer, module = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            ours = f"blk.{layer}.{names[module]}.weight"
        else:
            ours = "output.weight" if name.startswith("lm_head") else "token_embd.weight"
        if ours.endswith(("attn_q.weight", "attn_k.weight")):
            head = tensors["model.embed_tokens.weight"][0][1] // heads
            values = array.array("f", [v for row in range(rows) for v in
                                       values[rotated(row, head) * columns:(rotated(row, head) + 1) * columns]])
        found[ours] = (columns, values)
    return found


@functools.cache
def wide_tensors(seed):
    return tiny_folder.llama_tensors(hidden=256, feed_forward=512, layers=2, heads=4, seed=seed)


def floats_of(tensor):
    """Of an F32 tensor of a GGUF file."""
    count = 1
    for length in tensor.shape:
        count *= length
    return array.array("f", tensor.data[:4 * count])


def decoded_by_gguf(path):
    """Of llama.cpp's package, or None without it, or where it lacks a format."""
    if gguf is None:
        return None
    found = {}
    try:
        for tensor in gguf.GGUFReader(path).tensors:
            if len(tensor.shape) > 1:
                values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                found[tensor.name] = (int(tensor.shape[0]), array.array("f", values.astype("float32").tobytes()))
    except (NotImplementedError, ValueError) as error:
        if isinstance(error, ValueError) and "is not a valid GGMLQuantizationType" not in str(error):
            raise Failure(f"llama.cpp's package: {error}") from error
        return None
    return found


class Case:
    def __init__(self, number, seed, folder):
        self.number, self.folder = number, folder
        self.random = random.Random(seed * 1_000_003 + number)
        self.out = folder / "out.gguf"
        self.options, self.inputs, self.expected, self.refused = [], [], None, None
        self.words = []

    def pick(self, *choices):
        return self.random.choice(choices)

    # The model: `expected` are its values by name, or None for the values of a conversion to f32.
    def make_model(self):
        kind = self.pick("llama", "llama", "wide", "wide", "wide", "wide", "sharded", "half", "bfloat", "family", "encoder", "quantized",
                         "gguf", "split", "adapter")
        self.words.append(kind)
        self.model = self.folder / "model"
        make = getattr(self, "make_" + kind, None) or self.make_llama
        make()
        self.inputs.append(self.model)
        return kind

    def make_llama(self):
        heads = 2
        sizes = {"hidden": self.pick(32, 64, 96, 20, 36), "feed_forward": self.pick(32, 64, 20)}
        self.tensors = tiny_folder.llama_tensors(**sizes, layers=self.pick(1, 2), heads=heads, seed=self.random.random())
        layers = sum(name.endswith("q_proj.weight") for name in self.tensors)
        tiny_folder.write_llama(self.model, self.tensors, layers=layers, heads=heads)
        self.expected = expected_of_llama(self.tensors, heads)

    def make_wide(self):  # for blocks of 256, and long enough to be interrupted
        self.tensors = dict(wide_tensors(self.number % 2))
        tiny_folder.write_llama(self.model, self.tensors, layers=2, heads=4)
        self.expected = expected_of_llama(self.tensors, 4)

    def make_sharded(self):
        self.make_llama()
        names = list(self.tensors)
        shards = [names[i::3] for i in range(3)]
        (self.model / "model.safetensors").unlink()
        weight_map = {}
        for i, shard in enumerate(shards):
            file = f"model-{i + 1:05}-of-00003.safetensors"
            tiny_folder.write_safetensors(self.model / file, {name: self.tensors[name] for name in shard})
            weight_map |= dict.fromkeys(shard, file)
        (self.model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    def make_half(self):
        self.make_llama()
        stored = {name: (shape, ("F16", struct.pack(f"<{len(values)}e", *values)))
                  for name, (shape, values) in self.tensors.items()}
        tiny_folder.write_safetensors(self.model / "model.safetensors", stored)
        self.tensors = {name: (shape, array.array("f", struct.unpack(f"<{len(data) // 2}e", data)))
                        for name, (shape, (_, data)) in stored.items()}
        self.expected = expected_of_llama(self.tensors, 2)

    def make_bfloat(self):
        self.make_llama()
        stored, read = {}, {}
        for name, (shape, values) in self.tensors.items():
            words = array.array("H", values.tobytes())[1::2]
            stored[name] = (shape, ("BF16", words.tobytes()))
            read[name] = (shape, array.array("f", array.array("I", [word << 16 for word in words]).tobytes()))
        tiny_folder.write_safetensors(self.model / "model.safetensors", stored)
        self.tensors, self.expected = read, expected_of_llama(read, 2)

    def copy(self, source):
        self.words.append(source.name)
        shutil.copytree(source, self.model) if source.is_dir() else shutil.copy(source, self.model)
        for path in [self.model, *self.model.rglob("*")] if self.model.is_dir() else [self.model]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def make_family(self):
        self.copy(FAMILIES / self.pick("gpt2", "mixtral", "qwen3", "gemma2", "mamba", "deepseek_v2", "phi3", "lfm2", "bloom"))

    def make_encoder(self):
        self.copy(ENCODERS / self.pick("bert", "nomic_bert", "qwen3_embedding", "roberta"))

    def make_quantized(self):
        self.copy(QUANTIZED / self.pick("awq", "gptq", "fp8_block", "bitsandbytes_nf4", "gpt_oss", "modelopt_nvfp4"))

    def make_adapter(self):
        self.copy(FAMILIES / "llama")
        self.options += ["--lora", ADAPTERS / "llama"]
        self.inputs.append(ADAPTERS / "llama")

    def make_gguf(self):
        self.make_llama()
        folder, self.model = self.model, self.folder / "model.gguf"
        kind = self.pick("f32", "f16", "q8_0")
        self.words.append(kind)
        self.must("convert", folder, "--type", kind, "-o", self.model)
        if kind != "f32":
            self.expected = None

    def make_split(self):
        self.make_llama()
        folder, whole = self.model, self.folder / "whole.gguf"
        self.must("convert", folder, "--type", "f32", "-o", whole)
        file = Gguf(whole)
        tensors, fields = file.tensors, file.fields
        for number in range(2):
            file.fields = dict(fields) if number == 0 else {}
            file.fields |= {b"split.no": (2, number), b"split.count": (2, 2), b"split.tensors.count": (5, len(tensors))}
            file.tensors = tensors[number::2]
            file.write(self.folder / f"model-{number + 1:05}-of-00002.gguf")
        self.model = self.folder / "model-00001-of-00002.gguf"
        self.inputs.append(self.folder / "model-00002-of-00002.gguf")
        whole.unlink()

    def must(self, *arguments):
        code, _, err = run(*arguments)
        if code != 0:
            raise Failure(f"{arguments}: {code} {err}")

    def files(self):
        return sorted(self.model.glob("*.safetensors")) if self.model.is_dir() else [self.model]

    # Damage; `refused` is a part of the message, "" of any, or None where the conversion has to succeed.
    def damage(self, kind):
        damage = self.pick(None, None, None, None, "nan", "inf", "large", "cut", "header", "config")
        if damage in ("nan", "inf", "large") and kind not in ("llama", "wide"):
            damage = None
        if damage == "config" and not self.model.is_dir():
            damage = None
        self.words.append(str(damage))
        if damage in ("nan", "inf", "large"):
            name = self.random.choice([name for name, (shape, _) in self.tensors.items() if len(shape) == 2])
            shape, values = self.tensors[name]
            at = self.random.randrange(len(values))
            changed = array.array("f", values)
            changed[at] = {"nan": float("nan"), "inf": float("-inf"), "large": 1e30}[damage]
            tensors = {**self.tensors, name: (shape, changed)}
            tiny_folder.write_safetensors(self.model / "model.safetensors", tensors)
            place = f"at ({at // shape[1]}, {at % shape[1]})"
            if damage == "large":
                self.large = name
                self.expected = expected_of_llama(tensors, 4 if kind == "wide" else 2)
            else:
                self.refused = [name, f"{'nan' if damage == 'nan' else '-inf'} {place}"]
        elif damage in ("cut", "header"):
            path = self.random.choice(self.files())
            raw = bytearray(path.read_bytes())
            if damage == "cut":
                raw = raw[:self.random.randrange(len(raw))]
            else:
                raw[self.random.randrange(min(64, len(raw)))] ^= 1 << self.random.randrange(8)
            path.write_bytes(raw)
            self.fragile = True
        elif damage == "config":
            (self.model / "config.json").write_text('{"model_type": "llama", "hidden_size": "many"}')
            self.refused = [""]

    def choose_type(self):
        types = gguf_types()
        if self.expected is None:
            types = [name for name in types if name not in NEED_IMPORTANCE]
        self.type = self.random.choice(types)
        self.words.append(self.type)
        self.options += ["--type", self.type]
        if self.type in NEED_IMPORTANCE or (self.expected is not None and self.random.random() < 0.2):
            self.make_imatrix()

    def make_imatrix(self):
        path = self.folder / "imatrix.gguf"
        file = Gguf(TINY_F16)
        file.fields = {b"general.type": (STRING, b"imatrix"), b"imatrix.datasets": (ARRAY, (STRING, [b"text"]))}
        file.tensors = []
        for name, (columns, _) in self.expected.items():
            sums = [self.random.uniform(0.5, 2) for _ in range(columns)]
            file.tensors += [Tensor(name.encode() + b".in_sum2", [columns, 1], 0, struct.pack(f"<{columns}f", *sums)),
                             Tensor(name.encode() + b".counts", [1, 1], 0, struct.pack("<f", 1))]
        file.write(path)
        self.options += ["--imatrix", path]
        self.inputs.append(path)

    # The conversion, with what happens meanwhile. Returns whether it was reported as done.
    def convert(self):
        event = self.pick(None, None, "int", "kill", "kill", "touch", "other", "scribble", "same", "type", "source")
        self.words.append(str(event))
        command = ["convert", self.model, "-o", self.out, *self.options]
        if event in ("same", "type", "source"):
            return self.convert_together(command, event)
        if event in ("int", "kill", "touch", "other", "scribble"):
            killed = event == "kill" or (event != "int" and self.random.random() < 0.3)
            self.interrupt(command, signal.SIGKILL if killed else signal.SIGINT)
            self.meanwhile(event)
        results = [finish(program(*command))]
        if results[0][0] == 2 and "is there already" in results[0][2]:  # done before the signal came
            return True
        return self.judge(results[0])

    def interrupt(self, command, number):
        """At any moment, or at one at which the file is begun."""
        first = program(*command, *(["--threads", "1"] if self.random.random() < 0.7 else []))
        if self.random.random() < 0.7:
            while first.poll() is None and not os.path.exists(str(self.out) + ".partial"):
                time.sleep(0.0005)
            time.sleep(self.random.choice([0, 0.002, 0.01, 0.05, 0.2]) * self.random.random())
        else:
            time.sleep(self.random.uniform(0.005, 0.12))
        first.send_signal(number)
        finish(first)

    def meanwhile(self, event):
        partial = pathlib.Path(str(self.out) + ".partial")
        if event == "touch":  # the same source with another time
            for path in self.files():
                os.utime(path)
        elif event == "other" and not self.fragile and self.refused is None and self.large is None:
            self.change_source()
        elif event == "scribble" and partial.exists() and partial.stat().st_size > 0:
            with open(partial, "r+b") as file:
                file.seek(self.random.randrange(partial.stat().st_size))
                file.write(self.random.randbytes(self.random.randrange(1, 64)))
                file.truncate(partial.stat().st_size)

    def change_source(self):
        """Another value in a file of the same size and times."""
        name = "model.norm.weight"
        for path in self.files():
            if path.suffix != ".safetensors" or name not in (stored := tiny_folder.read_safetensors(path)):
                continue
            before, (shape, kind, data) = path.stat(), stored[name]
            tiny_folder.write_safetensors(path, {key: (entry[0], entry[1:]) for key, entry in stored.items()} |
                                          {name: (shape, (kind, data[:-2] + bytes(2)))})
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.before, self.changed = hashes(self.inputs), True
            self.out.unlink(missing_ok=True)

    def convert_together(self, command, event):
        other = list(command)
        if event == "type":
            other += ["--type", "f32"]  # the last one counts, or it is refused
        elif event == "source":
            other[1] = FAMILIES / "llama"
            other = other[:4] + ["--type", "f16"]
        first = program(*command)
        time.sleep(self.random.uniform(0, 0.03))
        results = [finish(first), finish(program(*other))] if self.random.random() < 0.3 else None
        if results is None:
            second = program(*other)
            results = [finish(first), finish(second)]
        done = [i for i, (code, _, _) in enumerate(results) if code == 0]
        if len(done) > 1:
            raise Failure(f"two writers of one file are done: {results}")
        if done == [1] and event != "same":
            self.other = True
            return True
        refusals = ("another process is writing", "is there already", "is there by now")
        if done:
            return self.judge(results[done[0]])
        alone = [result for result in results if not any(words in result[2] for words in refusals)]
        return self.judge(alone[0] if alone else results[0])

    def judge(self, result):
        code, _, err = result
        if code == 0:
            if self.refused:
                raise Failure(f"should be refused with {self.refused}")
            return True
        if self.out.exists():
            raise Failure(f"failed, and left a file: {err}")
        if self.large and "too large for" in err and self.large in err:
            return False
        if self.refused and all(word in err for word in self.refused):
            return False
        if self.fragile:
            return False
        raise Failure(f"exit code {code}: {err}")

    # The file that was reported as done.
    def check(self):
        code, text, err = run("inspect", self.out, "--json", "--tensors", "--check")
        if code != 0:
            raise Failure(f"is done, and cannot be read: {err}")
        formats = {entry["name"]: entry["format"] for entry in json.loads(text)["tensors"]}
        if self.changed:
            self.compare_with_fresh()
        if self.other:
            return
        found = decoded_by_gguf(self.out) or self.decoded(self.out)
        expected = self.expected
        if expected is None:
            expected = self.decoded(self.model, *(self.options[:2] if self.options[0] == "--lora" else []))
        for name, (columns, wanted) in expected.items():
            self.compare(name, formats[name], columns, wanted, found[name][1])

    def decoded(self, model, *options):
        """{name: (columns, values)} of the matrices, by a conversion to f32."""
        path = self.folder / "values.gguf"
        self.must("convert", model, *options, "--type", "f32", "-o", path)
        found = {tensor.name.decode(): (tensor.shape[0], floats_of(tensor)) for tensor in Gguf(path).tensors
                 if len(tensor.shape) > 1 and tensor.kind == 0}
        path.unlink()
        return found

    def compare_with_fresh(self):
        fresh = self.folder / "fresh.gguf"
        self.must("convert", self.model, "-o", fresh, *self.options)
        if fresh.read_bytes() != self.out.read_bytes():
            raise Failure("parts of the old source are in the file")
        fresh.unlink()

    def compare(self, name, form, columns, wanted, got):
        if len(wanted) != len(got):
            raise Failure(f"{name}: {len(got)} values, expected {len(wanted)}")
        bound, block, least = ERROR.get(form, 1.1), BLOCKS.get(form, 256), SMALLEST.get(form, 0)
        if form == "F32":
            if wanted.tobytes() != got.tobytes():
                raise Failure(f"{name}: F32 values differ")
            return
        step = block if block > 1 else columns
        starts = range(0, len(wanted), step)
        if len(starts) > 256:
            starts = [0, starts[-1], *self.random.sample(starts, 254)]
        errors = squares = count = 0
        for start in starts:
            part = wanted[start:start + step]
            peak = max(map(abs, part))
            errors += sum((value - got[start + i]) ** 2 for i, value in enumerate(part))
            squares += sum(value * value for value in part)
            count += len(part)
            for i, value in enumerate(part):
                error = abs(value - got[start + i])
                if not error <= bound * (peak if block > 1 else abs(value)) * 1.001 + least + 2**-20 * peak:
                    raise Failure(f"{name} as {form}: {got[start + i]} for {value} at {start + i}, block peak {peak}")
        if count >= 2000 and self.large is None and errors > SQUARES[form] ** 2 * squares:
            raise Failure(f"{name} as {form}: squared errors {errors} of {squares}")

    def run(self):
        self.large, self.fragile, self.other, self.changed = None, False, False, False
        kind = self.make_model()
        self.damage(kind)
        self.choose_type()
        self.before = hashes(self.inputs)
        done = self.convert()
        if hashes(self.inputs) != self.before:
            raise Failure("an input changed")
        left = sorted(path.name for path in self.folder.iterdir() if path.name.startswith("out"))
        if done and left != ["out.gguf"] and left != ["out.gguf", "out.gguf.partial.parts"]:
            raise Failure(f"left {left}")
        if not done and left:
            raise Failure(f"failed, and left {left}")
        if done:
            self.check()
        return done


def run_cases(numbers, seed, progress=lambda text: None):
    """Returns the numbers of those that were done, and [(number, words, message)] of failures."""
    done, failures = 0, []
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(number, seed, pathlib.Path(folder))
            try:
                done += case.run()
            except Failure as failure:
                failures.append((number, " ".join(case.words), str(failure)))
                progress(f"{number}: {' '.join(case.words)}: {failure}")
    return done, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one case")
    options = parser.parse_args()
    numbers = [options.only] if options.only is not None else range(options.count)
    start = time.monotonic()
    done, failures = run_cases(numbers, options.seed, lambda text: print(text, flush=True))
    print(f"{len(numbers)} conversions of seed {options.seed}: {done} done, {len(failures)} wrong, "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
