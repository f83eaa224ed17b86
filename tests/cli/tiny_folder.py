"""Llama models of random weights as folders of safetensors, whose values a test knows. Standard library alone."""
import array
import json
import pathlib
import random
import struct

LETTERS = ["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz ", "<x0>", "<x1>", "<x2>", "<x3>", "<x4>", "<x5>"]


def write_safetensors(path, tensors):
    """tensors: {name: (shape, values)}; values are floats, or the name of a type and bytes."""
    header, body = {}, bytearray()
    for name, (shape, values) in tensors.items():
        kind, data = values if isinstance(values, tuple) else ("F32", array.array("f", values).tobytes())
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    """{name: (shape, type, bytes)}"""
    raw = pathlib.Path(path).read_bytes()
    length, = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], entry["dtype"], raw[8 + length + entry["data_offsets"][0]:
                                                      8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def random_values(seed, count, deviation=0.05):
    source = random.Random(seed)
    return array.array("f", [source.gauss(0, deviation) for _ in range(count)])


def llama_tensors(hidden=32, feed_forward=32, layers=1, heads=2, vocabulary=36, seed=1):
    """{name: (shape, values)}; heads have hidden / heads dimensions, and one head of keys."""
    head = hidden // heads
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden),
              "model.norm.weight": (hidden,)}
    for i in range(layers):
        layer = f"model.layers.{i}."
        shapes |= {layer + "self_attn.q_proj.weight": (hidden, hidden), layer + "self_attn.k_proj.weight": (head, hidden),
                   layer + "self_attn.v_proj.weight": (head, hidden), layer + "self_attn.o_proj.weight": (hidden, hidden),
                   layer + "mlp.gate_proj.weight": (feed_forward, hidden), layer + "mlp.up_proj.weight": (feed_forward, hidden),
                   layer + "mlp.down_proj.weight": (hidden, feed_forward), layer + "input_layernorm.weight": (hidden,),
                   layer + "post_attention_layernorm.weight": (hidden,)}
    tensors = {}
    for number, (name, shape) in enumerate(shapes.items()):
        if len(shape) == 1:
            tensors[name] = (shape, array.array("f", [1.0] * shape[0]))
        else:
            tensors[name] = (shape, random_values(1000 * seed + number, shape[0] * shape[1]))
    return tensors


def config_of(tensors, layers=1, heads=2, **more):
    vocabulary, hidden = tensors["model.embed_tokens.weight"][0]
    feed_forward = tensors["model.layers.0.mlp.up_proj.weight"][0][0]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
            "intermediate_size": feed_forward, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": 1, "head_dim": hidden // heads, "vocab_size": vocabulary,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, **more}


def write_tokenizer(folder, names=None, eos="</s>"):
    names = names or LETTERS
    special = [name for name in names if name.startswith("<") and not name.startswith("<x")]
    tokens = [{"id": names.index(name), "content": name, "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True} for name in special]
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None,
                "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
                "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                          "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                          "vocab": {name: i for i, name in enumerate(names)}, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": eos, "unk_token": "<unk>"}))


def write_llama(folder, tensors=None, layers=1, heads=2, generation=None, names=None, **config):
    """Returns its tensors, as llama_tensors() has them."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors or llama_tensors(layers=layers, heads=heads)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(config_of(tensors, layers, heads, **config)))
    write_tokenizer(folder, names)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return tensors
