"""Llama models of random weights of any size, for streaming: written block by block, so that the file may be larger than
memory. The vocabulary has a token for each byte, then as many others as the shape asks for."""
import dataclasses
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
    "olmoe-1b-7b": Shape(16, 2048, 16, 16, 1024, 50304, 128, 64, 8),  # its sizes, with Mixtral's layers
}
SCALE = {"f16": 0.02, "q8_0": 0.02 / 74, "q4_0": 0.02 / 4.6}  # standard deviation 0.02
BLOCK = {"f16": (1, 2, 1), "q8_0": (32, 34, 8), "q4_0": (32, 18, 2), "f32": (1, 4, 0)}  # elements, bytes, code in GGUF


def pattern(kind, seed, blocks):
    """`blocks` blocks of random weights."""
    source = random.Random(seed)
    if kind == "f16":
        return b"".join(struct.pack("<e", source.gauss(0, SCALE[kind])) for _ in range(blocks))
    scale, size = struct.pack("<e", SCALE[kind]), BLOCK[kind][1] - 2
    return b"".join(scale + source.randbytes(size) for _ in range(blocks))


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


def write(path, shape, kind="q4_0", context=512):
    """Returns the size of the file in bytes."""
    texts = [spelled(bytes([byte])) for byte in range(256)]
    vocabulary = [b"<|endoftext|>"] + texts + [f"<{i}>".encode() for i in range(shape.vocabulary - 257)]
    model = Gguf(TINY_F16)
    model.fields = {b"general.architecture": (STRING, b"llama")}
    for key, value in {"block_count": shape.layers, "context_length": context, "embedding_length": shape.embedding,
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
    return append_tensors(path, list(tensors_of(shape)), kind)


def append_tensors(path, tensors, kind):
    """Gives a file without tensors these, of random values."""
    with open(path, "rb") as file:
        header = file.read()
    infos, at = b"", 0
    sizes = []
    for name, shape in tensors:
        type_ = "f32" if len(shape) == 1 else kind
        elements, size, code = BLOCK[type_]
        count = 1
        for n in shape:
            count *= n
        size = count // elements * size
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", code, at)
        sizes.append((type_, count, size))
        at += (size + 31) // 32 * 32
    fields_end = model_fields_end(header)
    head = header[:8] + struct.pack("<Q", len(tensors)) + header[16:fields_end] + infos
    run = {kind: pattern(kind, 1, 60013)}  # a prime: rows differ
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for number, (type_, count, size) in enumerate(sizes):
            if type_ == "f32":
                file.write(struct.pack("<f", 1.0) * count)
            else:
                block = BLOCK[type_][1]
                begin = number * 7919 * block % len(run[type_])
                data = run[type_][begin:] + run[type_][:begin]
                for _ in range(size // len(data)):
                    file.write(data)
                file.write(data[:size % len(data)])
            file.write(bytes(-size % 32))
        return file.tell()


def model_fields_end(header):
    """Where the fields of a file without tensors end: what follows is padding."""
    end = len(header)
    while end > 0 and len(header) - end < 32 and header[end - 1] == 0:
        end -= 1
    return end
