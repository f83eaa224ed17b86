"""Llama models of random weights of any size, for streaming: written block by block, so that the file may be larger than
memory. The vocabulary has a token for each byte, then as many others as the shape asks for."""
import concurrent.futures
import dataclasses
import os
import random
import struct

from gguf_edit import ARRAY, F32, STRING, U32, Gguf
from scripted_model import spelled
from support import TINY_F16


@dataclasses.dataclass
class Shape:
    layers: int
    embedding: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    head_dimension: int = 128
    experts: int = 0  # then feed_forward is that of each
    experts_used: int = 0


PUBLISHED = {
    "tinyllama-1.1b": Shape(22, 2048, 32, 4, 5632, 32000, 64),
    "llama-3.2-1b": Shape(16, 2048, 32, 8, 8192, 128256, 64),
    "llama-3.1-8b": Shape(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": Shape(80, 8192, 64, 8, 28672, 128256),
    "olmoe-1b-7b": Shape(16, 2048, 16, 16, 1024, 50304, 128, 64, 8),  # their sizes, with Mixtral's layers
    "qwen3-30b-a3b": Shape(48, 2048, 32, 4, 768, 151936, 128, 128, 8),
}
# Standard deviation 0.02. All scales and minimums of a K block are 32.
SCALE = {"f16": 0.02, "q8_0": 0.02 / 74, "q4_0": 0.02 / 4.6, "q4_k": 0.02 / (32 * 4.61), "q5_k": 0.02 / (32 * 9.23),
         "q6_k": 0.02 / (32 * 18.47)}
MEAN_CODE = {"q4_k": 7.5, "q5_k": 15.5}
# Elements, bytes, code in GGUF.
BLOCK = {"f16": (1, 2, 1), "q8_0": (32, 34, 8), "q4_0": (32, 18, 2), "f32": (1, 4, 0), "q4_k": (256, 144, 12),
         "q5_k": (256, 176, 13), "q6_k": (256, 210, 14)}
KINDS = ("f16", "q8_0", "q4_0", "q4_k_m")


def pattern(kind, seed, blocks, factor=1.0):
    """`blocks` blocks of random weights, times `factor`."""
    source, scale = random.Random(seed), SCALE[kind] * factor
    if kind == "f16":
        return b"".join(struct.pack("<e", source.gauss(0, scale)) for _ in range(blocks))
    head, tail, size = struct.pack("<e", scale), b"", BLOCK[kind][1] - 2
    if kind in MEAN_CODE:
        head += struct.pack("<e", scale * MEAN_CODE[kind]) + b"\xa0" * 8 + bytes(4)
        size -= 14
    elif kind == "q6_k":
        head, tail = b"", b"\x20" * 16 + head
        size -= 16
    return b"".join(head + source.randbytes(size) + tail for _ in range(blocks))


def kind_of(name, shape, kind):
    """The format of a matrix; llama.cpp's mixture for q4_k_m."""
    if kind != "q4_k_m":
        return kind
    if name == "output.weight":
        return "q6_k"
    if "attn_v" not in name and "ffn_down" not in name:
        return "q4_k"
    layer, count = layer_of(name), shape.layers
    if layer < count // 8 or layer >= 7 * count // 8 or (layer - count // 8) % 3 == 2:
        return "q6_k"
    return "q5_k" if count == 80 and "attn_v" in name else "q4_k"


def tensors_of(shape):
    c, q, kv = shape.embedding, shape.heads * shape.head_dimension, shape.kv_heads * shape.head_dimension
    yield "token_embd.weight", [c, shape.vocabulary]
    yield "output.weight", [c, shape.vocabulary]
    yield "output_norm.weight", [c]
    for i in range(shape.layers):
        for name, size in {"attn_norm": [c], "attn_q": [c, q], "attn_k": [c, kv], "attn_v": [c, kv],
                           "attn_output": [q, c], "ffn_norm": [c]}.items():
            yield f"blk.{i}.{name}.weight", size
        kind, experts = ("_exps", [shape.experts]) if shape.experts else ("", [])
        if experts:
            yield f"blk.{i}.ffn_gate_inp.weight", [c, shape.experts]
        for name, size in {"ffn_gate": [c, shape.feed_forward], "ffn_up": [c, shape.feed_forward],
                           "ffn_down": [shape.feed_forward, c]}.items():
            yield f"blk.{i}.{name}{kind}.weight", size + experts


def write(path, shape, kind="q4_0", context=512, quiet_from=None, layers=None, cycle=b""):
    """Returns the size of the file in bytes. Layers from `quiet_from` on add a twentieth of what others add, so that
    the model of the layers before them alone (`layers`) mostly agrees with this one on the next token.

    With `cycle` all layers add next to nothing, and each of these bytes is followed by the next one of them, the last
    one by the first: greedy text repeats itself, as fast as the weights are read. Not for q4_k_m, whose two matrices of
    the vocabulary differ in format."""
    kept = layers or shape.layers
    texts = [spelled(bytes([byte])) for byte in range(256)]
    vocabulary = [b"<|endoftext|>"] + texts + [f"<{i}>".encode() for i in range(shape.vocabulary - 257)]
    model = Gguf(TINY_F16)
    model.fields = {b"general.architecture": (STRING, b"llama")}
    for key, value in {"block_count": kept, "context_length": context, "embedding_length": shape.embedding,
                       "feed_forward_length": shape.feed_forward, "attention.head_count": shape.heads,
                       "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head_dimension,
                       "attention.value_length": shape.head_dimension, "expert_count": shape.experts,
                       "expert_used_count": shape.experts_used}.items():
        model.fields[f"llama.{key}".encode()] = (U32, value)
    model.fields[b"llama.attention.layer_norm_rms_epsilon"] = (F32, 1e-5)
    model.fields |= {b"tokenizer.ggml.model": (STRING, b"gpt2"), b"tokenizer.ggml.pre": (STRING, b"gpt-2"),
                     b"tokenizer.ggml.tokens": (ARRAY, (STRING, vocabulary)),
                     b"tokenizer.ggml.token_type": (ARRAY, (5, [3] + [1] * (len(vocabulary) - 1))),
                     b"tokenizer.ggml.merges": (ARRAY, (STRING, [b"! !"])),
                     b"tokenizer.ggml.eos_token_id": (U32, 0),
                     b"general.name": (STRING, b"random")}  # last: the padding after it is found by its zeros
    model.tensors = []
    model.write(path)
    numbered = [(number, *tensor) for number, tensor in enumerate(tensors_of(shape))]  # numbers give values
    written = [t for t in numbered if layer_of(t[1]) < kept]
    # The codes of a block are not quite 0 in the mean, so that layers add up: 22 layers with 2e-4 to half an embedding.
    quiet = (0, 2e-5) if cycle else (quiet_from, 0.05)
    size, begins = append_tensors(path, written, shape, kind, *quiet)
    if cycle:
        link_cycle(path, begins, BLOCK[kind][1] * shape.embedding // BLOCK[kind][0], cycle)
    return size


def link_cycle(path, begins, row, cycle):
    """Gives each byte's row of the head the embedding of the byte before it."""
    token = lambda byte: byte + 1  # the first one is <|endoftext|>
    with open(path, "r+b") as file:
        for before, after in zip(cycle, cycle[1:] + cycle[:1]):
            embedding = os.pread(file.fileno(), row, begins["token_embd.weight"] + token(before) * row)
            os.pwrite(file.fileno(), embedding, begins["output.weight"] + token(after) * row)


def layer_of(name):
    return int(name.split(".")[1]) if name.startswith("blk.") else -1


def is_quiet(name, quiet_from):
    return quiet_from is not None and (".attn_output." in name or ".ffn_down" in name) and \
        layer_of(name) >= quiet_from


def append_tensors(path, tensors, shape, kind, quiet_from, quiet_factor):
    """Gives a file without tensors these, of random values. Returns its size, and where each begins."""
    with open(path, "rb") as file:
        header = file.read()
    infos, at, placed = b"", 0, []
    for number, name, lengths in tensors:
        type_ = "f32" if len(lengths) == 1 else kind_of(name, shape, kind)
        elements, size, code = BLOCK[type_]
        count = 1
        for n in lengths:
            count *= n
        size = count // elements * size
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(lengths))
        infos += b"".join(struct.pack("<Q", n) for n in lengths) + struct.pack("<IQ", code, at)
        # The head has separate values: rows equal to embeddings would be equally likely tokens.
        values = (2 if name == "output.weight" else 1, quiet_factor if is_quiet(name, quiet_from) else 1.0)
        placed.append((number, type_, values, at, size))
        at += (size + 31) // 32 * 32
    head = header[:8] + struct.pack("<Q", len(tensors)) + header[16:model_fields_end(header)] + infos
    head += bytes(-len(head) % 32)
    runs = {(type_, (seed, factor)): pattern(type_, seed, 60013, factor)  # a prime: rows differ
            for type_, (seed, factor) in {p[1:3] for p in placed if p[1] != "f32"}}

    def fill(descriptor, number, type_, values, begin, size):
        if type_ == "f32":
            return write_at(descriptor, struct.pack("<f", 1.0) * (size // 4), size, len(head) + begin)
        run = runs[type_, values]
        first = number * 7919 * BLOCK[type_][1] % len(run)
        return write_at(descriptor, run[first:] + run[:first], size, len(head) + begin)

    with open(path, "wb") as file, concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())) as threads:
        file.write(head)
        file.truncate(len(head) + at)
        file.flush()
        list(threads.map(lambda one: fill(file.fileno(), *one), placed))
    return len(head) + at, {tensor[1]: len(head) + p[3] for tensor, p in zip(tensors, placed)}


def write_at(descriptor, data, size, offset):
    """`size` bytes of copies of `data`, in sequence."""
    for begin in range(0, size, len(data)):
        part = memoryview(data)[:size - begin]
        done = 0
        while done < len(part):
            done += os.pwrite(descriptor, part[done:], offset + begin + done)


def model_fields_end(header):
    """Where the fields of a file without tensors end: what follows is padding."""
    end = len(header)
    while end > 0 and len(header) - end < 32 and header[end - 1] == 0:
        end -= 1
    return end
