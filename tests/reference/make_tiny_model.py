#!/usr/bin/env python3
"""Writes tests/data/tiny/tiny-{f16,q8_0,q4_0}.gguf: a random llama with 2 layers and a byte-level BPE vocabulary.

It says nothing sensible, but does so through every part of the program, in a millisecond. Needs gguf and numpy.
Usage: make_tiny_model.py [output folder]
"""
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

LAYERS, C, H, G, F, CONTEXT = 2, 64, 2, 1, 64, 512  # heads of 32, which a q8_0 KV cache needs
D = C // H
MERGES = 40
TEXT = """The capital of France is Paris. The quick brown fox jumps over the lazy dog, and then the other dog there
thinks that this is the thing to do. What is the answer to the question of life? In the end there is the beginning."""
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_alphabet():
    """GPT-2's map from bytes to printable characters."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names, extra = {}, 0
    for b in range(256):
        if b in keep:
            names[b] = chr(b)
        else:
            names[b] = chr(256 + extra)
            extra += 1
    return names


def train():
    names = byte_alphabet()
    words = [" " + w for w in TEXT.split()]
    words = [[names[b] for b in w.encode()] for w in words]
    tokens, merges = [names[b] for b in range(256)], []
    for _ in range(MERGES):
        pairs = {}
        for w in words:
            for pair in zip(w, w[1:]):
                pairs[pair] = pairs.get(pair, 0) + 1
        a, b = max(sorted(pairs), key=pairs.get)
        merges.append(f"{a} {b}")
        tokens.append(a + b)
        for i, w in enumerate(words):
            out = []
            for piece in w:
                if out and out[-1] == a and piece == b:
                    out[-1] = a + b
                else:
                    out.append(piece)
            words[i] = out
    return tokens, merges


def weights():
    rng = np.random.default_rng(20)
    special = 4

    def matrix(rows, columns, scale):
        return rng.normal(0, scale, (rows, columns)).astype(np.float32)

    vocabulary = 256 + MERGES + special
    embedding = matrix(vocabulary, C, 0.3)
    embedding[-special:] *= 0.01  # the end of the text is never likely
    yield "token_embd.weight", embedding
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        yield name + "attn_norm.weight", rng.uniform(0.8, 1.2, C).astype(np.float32)
        yield name + "attn_q.weight", matrix(H * D, C, 0.2)
        yield name + "attn_k.weight", matrix(G * D, C, 0.2)
        yield name + "attn_v.weight", matrix(G * D, C, 0.2)
        yield name + "attn_output.weight", matrix(C, H * D, 0.2)
        yield name + "ffn_norm.weight", rng.uniform(0.8, 1.2, C).astype(np.float32)
        yield name + "ffn_gate.weight", matrix(F, C, 0.2)
        yield name + "ffn_up.weight", matrix(F, C, 0.2)
        yield name + "ffn_down.weight", matrix(C, F, 0.2)
    yield "output_norm.weight", rng.uniform(0.8, 1.2, C).astype(np.float32)


def write(path, quantization, file_type):
    tokens, merges = train()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>"]
    base = len(tokens)
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("Tiny")
    w.add_file_type(file_type)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(C)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(F)
    w.add_head_count(H)
    w.add_head_count_kv(G)
    w.add_rope_dimension_count(D)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(base + len(specials))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens + specials)
    w.add_token_types([1] * base + [3] * len(specials))
    w.add_token_merges(merges)
    w.add_bos_token_id(base)
    w.add_eos_token_id(base + 2)
    w.add_pad_token_id(base + 3)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)
    for name, value in weights():
        if value.ndim == 1:
            w.add_tensor(name, value)
        elif quantization == Q.F16:
            w.add_tensor(name, value.astype(np.float16))
        else:
            w.add_tensor(name, gguf.quants.quantize(value, quantization), raw_dtype=quantization)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "tiny")
    out.mkdir(parents=True, exist_ok=True)
    write(out / "tiny-f16.gguf", Q.F16, gguf.LlamaFileType.MOSTLY_F16)
    write(out / "tiny-q8_0.gguf", Q.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0)
    write(out / "tiny-q4_0.gguf", Q.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0)


main()
