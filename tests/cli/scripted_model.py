"""A model file that says a given list of texts: one token each, in this order, after the prompt "a". Its one layer adds
nothing, so that the logits depend on the last token alone; row i of the output head is highest at token i - 1."""
import struct

from gguf_edit import ARRAY, F32, STRING, U32, Gguf, Tensor
from support import TINY_F16

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 2
CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + m['content'] + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}a{% endif %}")


def spelled(data):
    """Bytes as GPT-2's vocabularies write them: printable ones as themselves, the others from U+0100 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return "".join(chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in data).encode()


def write(path, texts, context=512, chains=(), chat=CHAT, alphabet=b"abcdefghijklmnopqrstuvwxyz \n"):
    """`texts`: bytes or str, no two of them equal, none of them "a". The generation ends after the last. `chains`: pairs of a letter
    and texts; a prompt that ends with the letter gets these. `alphabet`: bytes that prompts are made of."""
    as_bytes = lambda texts: [text if isinstance(text, bytes) else text.encode() for text in texts]
    chains = [as_bytes(["a", *texts]), *(as_bytes([letter, *more]) for letter, more in chains)]
    said = [text for chain in chains for text in chain]
    letters = [bytes([byte]) for byte in alphabet if bytes([byte]) not in said]
    vocabulary = [s.encode() for s in SPECIAL] + [spelled(b) for b in [*said, *letters]]
    size, after, token = len(vocabulary), {}, len(SPECIAL)
    for chain in chains:
        last = token + len(chain) - 1
        after |= {one: one + 1 for one in range(token, last)} | {last: END}
        token = last + 1
    rows = [[0.0] * size for _ in range(size)]
    for token, following in after.items():
        rows[following][token] = 10.0
    identity = [[float(i == j) for j in range(size)] for i in range(size)]

    model = Gguf(TINY_F16)
    model.fields = {b"general.architecture": (STRING, b"llama"), b"general.name": (STRING, b"scripted")}
    for key, value in {"block_count": 1, "context_length": context, "embedding_length": size, "feed_forward_length": 2,
                       "attention.head_count": 1, "attention.head_count_kv": 1, "attention.key_length": 2,
                       "attention.value_length": 2}.items():
        model.fields[f"llama.{key}".encode()] = (U32, value)
    model.fields[b"llama.attention.layer_norm_rms_epsilon"] = (F32, 1e-12)
    model.fields |= {b"tokenizer.ggml.model": (STRING, b"gpt2"), b"tokenizer.ggml.pre": (STRING, b"gpt-2"),
                     b"tokenizer.ggml.tokens": (ARRAY, (STRING, vocabulary)),
                     b"tokenizer.ggml.token_type": (ARRAY, (5, [3] * 3 + [1] * (size - 3))),
                     b"tokenizer.ggml.merges": (ARRAY, (STRING, [b"! !"])),
                     b"tokenizer.ggml.eos_token_id": (U32, END), b"tokenizer.chat_template": (STRING, chat.encode())}
    flat = lambda values: struct.pack(f"<{len(values)}f", *values)
    matrix = lambda name, lines: Tensor(name.encode(), [len(lines[0]), len(lines)], 0, flat([x for line in lines for x in line]))
    zeros = lambda name, columns, count: matrix(name, [[0.0] * columns] * count)
    ones = lambda name: Tensor(name.encode(), [size], 0, flat([1.0] * size))
    block = "blk.0."
    model.tensors = [matrix("token_embd.weight", identity), ones("output_norm.weight"), matrix("output.weight", rows),
                     ones(block + "attn_norm.weight"), *(zeros(f"{block}attn_{x}.weight", size, 2) for x in "qkv"),
                     zeros(block + "attn_output.weight", 2, size), ones(block + "ffn_norm.weight"),
                     zeros(block + "ffn_gate.weight", size, 2), zeros(block + "ffn_up.weight", size, 2),
                     zeros(block + "ffn_down.weight", 2, size)]
    model.write(path)
    return str(path)
